#include "mvm/net/pins.h"

#include <algorithm>

#include <arpa/inet.h>

#include "nft_batch.h"
#include "rules.h"

namespace mvm::net {
namespace {

// An address and, in a word of its own, a port.
Bytes pin_key(const IpAddress& address, uint16_t port) {
  Bytes key;
  Writer out(key);
  out.bytes(std::as_bytes(address.bytes()));
  out.u16be(port);
  out.u16(0);
  return key;
}

// The first address behind the range; nothing when the range reaches to the end.
std::optional<Bytes> behind(const IpPrefix& range) {
  const auto address = std::as_bytes(range.address().bytes());
  Bytes end(address.begin(), address.end());
  // Adds one at the prefix's last bit, and carries.
  for (unsigned bit = range.length(); bit > 0; --bit) {
    std::byte& byte = end[(bit - 1) / 8];
    const auto one = std::byte{0x80} >> ((bit - 1) % 8);
    byte ^= one;
    if ((byte & one) != std::byte{0}) return end;
  }
  return std::nullopt;
}

}

Pins::Pins(sys::Fd socket) : socket_(std::move(socket)) {}

void Pins::add(const IpAddress& address, uint16_t port) {
  NftBatch batch;
  batch.add_element(address.is_v4() ? kPins4 : kPins6, pin_key(address, port));
  batch.commit(socket_.get(), "pinning " + address.text());
}

void Pins::remove(const IpAddress& address, uint16_t port) {
  NftBatch batch;
  batch.remove_element(address.is_v4() ? kPins4 : kPins6, pin_key(address, port));
  batch.commit(socket_.get(), "releasing " + address.text());
}

void Pins::set_ranges(std::span<const IpPrefix> ranges) {
  NftBatch batch;
  batch.clear_set(kRanges4);
  batch.clear_set(kRanges6);
  for (const IpPrefix& range : ranges) {
    // A set takes no range inside another; the outer one opens both. Of equals, the first.
    const bool covered = std::ranges::any_of(ranges, [&](const IpPrefix& other) {
      return &other != &range && other.contains(range.address()) &&
             (other.length() < range.length() ||
              (other.length() == range.length() && &other < &range));
    });
    if (covered) continue;
    const char* set = range.address().is_v4() ? kRanges4 : kRanges6;
    batch.add_element(set, std::as_bytes(range.address().bytes()));
    if (const auto end = behind(range)) batch.add_element(set, *end, true);
  }
  batch.commit(socket_.get(), "opening ranges");
}

void Pins::add_range(const IpPrefix& range) {
  const char* set = range.address().is_v4() ? kRanges4 : kRanges6;
  NftBatch batch;
  batch.add_element(set, std::as_bytes(range.address().bytes()));
  if (const auto end = behind(range)) batch.add_element(set, *end, true);
  batch.commit(socket_.get(), "opening " + range.text());
}

}
