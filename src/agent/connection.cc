#include "mvm/agent/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::agent {

using proto::FrameType;

// Window frames towards a sandbox that sends and does not read; more than this and we stop reading
// too. A request and a window of data fit beside each other.
static constexpr size_t kMaxQueued = size_t{512} * 1024;

static bool is_gone(const SystemError& error) {
  return error.errno_value() == EPIPE || error.errno_value() == ECONNRESET;
}

Connection::Connection(sys::Fd socket, int interrupt)
    : socket_(std::move(socket)), interrupt_(interrupt) {
  sys::set_nonblocking(socket_.get());
}

Connection Connection::connect(const std::string& control_socket, int interrupt) {
  // A sandbox process that no longer accepts is as good as none.
  auto socket = sys::connect_unix(control_socket, sys::Blocking::No);
  if (!socket) throw Error(Kind::Unavailable, "the sandbox does not answer on " + control_socket);
  return Connection(std::move(*socket), interrupt);
}

void Connection::fail(mvm::Kind kind, std::string message) {
  socket_.reset();
  throw Error(kind, std::move(message));
}

void Connection::garbage(const char* what) {
  fail(Kind::Unavailable, std::string("the sandbox speaks garbage: ") + what);
}

// ---- a conversation -------------------------------------------------------------------------

void Connection::start(ByteView request, Call::Kind kind) {
  if (!socket_) throw Error(Kind::Unavailable, "the connection to the sandbox has ended");
  MVM_ASSERT(!call_ || call_->ended());
  if (!said_hello_) {
    proto::Hello hello;
    hello.role = "client";
    proto::append_frame(out_, proto::kConnectionStream, FrameType::Hello, hello.encode());
    said_hello_ = true;
  }
  proto::append_frame(out_, next_stream_, FrameType::Request, request);
  call_.emplace(next_stream_++, kind);
}

size_t Connection::room() const noexcept { return std::min(call_->credit(), proto::kMaxPayload); }

void Connection::send_data(ByteView data) {
  call_->spend(data.size());
  const proto::FrameHead head = proto::frame_head(call_->stream(), FrameType::Data, data.size());
  // Straight to the socket while nothing waits before it.
  size_t sent = 0;
  if (socket_ && out_.empty()) {
    try {
      sent = sys::send_some(socket_.get(), head, data).value_or(0);
    } catch (const SystemError& error) {
      if (!is_gone(error)) throw;
      return;  // as in flush()
    }
  }
  Writer writer(out_);
  writer.bytes(ByteView(head).subspan(std::min(sent, head.size())));
  writer.bytes(data.subspan(sent - std::min(sent, head.size())));
}

void Connection::send_end_of_data() { proto::append_frame(out_, call_->stream(), FrameType::Eof); }

void Connection::send_now() {
  try {
    flush();
  } catch (const SystemError&) {
    socket_.reset();
    throw;
  }
}

void Connection::consumed(size_t length) {
  const auto credit = call_->consume(length);
  if (credit) proto::append_window(out_, call_->stream(), *credit);
}

Incoming Connection::wait(Limit limit) { return wait_or_writable(-1, limit).value(); }

std::optional<Incoming> Connection::wait_or_writable(int other, Limit limit) {
  const auto deadline = limit ? std::optional(Clock::now() + *limit) : std::nullopt;
  try {
    while (true) {
      if (auto incoming = next_incoming()) return incoming;
      flush();
      if (!wait_for_socket(deadline, limit, other)) return std::nullopt;
      receive();
    }
  } catch (const SystemError& error) {
    if (!is_gone(error)) throw;
    fail(Kind::Unavailable, "the sandbox closed the connection");
  }
}

std::optional<Incoming> Connection::next_incoming() {
  while (const auto frame = decoder_.next()) {
    if (!greeted_) {
      greet(*frame);
      continue;
    }
    const Incoming incoming = call_->on_frame(*frame);
    if (incoming.what == Incoming::What::Nothing) continue;
    if (incoming.what == Incoming::What::Fault) garbage(incoming.fault);
    if (incoming.what != Incoming::What::End) return incoming;
    auto end = proto::End::decode(incoming.payload);
    if (!end) garbage("an end that does not decode");
    if (end->error) throw Error(end->error->kind, printable(end->error->message, kMaxErrorText));
    Incoming good;
    good.what = Incoming::What::End;
    good.payload = end->result;
    return good;
  }
  if (decoder_.fault()) garbage("not a frame");
  return std::nullopt;
}

