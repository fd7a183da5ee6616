#pragma once
// A shell on the machine's console, for whoever sits at it (`mvm console`): started when the first
// line is typed there, one at a time. Until then there is an open terminal and nothing else.
//
// It is root's, as a machine's console is, and in a group of its own like every command.

#include <memory>

#include <termios.h>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

#include "exec.h"

namespace mvm::guest {

class ConsoleShell {
 public:
  // The virtio console's terminal. hvc0 is a console of the kernel's too where it says so.
  static constexpr const char* kDevice = "/dev/hvc0";

  // Does nothing where there is no such terminal. `commands` must outlive this.
  ConsoleShell(Commands& commands, const char* device = kDevice);
  ~ConsoleShell();
  ConsoleShell(const ConsoleShell&) = delete;
  ConsoleShell& operator=(const ConsoleShell&) = delete;

 private:
  void await_line();
  void start();
  void on_report();
  void ended();
  void print(const std::string& text) const;

  Commands* commands_;
  const char* device_;
  sys::Fd terminal_;  // non-blocking
  termios first_{};   // how it was
  loop::Watch typed_;
  proto::ExecRequest request_;
  std::unique_ptr<ProcessTree> tree_;
  pid_t pid_ = -1;
  sys::Fd report_;
  loop::Watch report_watch_;
};

}
