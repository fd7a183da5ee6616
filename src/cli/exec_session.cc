// The loop of one command: frames on one side, three standard streams, a terminal and signals on
// the other.
//
// Nothing here waits for one thing alone. A full pipe at standard output does not keep a Ctrl-C
// from the command, an open standard input does not keep the end from us. What the far side may
// send is bounded by the credit it was given, so the buffers are bounded too; credit goes back when
// bytes have left for where they belong.

#include "mvm/cli/exec_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/protect/redact.h"
#include "mvm/proto/control.h"
#include "mvm/proto/credit.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "json_text.h"
#include "question_prompt.h"
#include "terminal.h"

namespace mvm::cli {
namespace {

using proto::FrameType;
using std::chrono::steady_clock;

constexpr uint32_t kStream = 1;
constexpr uint32_t kStatusStream = 2;  // whose result it is, and whether it has a network
constexpr uint32_t kQuestionStream = 3;
constexpr uint32_t kAnswerStream = 4;
// A pipe that polls as writable takes this much without blocking (pipe(7), PIPE_BUF). We do not
// make standard output non-blocking: others share it.
constexpr size_t kPiece = 4096;
constexpr size_t kMaxQueued = 256 * 1024;  // towards the sandbox; standard input waits beyond it
// Beyond a command's time-out and grace: a busy sandbox may be slow to say so.
constexpr std::chrono::seconds kTimeoutSlack{15};
constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};

// Where one output stream goes: a descriptor, or memory up to a cap.
//
// With a redactor what goes out is not what came in: credit for what came in is owed until nothing
// waits to be written.
class Sink {
 public:
  Sink(const ExecPlan& plan, int fd) : fd_(plan.json ? -1 : fd), keep_(plan.keep) {
    if (plan.request.redact) redactor_.emplace();
  }

  bool captures() const { return fd_ < 0; }
  bool waiting() const { return begin_ < buffer_.size(); }
  int fd() const { return fd_; }
  const Captured& captured() const { return captured_; }

  // Returns what is done with at once.
  size_t take(ByteView data) {
    if (!redactor_) return put(data);
    std::string text;
    redactor_->feed(as_text(data), text);
    owed_ += data.size();
    put(as_bytes(text));
    return waiting() ? 0 : std::exchange(owed_, 0);
  }
  // Nothing more comes.
  void end() {
    if (!redactor_) return;
    std::string text;
    redactor_->finish(text);
    put(as_bytes(text));
  }
  // Once the descriptor polls as writable. Returns what left.
  size_t write_piece() {
    const size_t length = std::min(kPiece, buffer_.size() - begin_);
    const auto put = sys::write_some(fd_, ByteView(buffer_).subspan(begin_, length));
    begin_ += put.value_or(0);
    if (begin_ == buffer_.size()) {
      buffer_.clear();
      begin_ = 0;
    }
    if (redactor_) return waiting() ? 0 : std::exchange(owed_, 0);
    return put.value_or(0);
  }

 private:
  size_t put(ByteView data) {
    if (captures()) {
      captured_.bytes += data.size();
      const size_t room = keep_ - std::min<uint64_t>(keep_, captured_.text.size());
      captured_.text += as_text(data.first(std::min(room, data.size())));
      return data.size();
    }
    Writer(buffer_).bytes(data);
    return 0;
  }

  int fd_ = -1;
  uint64_t keep_ = 0;
  Bytes buffer_;
  size_t begin_ = 0;
  Captured captured_;
  std::optional<protect::Redactor> redactor_;
  size_t owed_ = 0;
};

class Session {
 public:
  Session(sys::Fd socket, const ExecPlan& plan)
      : socket_(std::move(socket)),
        plan_(plan),
        signals_(kTaken),
        out_(plan, STDOUT_FILENO),
        err_(plan, STDERR_FILENO),
        input_open_(plan.request.stdin_open),
        sandbox_id_(plan.sandbox_id),
        raw_(plan.request.tty && plan.request.stdin_open),
        prompt_(plan.sandbox, raw_) {
    sys::set_nonblocking(socket_.get());
  }

  // Until the command's end is known and all its output has left. With detach: until it has
  // started.
  void run() {
    proto::ExecRequest request = plan_.request;
    if (request.tty) request.size = our_size();
    proto::Hello hello;
    hello.role = "client";
    proto::append_frame(queue_, proto::kConnectionStream, FrameType::Hello, hello.encode());
    if (plan_.tell_network || (plan_.json && plan_.sandbox_id.empty()))
      proto::append_frame(queue_, kStatusStream, FrameType::Request,
                          proto::encode_request(proto::kSandboxStatusVerb));
    if (plan_.tell_questions) ask_for_questions();
    proto::append_frame(queue_, kStream, FrameType::Request, request.encode());
    while (!done()) turn();
  }

