#pragma once
// The exec verb: one command, its three pipes or its terminal, its deadline and its end.
//
// Theory of operation. The command's exit, the end of its output, and its time-out are three
// independent things:
//   - It has ended for the caller when it has exited and its output has been quiet for
//     proto::kOutputGrace (or both pipes have ended, which is at once). What stdin does, and
//     whether a background job holds a pipe open, plays no part. Output that waits for the host's
//     credit is not quiet; the grace starts when it can flow.
//   - The time-out and Cancel (or a lost connection) send TERM to every process of the tree, and
//     KILL when kill_grace is over, unless all have gone before.
//   - Background jobs live on after the end. Their pipes are handed to Lingering, which reads and
//     drops what they write, so that a server started with & is not killed by SIGPIPE.

#include <array>
#include <list>
#include <memory>
#include <optional>

#include "mvm/loop/loop.h"
#include "mvm/proto/exec.h"

#include "channel.h"
#include "launch.h"
#include "process_tree.h"
#include "reaper.h"

namespace mvm::guest {

// Pipes of ended commands that a background job still holds. Bounded: the oldest go first.
class Lingering {
 public:
  static constexpr size_t kMaxPipes = 256;
  explicit Lingering(loop::Loop& loop) : loop_(&loop) {}
  void adopt(sys::Fd pipe);
  size_t count() const { return pipes_.size(); }

 private:
  struct Pipe {
    sys::Fd fd;
    loop::Watch watch;
  };
  loop::Loop* loop_;
  std::list<Pipe> pipes_;
};

class Exec;

// What all commands share.
struct Commands {
  loop::Loop& loop;
  Reaper& reaper;
  ProcessTrees& trees;
  Lingering lingering;
  std::vector<Exec*> running;
  rlimit open_files{};  // of each command
  Environment common;   // in the environment of each command
  // Where output passes through on its way from a pipe to a frame.
  Bytes scratch = Bytes(proto::kMaxPayload);
};

class Exec final : public Stream {
 public:
  // Starts the command; throws Error when it cannot be (before there is a process).
  Exec(Channel& channel, Commands& commands, proto::ExecRequest request);
  ~Exec() override;

  void on_frame(const proto::Frame& frame) override;
  void on_writable() override;
  void on_lost() override;
  // Processes have ended: is our tree empty?
  void on_reaped();

  // The machine is about to end: so is to be the command's first process, by this signal where it
  // is another than TERM. A shell on a terminal, which takes no notice of that, is hung up.
  void ask_to_end(int signal);
  bool leads() const { return pid_ > 0 && !status_; }  // that process is there

 private:
  struct Output {
    proto::FrameType type = proto::FrameType::Stdout;
    sys::Fd fd;
    loop::Watch watch;  // none while paused
  };

  void make_pipes(std::array<sys::Fd, 3>& child);
  void make_terminal(std::array<sys::Fd, 3>& child);
  void on_report();
  void on_exit(sys::ExitStatus status);

  void resume(Output& output);
  // Reads once and passes it on. True when something was read.
  bool pump(Output& output);
  void feed_input();
  void close_input();
  void signal(int number);

  void terminate();  // TERM now, KILL after the grace
  void on_output();  // output came or ended
  void wait_for_quiet();
  void settle();  // ends the call if it is over
  void quiet();   // the grace is over
  void finish();

  Commands* commands_;
  proto::ExecRequest request_;
  Identity identity_;
  bool switch_user_ = false;
  std::unique_ptr<ProcessTree> tree_;

  pid_t pid_ = -1;
  sys::Fd report_;
  loop::Watch report_watch_;
  std::optional<proto::ErrorReply> failure_;
  std::optional<sys::ExitStatus> status_;

  std::array<Output, 2> outputs_;
  sys::Fd input_;
  loop::Watch input_watch_;
  Bytes pending_input_;
  bool input_ended_ = false;

  uint64_t output_left_;
  bool truncated_ = false;
  bool timed_out_ = false;
  bool terminating_ = false;
  bool killed_ = false;
  bool finished_ = false;
  loop::Watch deadline_;
  loop::Watch kill_timer_;
  loop::Watch quiet_timer_;
};

}
