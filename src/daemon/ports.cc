// Published ports. What the record says holds: it is written first, and a daemon that was killed
// before it had handed the socket over does so when it comes back.
#include "ports.h"

#include "impl.h"

namespace mvm::daemon {

// The sandbox process answers from its loop; one that has just been started shuts itself in first.
static constexpr milliseconds kHandOverLimit{10'000};
static constexpr milliseconds kAskLimit{1'000};

std::vector<sys::Fd> listen_on(std::vector<proto::PublishedPort>& ports) {
  std::vector<sys::Fd> listeners;
  for (proto::PublishedPort& port : ports)
    listeners.push_back(sys::listen_tcp(port.address, port.host));
  return listeners;
}

void Daemon::Impl::hand_over(const Record& record, const std::vector<proto::PublishedPort>& ports,
                             const std::vector<sys::Fd>& listeners) const {
  std::vector<int> passed;
  for (const sys::Fd& listener : listeners) passed.push_back(listener.get());
  control(record).publish(ports, passed, kHandOverLimit);
}

// Before anybody can connect.
void Daemon::Impl::record_ports(const Record& record,
                                const std::vector<proto::PublishedPort>& ports) {
  for (const proto::PublishedPort& port : ports)
    audit_->record(audit::PortPublished{audit::LogId(record.id), audit::Name(record.name()),
                                        port.address, port.host, port.guest});
}

static auto find_port(std::vector<proto::PublishedPort>& ports, const proto::PublishedPort& port) {
  return std::find_if(ports.begin(), ports.end(), [&](const proto::PublishedPort& each) {
    return each.address == port.address && each.host == port.host;
  });
}

static bool has_process(SandboxState state) {
  return state == SandboxState::Starting || state == SandboxState::Running;
}

proto::PublishedPort Daemon::Impl::publish(const std::string& name,
                                           const proto::PublishedPort& port) {
  const EntryPtr entry = find(name);
  const std::lock_guard operation(entry->operation);
  Record record = usable(entry);
  std::vector<proto::PublishedPort> added{port};
  if (port.guest == 0) throw Error(Kind::Invalid, "port.guest: must be 1 to 65535");
  if (record.state == SandboxState::Stopping)
    throw Error(Kind::Conflict, "sandbox " + record.name() + " is stopping");
  if (record.spec.ports.size() >= proto::kMaxPublishedPorts)
    throw api::ApiError(Kind::Exhausted,
                        "sandbox " + record.name() + " has " +
                            std::to_string(proto::kMaxPublishedPorts) + " published ports already",
                        "remove one with: mvm port " + record.name() + " --remove HOST");
  if (const auto same = find_port(record.spec.ports, port);
      port.host != 0 && same != record.spec.ports.end())
    throw api::ApiError(Kind::Conflict,
                        same->place() + " leads to port " + std::to_string(same->guest) +
                            " of sandbox " + record.name() + " already",
                        "mvm port " + record.name() + " --remove " + same->place());
  std::vector<sys::Fd> listeners;
  if (has_process(record.state)) listeners = listen_on(added);
  if (!listeners.empty()) record_ports(record, added);
  transition(entry, [&](Record& next) { next.spec.ports.push_back(added.front()); });
  if (listeners.empty()) return added.front();  // from its next start on
  ScopeExit undo([&] {
    audit_->note(audit::PortWithdrawn{audit::LogId(record.id), audit::Name(record.name()),
                                      added.front().address, added.front().host});
    try {
      transition(entry, [&](Record& next) {
        if (const auto at = find_port(next.spec.ports, added.front()); at != next.spec.ports.end())
          next.spec.ports.erase(at);
      });
    } catch (const Error& error) {
      log_.error("taking a published port back failed",
                 {{"name", record.name()}, {"why", error.message()}});
    }
  });
  while_doing("publishing " + added.front().place(), [&] { hand_over(record, added, listeners); });
  undo.release();
  return added.front();
}

void Daemon::Impl::unpublish(const std::string& name, const proto::PublishedPort& port) {
  const EntryPtr entry = find(name);
  const std::lock_guard operation(entry->operation);
  Record record = usable(entry);
  if (find_port(record.spec.ports, port) == record.spec.ports.end())
    throw api::ApiError(Kind::NotFound,
                        port.place() + " is no published port of sandbox " + record.name(),
                        "mvm port " + record.name() + " lists them");
  if (has_process(record.state)) {
    audit_->note(audit::PortWithdrawn{audit::LogId(record.id), audit::Name(record.name()),
                                      port.address, port.host});
    try {
      control(record).unpublish(port, kHandOverLimit);
    } catch (const Error& error) {
      if (error.kind() != Kind::NotFound) throw;  // it may have been removed, and not recorded
    }
  }
  transition(entry, [&](Record& next) {
    if (const auto at = find_port(next.spec.ports, port); at != next.spec.ports.end())
      next.spec.ports.erase(at);
  });
}

// Of a sandbox that was adopted: the last daemon may have been killed between record and socket.
void Daemon::Impl::restore_ports(const Record& record) {
  if (record.spec.ports.empty()) return;
  try {
    auto held = control(record).ports(kAskLimit);
    std::vector<proto::PublishedPort> missing;
    for (const proto::PublishedPort& port : record.spec.ports)
      if (port.host != 0 && find_port(held, port) == held.end()) missing.push_back(port);
    if (missing.empty()) return;
    hand_over(record, missing, listen_on(missing));
    for (const proto::PublishedPort& port : missing)
      repaired("published " + port.text() + " of sandbox " + record.name());
  } catch (const Error& error) {
    repaired("could not look after the published ports of sandbox " + record.name() + ": " +
             error.message());
  }
}

}
