// Two connections: the console's bytes go over a socket of their own, whose other end the monitor
// has; the sandbox's control socket takes the change of size, and tells the sandbox's end. What
// waits in one direction is one piece that was read and not yet written, so nothing grows here.

#include "console_session.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include <poll.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/proto/console.h"
#include "mvm/proto/control.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "terminal.h"

namespace mvm::cli {
namespace {

using proto::FrameType;
using std::chrono::steady_clock;

constexpr uint32_t kSeatStream = 1;
constexpr uint32_t kEndStream = 2;
constexpr uint32_t kFirstResizeStream = 3;
constexpr size_t kPiece = 4096;  // as PIPE_BUF: what a pipe that polls as writable takes
constexpr std::chrono::seconds kGreetingLimit{30};
// From the console's end to the news that the sandbox has ended, where that is why.
constexpr std::chrono::seconds kReasonLimit{3};
constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};

// One piece on its way from a descriptor to another.
class Piece {
 public:
  bool empty() const { return begin_ == end_; }
  // False at the end of input.
  bool read_from(int fd) {
    const ssize_t got = ::read(fd, buffer_.data(), buffer_.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    return true;
  }
  void write_to(int fd) {
    begin_ += sys::write_some(fd, ByteView(buffer_).subspan(begin_, end_ - begin_)).value_or(0);
  }
  void drop() { begin_ = end_; }
  // Cuts at `key`: whether it was there.
  bool cut_at(char key) {
    for (size_t i = begin_; i < end_; ++i) {
      if (buffer_.at(i) != static_cast<std::byte>(key)) continue;
      end_ = i;
      return true;
    }
    return false;
  }

 private:
  std::array<std::byte, kPiece> buffer_{};
  size_t begin_ = 0;
  size_t end_ = 0;
};

class Seat {
 public:
  explicit Seat(sys::Fd control)
      : control_(std::move(control)), signals_(kTaken), keys_(::isatty(STDIN_FILENO) == 1) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    seat_ = std::move(ours);
    sys::set_nonblocking(seat_.get());
    Bytes out;
    proto::Hello hello;
    hello.role = "client";
    proto::append_frame(out, proto::kConnectionStream, FrameType::Hello, hello.encode());
    proto::append_frame(out, kSeatStream, FrameType::Request,
                        proto::ConsoleRequest{our_size()}.encode());
    proto::append_frame(out, kEndStream, FrameType::Request,
                        proto::encode_request(proto::kSandboxWaitVerb));
    // The first that this socket carries, and far below what it takes at once.
    const int passed = theirs.get();
    sys::send_message(control_.get(), out, {&passed, 1});
    sys::set_nonblocking(control_.get());
  }

  ConsoleResult sit() {
    while (!seated_) {
      pollfd entry{control_.get(), POLLIN, 0};
      wait({&entry, 1}, kGreetingLimit, "the sandbox took the connection, but says nothing");
      if (!read_control()) throw Error(Kind::Unavailable, "the sandbox closed the connection");
    }
    std::optional<RawTerminal> raw;
    if (keys_) raw.emplace(STDIN_FILENO);
    while (!result_) turn();
    return *result_;
  }

 private:
  static proto::TerminalSize our_size() {
    const auto size = terminal_size(STDOUT_FILENO);
    return size == proto::TerminalSize{} ? terminal_size(STDIN_FILENO) : size;
  }

  static void wait(std::span<pollfd> entries, std::chrono::milliseconds limit, const char* late) {
    const int polled = ::poll(entries.data(), entries.size(), static_cast<int>(limit.count()));
    if (polled < 0 && errno != EINTR) throw SystemError(errno, "waiting for the console");
    if (polled == 0) throw Error(Kind::Timeout, late);
  }

