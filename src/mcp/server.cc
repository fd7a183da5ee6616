// One thread speaks to the client: it reads lines, writes answers, and owns the protocol's state.
// Each call of a tool has a thread of its own, which waits for the sandbox and knows nothing but
// its call; its result comes back through a list and an eventfd. A call is ended by another
// eventfd, which its connection watches.
//
// A client that does not read is not read from either, so what waits for it is bounded: by the
// answers of one line, and of the calls that run.

#include "mvm/mcp/server.h"

#include <array>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

#include "mvm/base/error.h"
#include "mvm/mcp/lines.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::mcp {
namespace {

using Clock = std::chrono::steady_clock;

// A pipe that polls as writable takes this much without blocking (pipe(7), PIPE_BUF). The
// descriptors are not made non-blocking: others share them.
constexpr size_t kPiece = 4096;
constexpr size_t kMaxWaiting = size_t{256} << 10;  // towards the client; it is not read beyond
// For the last answers of a client that has closed its end.
constexpr std::chrono::milliseconds kFlushLimit{2000};

std::string instructions(const Target& target) {
  return "These tools act inside the sandbox '" + target.name +
         "', a virtual machine of its own; they reach nothing else of this computer. Its operator "
         "has decided what it may reach on the network: where something is refused, "
         "network_refusals says what, and the user can allow it. Every result has a status.";
}

class Server {
 public:
  Server(const Target& target, const ServerOptions& options)
      : target_(target),
        options_(options),
        protocol_(tool_list(), {options.version, instructions(target)}),
        ended_(sys::event_fd()) {}
  ~Server() { end_jobs(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run() {
    while (reading_ && !gone_) {
      take_lines();
      turn(timeout());
    }
    end_jobs();
    const auto until = Clock::now() + kFlushLimit;
    while (!gone_ && waiting() > 0 && Clock::now() < until) turn(kFlushLimit);
  }

 private:
  struct Job {
    std::thread thread;
    sys::Fd interrupt;
    Clock::time_point began;
    Clock::time_point told;  // last, that it goes on
  };

  size_t waiting() const { return protocol_.output().size() - sent_; }

  // ---- what the client says -------------------------------------------------------------------

  void take_lines() {
    while (waiting() < kMaxWaiting) {
      const auto line = lines_.next();
      if (!line) return;
      if (line->too_long)
        protocol_.take_too_long();
      else
        carry_out(protocol_.take(line->text));
    }
  }

  void carry_out(const Step& step) {
    for (const uint64_t number : step.cancel)
      if (const auto found = jobs_.find(number); found != jobs_.end())
        sys::signal_event(found->second.interrupt.get());
    for (const ToolCall& call : step.start) {
      if (const auto refusal = start(call)) protocol_.finish(call.number, *refusal);
    }
  }

  // Why it does not start, if it does not.
  std::optional<ToolResult> start(const ToolCall& asked) {
    if (jobs_.size() >= kMaxCalls)
      return refused(target_, Status::Busy,
                     std::to_string(kMaxCalls) + " calls run already; wait for one to end");
    try {
      Call call = parse_call(asked.tool, asked.arguments);
      Job job{{}, sys::event_fd(), Clock::now(), Clock::now()};
      job.thread = std::thread(
          [this, number = asked.number, interrupt = job.interrupt.get(), call = std::move(call)] {
            ToolResult result = perform(target_, call, interrupt);
            const std::lock_guard lock(mutex_);
            results_.emplace_back(number, std::move(result));
            sys::signal_event(ended_.get());
          });
      jobs_.emplace(asked.number, std::move(job));
      return std::nullopt;
    } catch (const Error& error) {
      return refused(target_, error.kind() == Kind::Invalid ? Status::Invalid : Status::Internal,
                     error.message());
    } catch (const std::system_error&) {
      return refused(target_, Status::Internal, "this host has no thread left");
    }
  }

  // ---- what there is to tell ------------------------------------------------------------------

  void take_results() {
    sys::drain_event(ended_.get());
    std::vector<std::pair<uint64_t, ToolResult>> results;
    {
      const std::lock_guard lock(mutex_);
      results.swap(results_);
    }
    for (const auto& [number, result] : results) {
      const auto found = jobs_.find(number);
      found->second.thread.join();
      jobs_.erase(found);
      protocol_.finish(number, result);
    }
  }

  void tell_progress() {
    const auto now = Clock::now();
    for (auto& [number, job] : jobs_) {
      if (now < job.told + options_.heartbeat) continue;
      job.told = now;
      protocol_.progress(number, std::chrono::duration<double>(now - job.began).count());
    }
  }

  void write_piece() {
    const std::string& output = protocol_.output();
    const std::string_view piece = std::string_view(output).substr(sent_, kPiece);
    try {
      sent_ += sys::write_some(options_.out, as_bytes(piece)).value_or(0);
    } catch (const SystemError&) {
      gone_ = true;
    }
    if (sent_ < output.size()) return;
    protocol_.clear_output();
    sent_ = 0;
  }

  // ---- waiting --------------------------------------------------------------------------------

  std::optional<std::chrono::milliseconds> timeout() const {
    if (jobs_.empty()) return std::nullopt;
    auto next = Clock::time_point::max();
    for (const auto& [number, job] : jobs_) next = std::min(next, job.told + options_.heartbeat);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }

  void turn(std::optional<std::chrono::milliseconds> limit) {
    enum Place { kIn, kOut, kEnded, kPlaces };
    std::array<pollfd, kPlaces> entries{pollfd{-1, POLLIN, 0}, pollfd{options_.out, 0, 0},
                                        pollfd{ended_.get(), POLLIN, 0}};
    if (reading_ && waiting() < kMaxWaiting) entries[kIn].fd = options_.in;
    if (waiting() > 0) entries[kOut].events = POLLOUT;
    const int ready =
        ::poll(entries.data(), entries.size(), limit ? static_cast<int>(limit->count()) : -1);
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for the client");
    tell_progress();
    if (ready <= 0) return;
    if (entries[kEnded].revents != 0) take_results();
    // A pipe without a reader (POLLERR), or a socket whose other end is closed.
    if ((entries[kOut].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) gone_ = true;
    if (!gone_ && (entries[kOut].revents & POLLOUT) != 0) write_piece();
    if (entries[kIn].revents != 0) read_some();
  }

  void read_some() {
    std::optional<size_t> got;
    try {
      got = sys::read_some(options_.in, buffer_);
    } catch (const SystemError&) {
      got = 0;  // a socket that was reset is as good as one that was closed
    }
    if (!got) return;
    if (*got == 0) reading_ = false;
    lines_.feed(as_text(ByteView(buffer_).first(*got)));
  }

  // Nobody waits for them any more: their commands end, and what they would have said is nothing.
  void end_jobs() {
    for (const auto& [number, job] : jobs_) sys::signal_event(job.interrupt.get());
    for (auto& [number, job] : jobs_) job.thread.join();
    jobs_.clear();
    results_.clear();  // no thread is left that could add to them
    sys::drain_event(ended_.get());
  }

  const Target& target_;
  const ServerOptions& options_;
  LineBuffer lines_;
  Protocol protocol_;
  size_t sent_ = 0;  // of protocol_.output()
  bool reading_ = true;
  bool gone_ = false;
  Bytes buffer_ = Bytes(size_t{64} << 10);
  std::map<uint64_t, Job> jobs_;  // by number
  sys::Fd ended_;
  std::mutex mutex_;  // guards results_
  std::vector<std::pair<uint64_t, ToolResult>> results_;
};

}

void serve(const Target& target, const ServerOptions& options) { Server(target, options).run(); }

}
