#pragma once
// The terminal in front of us, and the signals that come from it.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <signal.h>

#include "mvm/proto/frame.h"
#include "mvm/sys/fd.h"

namespace mvm::cli {

// Raw mode: every key becomes a byte for the command. The former mode is back when this is
// dropped, and also when the process dies by a signal that can be caught. One at a time.
class RawTerminal {
 public:
  explicit RawTerminal(int fd);
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
};

// Asks `question` on the terminal `fd` and reads one line that is not shown, of at most `limit`
// bytes; nothing at the end of input.
std::optional<std::string> ask_unseen(int fd, std::string_view question, size_t limit);

// 0x0 when `fd` is no terminal.
proto::TerminalSize terminal_size(int fd);

// Takes signals as data instead of as interruptions, from here on until dropped. For a process
// with one thread.
class SignalQueue {
 public:
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }  // readable when one is waiting
  std::optional<int> next();

 private:
  sys::Fd fd_;
  sigset_t before_{};
};

}