  void turn() {
    enum Place { kControl, kSeat, kSignals, kIn, kOut, kPlaces };
    std::array<pollfd, kPlaces> entries{};
    for (pollfd& entry : entries) entry = {-1, 0, 0};  // negative: not looked at
    entries[kSignals] = {signals_.fd(), POLLIN, 0};
    if (control_) entries[kControl] = {control_.get(), POLLIN, 0};
    short on_seat = 0;
    if (shown_.empty()) on_seat |= POLLIN;
    if (!typed_.empty()) on_seat |= POLLOUT;
    if (on_seat != 0) entries[kSeat] = {seat_.get(), on_seat, 0};
    if (input_open_ && typed_.empty()) entries[kIn] = {STDIN_FILENO, POLLIN, 0};
    if (!shown_.empty()) entries[kOut] = {STDOUT_FILENO, POLLOUT, 0};
    if (::poll(entries.data(), entries.size(), -1) < 0) {
      if (errno != EINTR) throw SystemError(errno, "waiting for the console");
      return;
    }
    if (entries[kSignals].revents != 0)
      while (const auto number = signals_.next()) on_signal(*number);
    if (entries[kControl].revents != 0 && !read_control()) control_.reset();
    if (entries[kOut].revents != 0) shown_.write_to(STDOUT_FILENO);
    if (entries[kIn].revents != 0) type();
    if ((entries[kSeat].revents & POLLOUT) != 0) send();
    if ((entries[kSeat].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && shown_.empty() &&
        !shown_.read_from(seat_.get()))
      on_end();
  }

  void on_signal(int number) {
    if (result_) return;
    if (number != SIGWINCH) {
      result_ = {ConsoleEnd::Signalled, number, {}};
      return;
    }
    Bytes out;
    proto::append_frame(out, next_stream_++, FrameType::Request,
                        proto::ConsoleRequest{our_size()}.encode());
    // A few dozen bytes on an idle socket; one size lost would be followed by the next.
    if (control_) static_cast<void>(sys::send_some(control_.get(), out));
  }

  void type() {
    if (!typed_.read_from(STDIN_FILENO)) {
      input_open_ = false;
    } else if (keys_ && typed_.cut_at(kDetachKey)) {
      send();
      result_ = {ConsoleEnd::Detached, 0, {}};
    }
  }

  void send() {
    try {
      typed_.write_to(seat_.get());
    } catch (const SystemError&) {
      typed_.drop();  // gone: what it said before is still to be read
      input_open_ = false;
    }
  }

  // The seat is nobody's any more, or another's.
  void on_end() {
    const auto by = steady_clock::now() + kReasonLimit;
    while (control_ && !sandbox_end_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(by - steady_clock::now());
      pollfd entry{control_.get(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&entry, 1, static_cast<int>(left.count())) == 0) break;
      if (!read_control()) control_.reset();
    }
    if (control_ && !sandbox_end_) {
      result_ = {ConsoleEnd::TakenOver, 0, {}};
    } else {
      result_ = {ConsoleEnd::SandboxEnded, 0, sandbox_end_.value_or("")};
    }
  }

  // False when the connection has ended.
  bool read_control() {
    const auto space = decoder_.space();
    const ssize_t length = ::read(control_.get(), space.data(), space.size());
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (length <= 0) return false;
    decoder_.commit(static_cast<size_t>(length));
    while (const auto frame = decoder_.next()) handle(*frame);
    if (decoder_.fault()) broken();
    return true;
  }

  void handle(const proto::Frame& frame) {
    if (frame.type == FrameType::Hello) {
      const auto hello = proto::Hello::decode(frame.payload);
      if (!hello) broken();
      if (hello->version != proto::kProtocolVersion)
        throw Error(Kind::Unsupported,
                    "the sandbox was started by another version of mvm; start it again");
      return;
    }
    const auto end =
        frame.type == FrameType::End ? proto::End::decode(frame.payload) : std::nullopt;
    if (!end) broken();
    if (frame.stream == kSeatStream) {
      if (end->error) throw Error(end->error->kind, printable(end->error->message, 1000));
      seated_ = true;
    } else if (frame.stream == kEndStream) {
      const auto why = end->error ? std::nullopt : proto::SandboxEnd::decode(end->result);
      sandbox_end_ = "";
      if (why)
        sandbox_end_ = std::string(proto::end_reason_name(why->reason)) +
                       (why->detail.empty() ? "" : ": " + printable(why->detail, 1000));
    }
  }

  [[noreturn]] static void broken() {
    throw Error(Kind::Unavailable, "the sandbox broke the protocol");
  }

  sys::Fd control_;
  SignalQueue signals_;
  bool keys_;  // from a terminal, where one of them means us
  sys::Fd seat_;
  proto::FrameDecoder decoder_;
  uint32_t next_stream_ = kFirstResizeStream;
  bool seated_ = false;
  bool input_open_ = true;
  Piece typed_;
  Piece shown_;
  std::optional<std::string> sandbox_end_;
  std::optional<ConsoleResult> result_;
};

}

ConsoleResult sit_at_console(sys::Fd control) { return Seat(std::move(control)).sit(); }

}
