#include "pin_table.h"

#include <algorithm>

namespace mvm::egress {
namespace {

// Programs keep an address for longer than its TTL says: a browser a minute, Java half of one. A
// pin outlasts that; what is on the address now is checked by name anyway where there is TLS.
constexpr std::chrono::seconds kShortestPin{120};

}

bool PinTable::pin(const dns::Name& name, const IpAddress& address, std::span<const uint16_t> ports,
                   Time now, Time until) {
  auto found = entries_.find(address);
  if (found == entries_.end()) {
    if (entries_.size() >= kMaxAddresses && !make_room(now)) return false;
    found = entries_.emplace(address, Entry{}).first;
  }
  Entry& entry = found->second;
  pin_ports(address, entry, ports);
  auto known = std::ranges::find(entry.names, name, &PinnedName::name);
  if (known == entry.names.end()) {
    if (entry.names.size() >= kMaxNames)
      entry.names.erase(std::ranges::min_element(entry.names, {}, &PinnedName::until));
    known = entry.names.insert(entry.names.end(), {name, until, 0});
  }
  known->until = std::max(known->until, until);
  known->turn = ++turn_;
  entry.until = std::max(entry.until, until);
  return true;
}

void PinTable::pin_ports(const IpAddress& address, Entry& entry, std::span<const uint16_t> ports) {
  for (const uint16_t port : ports) {
    if (std::ranges::find(entry.ports, port) != entry.ports.end()) continue;
    if (std::ranges::find(doors_, Endpoint{address, port}) != doors_.end()) continue;
    kernel_.add(address, port);
    entry.ports.push_back(port);
    ++kernel_pins_;
  }
}

void PinTable::open(const std::vector<Endpoint>& doors) {
  for (const Endpoint& door : doors) kernel_.add(door.address, door.port);
  doors_ = doors;
}

void PinTable::repin(const std::function<std::vector<uint16_t>(const dns::Name&)>& ports_of) {
  for (auto& [address, entry] : entries_) {
    std::vector<uint16_t> wanted;
    for (const PinnedName& pinned : entry.names) {
      const auto ports = ports_of(pinned.name);
      wanted.insert(wanted.end(), ports.begin(), ports.end());
    }
    pin_ports(address, entry, wanted);
    kernel_pins_ -= std::erase_if(entry.ports, [&](uint16_t port) {
      if (std::ranges::find(wanted, port) != wanted.end()) return false;
      kernel_.remove(address, port);
      return true;
    });
  }
}

std::vector<dns::Name> PinTable::names_of(const IpAddress& address, Time now) const {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return {};
  std::vector<const PinnedName*> live;
  for (const PinnedName& pinned : found->second.names)
    if (pinned.until > now || found->second.flows > 0) live.push_back(&pinned);
  std::ranges::sort(live, std::greater<>(), &PinnedName::turn);
  std::vector<dns::Name> names;
  for (const PinnedName* pinned : live) names.push_back(pinned->name);
  return names;
}

bool PinTable::hold(const IpAddress& address) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return false;
  ++found->second.flows;
  return true;
}

void PinTable::release(const IpAddress& address) {
  const auto found = entries_.find(address);
  if (found != entries_.end() && found->second.flows > 0) --found->second.flows;
}

PinTable::Entries::iterator PinTable::forget(Entries::iterator entry) {
  for (const uint16_t port : entry->second.ports) kernel_.remove(entry->first, port);
  kernel_pins_ -= entry->second.ports.size();
  return entries_.erase(entry);
}

bool PinTable::make_room(Time now) {
  expire(now);
  if (entries_.size() < kMaxAddresses) return true;
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if (entry->second.flows == 0 &&
        (oldest == entries_.end() || entry->second.until < oldest->second.until))
      oldest = entry;
  if (oldest == entries_.end()) return false;
  forget(oldest);
  return true;
}

void PinTable::expire(Time now) {
  for (auto entry = entries_.begin(); entry != entries_.end();)
    entry =
        entry->second.flows == 0 && entry->second.until <= now ? forget(entry) : std::next(entry);
}

void PinTable::clear() {
  for (auto entry = entries_.begin(); entry != entries_.end();) entry = forget(entry);
}

bool pin_answer(PinTable& pins, const Judge& judge, const dns::Name& name,
                const dns::Record& record, PinTable::Time now) {
  const auto lifetime = std::max(std::chrono::seconds(record.ttl), kShortestPin);
  return pins.pin(name, *record.address(), judge.ports_of(name), now, now + lifetime);
}

}
