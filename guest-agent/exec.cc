#include "exec.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

using proto::FrameType;

static constexpr proto::TerminalSize kDefaultTerminal{24, 80};

static std::pair<sys::Fd, sys::Fd> make_pipe() {
  std::array<int, 2> ends{};
  sys::check(::pipe2(ends.data(), O_CLOEXEC), "making a pipe");
  return {sys::Fd(ends[0]), sys::Fd(ends[1])};
}

void Exec::make_pipes(std::array<sys::Fd, 3>& child) {
  if (request_.stdin_open) {
    auto [theirs, ours] = make_pipe();
    child[0] = std::move(theirs);
    input_ = std::move(ours);
    sys::set_nonblocking(input_.get());
  } else {
    child[0] = sys::open_file("/dev/null", O_RDONLY);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    auto [ours, theirs] = make_pipe();
    outputs_[i].fd = std::move(ours);
    sys::set_nonblocking(outputs_[i].fd.get());
    child[i + 1] = std::move(theirs);
  }
}

static void set_size(int terminal, proto::TerminalSize size) {
  winsize value{};
  value.ws_row = size.rows;
  value.ws_col = size.columns;
  sys::check(::ioctl(terminal, TIOCSWINSZ, &value), "setting the terminal's size");
}

void Exec::make_terminal(std::array<sys::Fd, 3>& child) {
  sys::Fd master = sys::open_file("/dev/ptmx", O_RDWR | O_NONBLOCK);
  const int unlock = 0;
  sys::check(::ioctl(master.get(), TIOCSPTLCK, &unlock), "unlocking a terminal");
  // By descriptor, not by name: the sandbox's /dev/pts may be anything.
  sys::Fd slave(sys::check(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC),
                           "opening a terminal"));
  // Before the command runs, so that its first look at the size is right.
  const bool given = request_.size.rows > 0 && request_.size.columns > 0;
  set_size(slave.get(), given ? request_.size : kDefaultTerminal);
  termios settings{};
  if (::tcgetattr(slave.get(), &settings) == 0) {
    settings.c_iflag |= IUTF8;
    ::tcsetattr(slave.get(), TCSANOW, &settings);
  }
  if (switch_user_) static_cast<void>(!::fchown(slave.get(), identity_.uid, gid_t(-1)));
  // Reading and writing are watched apart, so each has a descriptor of its own.
  if (request_.stdin_open) input_ = master.duplicate();
  outputs_[0].fd = std::move(master);
  child[1] = slave.duplicate();
  child[2] = slave.duplicate();
  child[0] = std::move(slave);
}

Exec::Exec(Channel& channel, Commands& commands, proto::ExecRequest request)
    : Stream(channel),
      commands_(&commands),
      request_(std::move(request)),
      output_left_(request_.max_output == 0 ? UINT64_MAX : request_.max_output) {
  outputs_[1].type = FrameType::Stderr;
  const bool root = ::geteuid() == 0;
  const std::string own = std::to_string(::geteuid());
  const auto found = find_identity(request_.user.empty() ? own : request_.user);
  if (!found) throw Error(Kind::Invalid, found.error());
  identity_ = *found;
  if (const auto complaint = add_groups(identity_, request_.groups))
    throw Error(Kind::Invalid, *complaint);
  switch_user_ = root;
  if (!root && identity_.uid != ::geteuid())
    throw Error(Kind::Denied,
                "the agent does not run as root and cannot switch to user " + request_.user);
  if (!root && !request_.groups.empty())
    throw Error(Kind::Denied, "the agent does not run as root and cannot add groups");

  std::array<sys::Fd, 3> child;
  if (request_.tty) {
    make_terminal(child);
  } else {
    make_pipes(child);
  }
  tree_ = commands.trees.make();
  tree_->limit(request_.limits);
  Launched launched = launch({request_,
                              identity_,
                              switch_user_,
                              commands.open_files,
                              *tree_,
                              commands.common,
                              {child[0].get(), child[1].get(), child[2].get()}});
  pid_ = launched.pid;
  tree_->set_root(pid_);
  report_ = std::move(launched.report);

  // What fails from here on leaves no object that could end the command.
  ScopeExit undo([this] { tree_->kill(); });
  report_watch_ = commands.loop.watch(report_.get(), EPOLLIN, [this](uint32_t) { on_report(); });
  for (auto& output : outputs_) resume(output);
  if (request_.timeout.count() > 0)
    deadline_ = commands.loop.after(request_.timeout, [this] {
      timed_out_ = true;
      this->channel().guard([&] { terminate(); });
    });
  commands.running.push_back(this);
  commands.reaper.expect(pid_, [this](sys::ExitStatus status) { on_exit(status); });
  undo.release();
}