  const proto::ExecResult& result() const { return result_; }
  const std::optional<proto::ErrorReply>& error() const { return error_; }
  const std::string& sandbox_id() const { return sandbox_id_; }
  const Captured& out() const { return out_.captured(); }
  const Captured& err() const { return err_.captured(); }

 private:
  bool done() const {
    if (plan_.request.detach && started_) return true;
    return ended_ && !out_.waiting() && !err_.waiting();
  }

  // Milliseconds for poll(2): what is left of the time for the greeting, then of the command's own
  // time, or for ever. The guest's agent ends the command when its time is over; one that does not
  // is not waited for. A new sandbox (`run`) may still be booting: its start has a limit of its
  // own.
  int until_deadline() const {
    if (greeted_) {
      // While our own reader does not read, the sandbox cannot go on either.
      const bool counts = plan_.request.timeout.count() > 0 && !ended_ && !out_.waiting() &&
                          !err_.waiting() && (started_ || plan_.sandbox_id.empty());
      if (!counts) return -1;
      const auto over = began_ + plan_.request.timeout + plan_.request.kill_grace;
      const auto by = std::max(over, alive_) + kTimeoutSlack;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(by - steady_clock::now());
      if (left.count() <= 0)
        throw Error(Kind::Timeout,
                    "the sandbox does not answer: its command's time is over, and "
                    "it has not said how it ended");
      return static_cast<int>(std::min<int64_t>(left.count(), 3'600'000));
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(greet_by_ - steady_clock::now());
    if (left.count() <= 0)
      throw Error(Kind::Timeout, "the sandbox took the connection, but says nothing; mvm logs " +
                                     plan_.sandbox + " shows its console");
    return static_cast<int>(left.count());
  }

  // Output may be redirected while the keys still come from a terminal.
  static proto::TerminalSize our_size() {
    const auto size = terminal_size(STDOUT_FILENO);
    return size == proto::TerminalSize{} ? terminal_size(STDIN_FILENO) : size;
  }

  void turn() {
    if (!queue_.empty() && !ended_) flush();
    enum Place { kSocket, kSignals, kInput, kOut, kErr, kPlaces };
    std::array<pollfd, kPlaces> entries{};
    for (pollfd& entry : entries) entry = {-1, 0, 0};  // negative: not looked at
    if (!ended_) {
      entries[kSocket] = {socket_.get(), POLLIN, 0};
      if (!queue_.empty()) entries[kSocket].events |= POLLOUT;
      if (input_open_ && input_window_.available() > 0 && queue_.size() < kMaxQueued)
        entries[kInput] = {STDIN_FILENO, POLLIN, 0};
    }
    entries[kSignals] = {signals_.fd(), POLLIN, 0};
    const bool prints = !prompt_.shows() || ended_;
    if (prints && out_.waiting()) entries[kOut] = {out_.fd(), POLLOUT, 0};
    if (prints && err_.waiting()) entries[kErr] = {err_.fd(), POLLOUT, 0};

    const int polled = ::poll(entries.data(), entries.size(), until_deadline());
    if (polled < 0 && errno != EINTR) throw SystemError(errno, "waiting for the command");
    if (polled <= 0) return;
    if (entries[kSignals].revents != 0)
      while (const auto number = signals_.next()) on_signal(*number);
    if (entries[kOut].revents != 0) consumed(out_.write_piece());
    if (entries[kErr].revents != 0) consumed(err_.write_piece());
    if (entries[kInput].revents != 0) read_input();
    if (entries[kSocket].revents != 0) read_socket();
  }

  void on_signal(int number) {
    if (number == SIGWINCH) {
      if (plan_.request.tty && !ended_) proto::append_resize(queue_, kStream, our_size());
      return;
    }
    ++interruptions_;
    // Whoever asks three times, or when only a stuck reader of our output is left, means us.
    if (interruptions_ > 2 || ended_)
      throw Error(Kind::Unavailable, "interrupted; the command may not have ended yet");
    if (interruptions_ == 1)
      proto::append_signal(queue_, kStream, static_cast<uint8_t>(number));
    else
      proto::append_frame(queue_, kStream, FrameType::Cancel);
  }

  void read_input() {
    std::array<std::byte, 32 * 1024> buffer{};
    const size_t room = std::min(buffer.size(), input_window_.available());
    const ssize_t length = ::read(STDIN_FILENO, buffer.data(), room);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (length <= 0) {
      // A standard input that was closed, or cannot be read, has ended.
      proto::append_frame(queue_, kStream, FrameType::Eof);
      input_open_ = false;
      return;
    }
    const auto data = ByteView(buffer).first(static_cast<size_t>(length));
    if (!plan_.tell_questions || !raw_) return send_input(data);
    const auto typed = prompt_.type(data, steady_clock::now());
    say(typed.text);
    if (typed.answer)
      proto::append_frame(queue_, kAnswerStream, FrameType::Request, typed.answer->encode());
    if (!typed.for_command.empty()) send_input(typed.for_command);
  }

  void send_input(ByteView data) {
    input_window_.spend(data.size());
    proto::append_frame(queue_, kStream, FrameType::Data, data);
  }

  // A word of our own beside the command's output, which it does not wait for.
  static void say(std::string_view text) {
    if (!text.empty()) sys::write_all(STDERR_FILENO, as_bytes(text));
  }

  // Answered when there is a question that we have not seen.
  void ask_for_questions() {
    proto::append_frame(queue_, kQuestionStream, FrameType::Request,
                        proto::QuestionsRequest{prompt_.newest()}.encode());
  }

  void take_status(const proto::End& end) {
    const auto status = end.error ? std::nullopt : proto::SandboxStatus::decode(end.result);
    if (!status) return;
    if (sandbox_id_.empty()) sandbox_id_ = status->id;
    if (!plan_.tell_network || status->network_missing.empty()) return;
    const std::string_view line_end = raw_ ? "\r\n" : "\n";
    say("mvm: " + plan_.sandbox + " has no network: " + printable(status->network_missing, 500) +
        std::string(line_end) + "  --no-network starts it without a word about that" +
        std::string(line_end));
  }

  // Of the streams beside the command's own.
  void take_side(uint32_t stream, ByteView payload) {
    const auto end = proto::End::decode(payload);
    if (!end) broken();
    if (stream == kStatusStream) return take_status(*end);
    if (stream == kAnswerStream) {
      if (end->error) say("mvm: " + printable(end->error->message, 500) + (raw_ ? "\r\n" : "\n"));
      return;
    }
    const auto list = end->error ? std::nullopt : proto::QuestionList::decode(end->result);
    if (!list || list->newest <= prompt_.newest()) return;  // it asks nothing, or ends
    say(prompt_.take(*list, steady_clock::now()));
    if (!ended_) ask_for_questions();
  }

  void flush() {
    size_t begin = 0;
    while (begin < queue_.size()) {
      // MSG_NOSIGNAL is not needed: SIGPIPE is ignored in this process.
      const ssize_t put = ::write(socket_.get(), queue_.data() + begin, queue_.size() - begin);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && (errno == EPIPE || errno == ECONNRESET)) {
        begin = queue_.size();  // what it had to say before is still to be read
      } else if (put < 0 && errno == EAGAIN) {
        break;
      } else if (put < 0) {
        throw SystemError(errno, "speaking to the sandbox");
      } else {
        begin += static_cast<size_t>(put);
      }
    }
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  void read_socket() {
    if (!queue_.empty()) flush();
    const auto space = decoder_.space();
    const ssize_t length = ::read(socket_.get(), space.data(), space.size());
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (length <= 0) throw ConnectionLost();
    decoder_.commit(static_cast<size_t>(length));
    alive_ = steady_clock::now();
    while (!ended_) {
      const auto frame = decoder_.next();
      if (!frame) break;
      handle(*frame);
    }
    if (decoder_.fault()) broken();
  }

  void handle(const proto::Frame& frame) {
    if (!greeted_) {
      const auto hello =
          frame.type == FrameType::Hello ? proto::Hello::decode(frame.payload) : std::nullopt;
      if (!hello) broken();
      if (hello->version != proto::kProtocolVersion)
        throw Error(Kind::Unsupported,
                    "the sandbox was started by another version of mvm; start it again");
      greeted_ = true;
      began_ = steady_clock::now();
      return;
    }
    if (frame.type == FrameType::End && frame.stream >= kStatusStream &&
        frame.stream <= kAnswerStream)
      return take_side(frame.stream, frame.payload);
    if (frame.stream != kStream) broken();
    switch (frame.type) {
      case FrameType::Stdout:
        return output(out_, frame.payload);
      case FrameType::Stderr:
        return output(err_, frame.payload);
      case FrameType::Event:
        if (started_) broken();  // there is one event, and events cost no credit
        began_ = steady_clock::now();
        started_ = true;
        return;
      case FrameType::Window: {
        const auto credit = proto::decode_window(frame.payload);
        if (!credit || !input_window_.grant(*credit)) broken();
        return;
      }
      case FrameType::End:
        return end(frame.payload);
      default:
        broken();
    }
  }

  void output(Sink& sink, ByteView data) {
    if (!output_window_.receive(data.size())) broken();
    consumed(sink.take(data));
  }

  void consumed(size_t length) {
    alive_ = steady_clock::now();
    const auto credit = output_window_.consume(length);
    if (credit && !ended_) proto::append_window(queue_, kStream, *credit);
  }

  void end(ByteView payload) {
    const auto end = proto::End::decode(payload);
    if (!end) broken();
    if (end->error) {
      error_ = end->error;
    } else {
      const auto result = proto::ExecResult::decode(end->result);
      if (!result) broken();
      result_ = *result;
    }
    ended_ = true;
    out_.end();
    err_.end();
  }

  [[noreturn]] static void broken() {
    throw Error(Kind::Unavailable, "the sandbox broke the protocol");
  }

  sys::Fd socket_;
  const ExecPlan& plan_;
  SignalQueue signals_;
  Sink out_;
  Sink err_;
  bool input_open_;
  std::string sandbox_id_;
  bool raw_;  // the terminal's keys go to the command
  QuestionPrompt prompt_;
  proto::FrameDecoder decoder_;
  proto::SendWindow input_window_;
  proto::ReceiveWindow output_window_;
  Bytes queue_;
  bool greeted_ = false;
  steady_clock::time_point greet_by_ = steady_clock::now() + plan_.greeting_limit;
  bool started_ = false;
  steady_clock::time_point alive_;  // the sandbox last spoke, or could last be spoken to
  steady_clock::time_point began_;  // the command, or the wait for it
  bool ended_ = false;
  int interruptions_ = 0;
  proto::ExecResult result_;
  std::optional<proto::ErrorReply> error_;
};

int code_of(const proto::ExecResult& result) {
  if (result.timed_out) return kTimedOut;
  return result.signal != 0 ? 128 + result.signal : result.exit_code;
}

// Why the command did not start, or did not end by itself.
int report_error(Console& console, const proto::ErrorReply& error) {
  if (error.sandbox_end) throw SandboxEnded(*error.sandbox_end, error.message);
  if (error.kind != Kind::NotFound && error.kind != Kind::Denied)
    throw Error(error.kind, error.message);
  console.err("mvm: " + tame(error.message) + "\n");
  return error.kind == Kind::NotFound ? kNotFound : kCannotExecute;
}

}

int run_session(Console& console, sys::Fd socket, const ExecPlan& plan) {
  const auto start = steady_clock::now();
  Session session(std::move(socket), plan);
  {
    std::optional<RawTerminal> raw;
    if (plan.request.tty && plan.request.stdin_open) raw.emplace(STDIN_FILENO);
    session.run();
  }
  const bool sandbox_ended = session.error() && session.error()->sandbox_end;
  if (session.error() && !(plan.json && sandbox_ended))
    return report_error(console, *session.error());
  if (plan.request.detach) return kFine;

  const proto::ExecResult& result = session.result();
  const int code = sandbox_ended ? exit_code_of(*session.error()->sandbox_end) : code_of(result);
  if (plan.json) {
    ExecReport report;
    if (sandbox_ended) report.sandbox_end = session.error()->sandbox_end;
    report.sandbox = plan.sandbox;
    report.sandbox_id = session.sandbox_id();
    report.run = plan.request.run;
    report.exit_code = code;
    report.signal = result.signal;
    report.timed_out = result.timed_out;
    report.out_of_memory = result.out_of_memory;
    report.out = session.out();
    report.err = session.err();
    report.truncated = result.truncated || report.out.bytes > report.out.text.size() ||
                       report.err.bytes > report.err.text.size();
    report.duration_ms = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start).count());
    console.out(json_exec(report));
    if (sandbox_ended) return report_error(console, *session.error());
    return code;
  }
  if (result.timed_out) console.err("mvm: the command ran out of time and was ended\n");
  if (result.out_of_memory)
    console.err("mvm: processes of the command were ended for its --memory-limit\n");
  if (result.truncated) console.err("mvm: output beyond --max-output was dropped\n");
  return code;
}

}
