#include "ports.h"

#include <algorithm>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

// How many are let in a turn before others have theirs.
static constexpr int kAcceptsPerTurn = 16;
static constexpr std::chrono::milliseconds kRetryTime{100};

static bool is_listener(int fd) {
  int accepts = 0;
  socklen_t size = sizeof accepts;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && accepts != 0;
}

// ---- requests -------------------------------------------------------------------------------

bool Ports::answer(Asker asker, ByteView request) {
  const auto verb = proto::request_verb(request).value_or("");
  const auto fail = [&](Kind kind, std::string message) {
    mux_->answer(asker, proto::encode_error({kind, std::move(message)}));
    return true;
  };
  if (verb == proto::kSandboxPortsVerb) {
    proto::PortList list;
    for (const Listener& listener : listeners_) list.ports.push_back(listener.port);
    mux_->answer(asker, proto::encode_ok(list.encode()));
    return true;
  }
  if (verb == proto::kSandboxPublishVerb) {
    auto listeners = mux_->take_descriptors(asker.client);
    const auto publishing = proto::PublishRequest::decode(request);
    if (!publishing) return fail(Kind::Invalid, "the request does not decode");
    try {
      publish(publishing->ports, std::move(listeners));
    } catch (const Error& error) {
      return fail(error.kind(), error.message());
    }
    mux_->answer(asker, proto::encode_ok());
    return true;
  }
  if (verb == proto::kSandboxUnpublishVerb) {
    const auto unpublishing = proto::UnpublishRequest::decode(request);
    if (!unpublishing) return fail(Kind::Invalid, "the request does not decode");
    const Listener* const found = find(unpublishing->port);
    if (found == nullptr)
      return fail(Kind::NotFound, unpublishing->port.place() + " is no published port");
    listeners_.remove_if([&](const Listener& each) { return &each == found; });
    mux_->answer(asker, proto::encode_ok());
    return true;
  }
  return false;
}

Ports::Listener* Ports::find(const proto::PublishedPort& port) {
  for (Listener& each : listeners_)
    if (each.port.address == port.address && each.port.host == port.host) return &each;
  return nullptr;
}

void Ports::publish(const std::vector<proto::PublishedPort>& ports,
                    std::vector<sys::Fd> listeners) {
  if (ports.size() != listeners.size() ||
      !std::all_of(listeners.begin(), listeners.end(),
                   [](const sys::Fd& fd) { return is_listener(fd.get()); }))
    throw Error(Kind::Invalid, "each port needs a listening socket");
  if (listeners_.size() + ports.size() > proto::kMaxPublishedPorts)
    throw Error(
        Kind::Exhausted,
        "a sandbox has at most " + std::to_string(proto::kMaxPublishedPorts) + " published ports");
  for (const proto::PublishedPort& port : ports)
    if (find(port) != nullptr) throw Error(Kind::Conflict, port.place() + " is published already");
  for (size_t i = 0; i < ports.size(); ++i) {
    sys::set_nonblocking(listeners[i].get());
    Listener& added = listeners_.emplace_back();
    added.port = ports[i];
    added.socket = std::move(listeners[i]);
    added.watch = loop_->watch(added.socket.get(), 0, [this, &added](uint32_t) { accept(added); });
  }
  update();
}

// ---- connections ----------------------------------------------------------------------------

void Ports::start() {
  started_ = true;
  update();
}

void Ports::close() {
  listeners_.clear();
  connections_.clear();
}

void Ports::update() {
  const bool room = started_ && connections_.size() < kMaxConnections;
  for (Listener& listener : listeners_)
    if (listener.watch && !listener.retry) listener.watch.set_events(room ? EPOLLIN : 0U);
}

void Ports::accept(Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn && connections_.size() < kMaxConnections; ++i) {
    std::optional<sys::Fd> client;
    try {
      client = sys::accept_connection(listener.socket.get());
    } catch (const Error&) {
      // Out of descriptors, for a moment one hopes: the client waits in the queue meanwhile.
      listener.watch.set_events(0);
      listener.retry = loop_->after(kRetryTime, [this, &listener] {
        listener.retry.reset();
        update();
      });
      return;
    }
    if (!client) break;
    const uint64_t id = next_id_++;
    connections_[id] = std::make_unique<Forward>(*loop_, *mux_, std::move(*client),
                                                 listener.port.guest, [this, id] {
                                                   connections_.erase(id);
                                                   update();
                                                 });
  }
  update();
}

}