void Connection::greet(const proto::Frame& frame) {
  if (frame.stream != proto::kConnectionStream || frame.type != FrameType::Hello)
    garbage("no greeting");
  const auto hello = proto::Hello::decode(frame.payload);
  if (!hello) garbage("a greeting that does not decode");
  if (hello->version != proto::kProtocolVersion)
    fail(Kind::Unsupported, "the sandbox was started by another version of mvm; start it again");
  greeted_ = true;
}

// ---- the socket -----------------------------------------------------------------------------

void Connection::flush() {
  try {
    while (out_begin_ < out_.size()) {
      const auto sent = sys::send_some(socket_.get(), ByteView(out_).subspan(out_begin_));
      if (!sent) return;
      out_begin_ += *sent;
    }
  } catch (const SystemError& error) {
    if (!is_gone(error)) throw;
    // What it said before it went, for instance why, is still to be read.
  }
  out_.clear();
  out_begin_ = 0;
}

bool Connection::wait_for_socket(std::optional<Clock::time_point> deadline, Limit limit,
                                 int other) {
  const size_t queued = out_.size() - out_begin_;
  std::array<pollfd, 3> entries{pollfd{socket_.get(), 0, 0}, pollfd{interrupt_, POLLIN, 0},
                                pollfd{other, POLLOUT, 0}};
  if (queued > 0) entries[0].events |= POLLOUT;
  if (queued < kMaxQueued) entries[0].events |= POLLIN;
  while (true) {
    int timeout = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<Milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0)
        fail(Kind::Timeout, "the sandbox did not answer within " +
                                format_duration_ms(static_cast<uint64_t>(limit->count())));
      timeout = static_cast<int>(std::min<int64_t>(left, 3'600'000));
    }
    const int ready = ::poll(entries.data(), entries.size(), timeout);
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for the sandbox");
    if (ready <= 0) continue;
    if (entries[1].revents != 0) fail(Kind::Unavailable, "interrupted");
    return entries[0].revents != 0;
  }
}

void Connection::receive() {
  const auto got = sys::read_some(socket_.get(), decoder_.space());
  if (got && *got == 0) fail(Kind::Unavailable, "the sandbox closed the connection");
  decoder_.commit(got.value_or(0));
}

// ---- short calls ----------------------------------------------------------------------------

Bytes Connection::request(ByteView request, Limit limit) {
  start(request, Call::Kind::Unary);
  // Nothing but the End gets through in a call of this kind.
  const Incoming incoming = wait(limit);
  return Bytes(incoming.payload.begin(), incoming.payload.end());
}

template <typename Answer>
static Answer decoded(ByteView item) {
  auto answer = Answer::decode(item);
  if (!answer)
    throw Error(Kind::Unavailable, "the sandbox speaks garbage: an answer that does not decode");
  return std::move(*answer);
}

void Connection::ping(Limit limit) { request(proto::encode_request(proto::kPingVerb), limit); }

proto::AgentInfo Connection::info(Limit limit) {
  return decoded<proto::AgentInfo>(request(proto::encode_request(proto::kInfoVerb), limit));
}

proto::Metrics Connection::metrics(Limit limit) {
  return decoded<proto::Metrics>(request(proto::encode_request(proto::kMetricsVerb), limit));
}

void Connection::sync_time(uint64_t unix_nanoseconds, Limit limit) {
  request(proto::SyncTimeRequest{unix_nanoseconds}.encode(), limit);
}

void Connection::shutdown(const proto::ShutdownRequest& options, Limit limit) {
  request(options.encode(), limit);
}

proto::SandboxStatus Connection::status(Limit limit) {
  return decoded<proto::SandboxStatus>(
      request(proto::encode_request(proto::kSandboxStatusVerb), limit));
}

void Connection::wait_ready(Limit limit) {
  request(proto::encode_request(proto::kSandboxReadyVerb), limit);
}

proto::SandboxEnd Connection::wait_end(Limit limit) {
  return decoded<proto::SandboxEnd>(request(proto::encode_request(proto::kSandboxWaitVerb), limit));
}

proto::SandboxEnd Connection::stop(const proto::StopRequest& options, Limit limit) {
  return decoded<proto::SandboxEnd>(request(options.encode(), limit));
}

}
