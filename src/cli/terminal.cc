#include "terminal.h"

#include <array>
#include <cerrno>

#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::cli {
namespace {

// A handler has no other way to reach the mode than a global.
struct Saved {
  int fd = -1;
  termios mode{};
};
Saved saved;

constexpr std::array kDeadly = {SIGABRT, SIGSEGV, SIGBUS,  SIGILL, SIGFPE,
                                SIGHUP,  SIGQUIT, SIGTERM, SIGINT};

// Only async-signal-safe calls: tcsetattr and raise are (signal-safety(7)).
void restore_and_die(int number) {
  if (saved.fd >= 0) ::tcsetattr(saved.fd, TCSANOW, &saved.mode);
  ::raise(number);  // SA_RESETHAND has put the default back
}

void on_deadly_signals(void (*handler)(int)) {
  for (const int number : kDeadly) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = handler == SIG_DFL ? 0 : static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
  }
}

}

RawTerminal::RawTerminal(int fd) {
  sys::check(::tcgetattr(fd, &saved.mode), "reading the terminal's mode");
  termios raw = saved.mode;
  ::cfmakeraw(&raw);
  saved.fd = fd;
  on_deadly_signals(restore_and_die);
  if (::tcsetattr(fd, TCSADRAIN, &raw) != 0) {
    const int error = errno;
    on_deadly_signals(SIG_DFL);
    saved.fd = -1;
    throw SystemError(error, "putting the terminal into raw mode");
  }
}

RawTerminal::~RawTerminal() {
  ::tcsetattr(saved.fd, TCSADRAIN, &saved.mode);
  on_deadly_signals(SIG_DFL);
  saved.fd = -1;
}

std::optional<std::string> ask_unseen(int fd, std::string_view question, size_t limit) {
  // The mode comes back as with RawTerminal, but lines are still the terminal's.
  const RawTerminal restore_at_the_end(fd);
  termios quiet = saved.mode;
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  sys::check(::tcsetattr(fd, TCSADRAIN, &quiet), "hiding what is typed");
  sys::write_all(fd, as_bytes(question));
  std::string line;
  line.reserve(limit + 1);
  while (line.size() <= limit) {
    char c = '\0';
    const ssize_t got = ::read(fd, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (line.empty()) return std::nullopt;
      break;
    }
    if (c == '\n') break;
    line += c;
  }
  sys::write_all(fd, as_bytes("\n"));
  return line;
}

proto::TerminalSize terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

SignalQueue::SignalQueue(std::span<const int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : signals) ::sigaddset(&set, number);
  fd_ = sys::Fd(sys::check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "taking signals"));
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalQueue::~SignalQueue() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalQueue::next() {
  signalfd_siginfo info{};
  while (true) {
    const ssize_t length = ::read(fd_.get(), &info, sizeof info);
    if (length == static_cast<ssize_t>(sizeof info)) return static_cast<int>(info.ssi_signo);
    if (length < 0 && errno == EINTR) continue;
    return std::nullopt;
  }
}

}
