#include "control.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>

#include "mvm/proto/frame.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::daemon {

using Clock = std::chrono::steady_clock;

namespace {

constexpr uint32_t kStream = 1;

// Waits for `events` of the socket. Throws when that is not what happens.
void wait_for(int fd, short events, int interrupt, Clock::time_point deadline) {
  std::array<pollfd, 2> entries{pollfd{fd, events, 0}, pollfd{interrupt, POLLIN, 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw Error(Kind::Timeout, "the sandbox did not answer in time");
    const int ready = ::poll(entries.data(), entries.size(),
                             static_cast<int>(std::min<int64_t>(left, 3'600'000)));
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for the sandbox");
    if (ready <= 0) continue;
    if (entries[0].revents != 0) return;
    throw Error(Kind::Unavailable, "the daemon is stopping");
  }
}

// The payload of the End of our one stream.
Bytes read_end(int fd, int interrupt, Clock::time_point deadline) {
  proto::FrameDecoder decoder;
  while (true) {
    while (const auto frame = decoder.next()) {
      if (frame->type == proto::FrameType::Hello) {
        const auto hello = proto::Hello::decode(frame->payload);
        if (!hello || hello->version != proto::kProtocolVersion)
          throw Error(Kind::Unsupported, "the sandbox runs another version of mvm");
      }
      if (frame->stream == kStream && frame->type == proto::FrameType::End)
        return Bytes(frame->payload.begin(), frame->payload.end());
    }
    if (decoder.fault()) throw Error(Kind::Internal, "the sandbox does not speak the protocol");
    wait_for(fd, POLLIN, interrupt, deadline);
    const auto got = sys::read_some(fd, decoder.space());
    if (got && *got == 0) throw Error(Kind::Unavailable, "the sandbox process went away");
    decoder.commit(got.value_or(0));
  }
}

}

Bytes SandboxControl::ask(ByteView request, std::chrono::milliseconds limit,
                          std::span<const int> passed) const {
  const auto deadline = Clock::now() + limit;
  const auto fd = sys::connect_unix(socket_, sys::Blocking::No);
  if (!fd) throw Error(Kind::Unavailable, "the sandbox process does not accept connections");
  Bytes out;
  proto::Hello hello;
  hello.role = "daemon";
  proto::append_frame(out, proto::kConnectionStream, proto::FrameType::Hello, hello.encode());
  proto::append_frame(out, kStream, proto::FrameType::Request, request);
  Bytes payload;
  try {
    if (!passed.empty()) {
      // The first that this socket carries, and far below what it takes at once.
      sys::send_message(fd->get(), out, passed);
      out.clear();
    }
    for (ByteView rest = out; !rest.empty();) {
      wait_for(fd->get(), POLLOUT, interrupt_, deadline);
      rest = rest.subspan(sys::write_some(fd->get(), rest).value_or(0));
    }
    payload = read_end(fd->get(), interrupt_, deadline);
  } catch (const SystemError& error) {
    if (error.errno_value() != EPIPE && error.errno_value() != ECONNRESET) throw;
    throw Error(Kind::Unavailable, "the sandbox process went away");
  }
  const auto end = proto::End::decode(payload);
  if (!end) throw Error(Kind::Internal, "the sandbox does not speak the protocol");
  if (end->error) throw Error(end->error->kind, end->error->message);
  return Bytes(end->result.begin(), end->result.end());
}

void SandboxControl::ready(std::chrono::milliseconds limit) const {
  ask(proto::encode_request(proto::kSandboxReadyVerb), limit);
}

proto::SandboxStatus SandboxControl::status(std::chrono::milliseconds limit) const {
  const Bytes result = ask(proto::encode_request(proto::kSandboxStatusVerb), limit);
  const auto status = proto::SandboxStatus::decode(result);
  if (!status) throw Error(Kind::Internal, "the sandbox does not speak the protocol");
  return *status;
}

std::vector<proto::PublishedPort> SandboxControl::ports(std::chrono::milliseconds limit) const {
  const auto list =
      proto::PortList::decode(ask(proto::encode_request(proto::kSandboxPortsVerb), limit));
  if (!list) throw Error(Kind::Internal, "the sandbox does not speak the protocol");
  return list->ports;
}

void SandboxControl::publish(const std::vector<proto::PublishedPort>& ports,
                             std::span<const int> listeners,
                             std::chrono::milliseconds limit) const {
  ask(proto::PublishRequest{ports}.encode(), limit, listeners);
}

void SandboxControl::unpublish(const proto::PublishedPort& port,
                               std::chrono::milliseconds limit) const {
  ask(proto::UnpublishRequest{port}.encode(), limit);
}

void SandboxControl::stop(const proto::StopRequest& request,
                          std::chrono::milliseconds limit) const {
  ask(request.encode(), limit);
}

void SandboxControl::change_ai_budget(const proto::AiBudgetRequest& request,
                                      std::chrono::milliseconds limit) const {
  ask(request.encode(), limit);
}

proto::EgressCounters SandboxControl::counters(std::chrono::milliseconds limit) const {
  const Bytes result = ask(proto::encode_request(proto::kSandboxCountersVerb), limit);
  const auto counters = proto::EgressCounters::decode(result);
  if (!counters) throw Error(Kind::Internal, "the sandbox does not speak the protocol");
  return *counters;
}

}