Exec::~Exec() {
  if (!finished_) tree_->kill();
  std::erase(commands_->running, this);
  if (pid_ > 0 && !status_) commands_->reaper.forget(pid_);
}

void Exec::on_report() {
  report_watch_.reset();
  failure_ = read_failure(report_.get(), request_);
  report_.reset();
  if (failure_) {
    finish();
  } else if (!finished_) {
    channel().event(proto::ExecStarted{static_cast<uint32_t>(pid_)}.encode());
  }
}

// ---- output -----------------------------------------------------------------------------------

// A paused output is not watched at all: epoll reports a hang-up whether asked to or not.
void Exec::resume(Output& output) {
  if (!output.fd || output.watch) return;
  if (output_left_ > 0 && channel().room() == 0) return;
  output.watch = commands_->loop.watch(output.fd.get(), EPOLLIN, [this, &output](uint32_t) {
    channel().guard([&] {
      // Output means that the command runs: its start is told first, whichever came first to us.
      if (report_) on_report();
      if (pump(output)) on_output();
      settle();
    });
  });
}

bool Exec::pump(Output& output) {
  if (!output.fd) return false;
  const size_t room = output_left_ > 0 ? channel().room() : commands_->scratch.size();
  if (room == 0) {
    output.watch.reset();
    return false;
  }
  const auto into = std::span(commands_->scratch).first(std::min(room, commands_->scratch.size()));
  ssize_t got = -1;
  do {
    got = ::read(output.fd.get(), into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == ENOMEM)) return false;
  if (got <= 0) {  // a terminal ends with EIO
    output.watch.reset();
    output.fd.reset();
    return false;
  }
  const auto length = static_cast<size_t>(got);
  const auto passed = static_cast<size_t>(std::min<uint64_t>(length, output_left_));
  channel().bulk(output.type, into.first(passed));
  if (request_.max_output > 0) output_left_ -= passed;
  truncated_ |= passed < length;
  return true;
}

void Exec::on_output() {
  if (quiet_timer_) wait_for_quiet();
}

void Exec::wait_for_quiet() {
  quiet_timer_ =
      commands_->loop.after(proto::kOutputGrace, [this] { channel().guard([&] { quiet(); }); });
}

void Exec::on_writable() {
  if (finished_) return;
  for (auto& output : outputs_) resume(output);
  settle();
}

// ---- input ------------------------------------------------------------------------------------

void Exec::on_frame(const proto::Frame& frame) {
  if (finished_) return;
  switch (frame.type) {
    case FrameType::Data:
      if (input_ended_ || !input_) {
        channel().consumed(frame.payload.size());  // nobody reads it
        return;
      }
      Writer(pending_input_).bytes(frame.payload);
      feed_input();
      return;
    case FrameType::Eof:
      input_ended_ = true;
      feed_input();
      return;
    case FrameType::Signal:
      if (const auto number = proto::decode_signal(frame.payload)) signal(*number);
      return;
    case FrameType::Resize:
      if (const auto size = proto::decode_resize(frame.payload);
          size && request_.tty && outputs_[0].fd)
        set_size(outputs_[0].fd.get(), *size);
      return;
    case FrameType::Cancel:
      if (request_.detach) {
        // It was started to outlive its caller; the limits it was given still hold.
        channel().release(Kind::Unavailable, "the command runs on, detached");
        on_lost();
        return;
      }
      terminate();
      return;
    default:
      return;
  }
}

void Exec::feed_input() {
  if (!input_) return;
  while (!pending_input_.empty()) {
    const ssize_t put = ::write(input_.get(), pending_input_.data(), pending_input_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      if (!input_watch_)
        input_watch_ = commands_->loop.watch(
            input_.get(), EPOLLOUT, [this](uint32_t) { channel().guard([&] { feed_input(); }); });
      return;
    }
    if (put < 0) {  // EPIPE: the command has closed its stdin, which is its right
      close_input();
      return;
    }
    pending_input_.erase(pending_input_.begin(), pending_input_.begin() + put);
    channel().consumed(static_cast<size_t>(put));
  }
  input_watch_.reset();
  if (!input_ended_) return;
  if (request_.tty) {
    // A terminal has no half-close: its end of file is a character.
    termios settings{};
    if (::tcgetattr(input_.get(), &settings) == 0 && (settings.c_lflag & ICANON) != 0)
      static_cast<void>(!::write(input_.get(), &settings.c_cc[VEOF], 1));
  }
  close_input();
}

