#include "reaper.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/sys/error.h"

namespace mvm::guest {

Reaper::Reaper(loop::Loop& loop) : loop_(&loop) {
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  sys::check(::sigprocmask(SIG_BLOCK, &children, nullptr), "blocking SIGCHLD");
  signals_ = sys::Fd(
      sys::check(::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK), "making a signalfd"));
  watch_ = loop.watch(signals_.get(), EPOLLIN, [this](uint32_t) { collect(); });
}

void Reaper::expect(pid_t pid, std::function<void(sys::ExitStatus)> ended) {
  expected_[pid] = std::move(ended);
}

void Reaper::collect() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) > 0) {
  }
  // Signals of one number merge, so one of them may stand for many children.
  int left = kPerTurn;
  for (; left > 0; --left) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) break;
    const auto found = expected_.find(pid);
    if (found == expected_.end()) continue;
    const auto ended = std::move(found->second);
    expected_.erase(found);
    ended(WIFSIGNALED(status) ? sys::ExitStatus{0, WTERMSIG(status)}
                              : sys::ExitStatus{WEXITSTATUS(status), 0});
  }
  if (observer_) observer_();
  if (left == 0) more_ = loop_->after(std::chrono::milliseconds(0), [this] { collect(); });
}

}