void Exec::close_input() {
  input_watch_.reset();
  input_.reset();
  const size_t dropped = pending_input_.size();
  pending_input_.clear();
  if (dropped > 0) channel().consumed(dropped);
}

void Exec::signal(int number) {
  if (status_) return;  // its number may be another process's by now
  pid_t group = pid_;
  if (request_.tty && outputs_[0].fd) {
    const pid_t foreground = ::tcgetpgrp(outputs_[0].fd.get());
    if (foreground > 1) group = foreground;
  }
  // Before setsid in the child there is no such group yet: then the child itself.
  if (::kill(-group, number) != 0 && errno == ESRCH) ::kill(pid_, number);
}

void Exec::ask_to_end(int signal) {
  if (!leads()) return;
  // TERM every process is sent by itself; to some programs a second one means to drop everything.
  if (signal != SIGTERM) ::kill(pid_, signal);
  if (request_.tty) ::kill(pid_, SIGHUP);
  ::kill(pid_, SIGCONT);  // a stopped process does not act on it
}

// ---- the end ----------------------------------------------------------------------------------

void Exec::terminate() {
  if (terminating_ || finished_) return;
  terminating_ = true;
  const auto kill = [this] {
    killed_ = true;
    tree_->kill();
    channel().guard([&] { settle(); });
  };
  if (request_.kill_grace.count() == 0) {
    kill();
    return;
  }
  tree_->signal(SIGTERM);
  tree_->signal(SIGCONT);  // a stopped process does not act on TERM
  kill_timer_ = commands_->loop.after(request_.kill_grace, kill);
  settle();
}

void Exec::on_lost() {
  input_ended_ = true;
  feed_input();
  for (auto& output : outputs_) resume(output);
  if (request_.detach) return;
  terminate();
}

void Exec::on_exit(sys::ExitStatus status) {
  status_ = status;
  channel().guard([&] {
    if (report_) on_report();
    settle();
  });
}

void Exec::on_reaped() {
  channel().guard([&] { settle(); });
}

void Exec::settle() {
  if (finished_ || !status_) return;
  if (terminating_ && !killed_ && !tree_->empty()) return;
  const bool open = outputs_[0].fd || outputs_[1].fd;
  if (!open) {
    finish();
  } else if (!quiet_timer_) {
    wait_for_quiet();
  }
}

// The grace passed without a read. On a loaded machine that may be because nobody came to read, so
// look before believing it.
void Exec::quiet() {
  quiet_timer_.reset();
  bool more = false;
  for (auto& output : outputs_) {
    if (!output.fd) continue;
    pollfd entry{output.fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0 || (entry.revents & POLLIN) == 0) continue;
    more = true;
    pump(output);
  }
  if (!more) {
    finish();
  } else if (output_left_ == 0 || channel().room() > 0) {
    settle();
  }
  // Else it waits for credit: on_writable() goes on from here.
}

void Exec::finish() {
  if (finished_) return;
  finished_ = true;
  close_input();
  deadline_.reset();
  kill_timer_.reset();
  quiet_timer_.reset();
  for (auto& output : outputs_) {
    output.watch.reset();
    // A terminal is closed: its background jobs get the hang-up that they would get anywhere.
    if (output.fd && !request_.tty && !failure_) commands_->lingering.adopt(std::move(output.fd));
    output.fd.reset();
  }
  if (channel().ended()) return;
  if (failure_) {
    channel().end(proto::encode_error(*failure_));
    return;
  }
  proto::ExecResult result;
  result.exit_code = static_cast<uint8_t>(status_->code);
  result.signal = static_cast<uint8_t>(status_->signal);
  result.timed_out = timed_out_;
  result.truncated = truncated_;
  result.out_of_memory = request_.limits.memory > 0 && tree_->memory_kills() > 0;
  channel().end(proto::encode_ok(result.encode()));
}

}
