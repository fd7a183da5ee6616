#include "console_shell.h"

#include <chrono>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

// By its name, so that the one the image has is found; a login shell, as at a terminal.
static constexpr const char* kScript =
    "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";

static constexpr std::chrono::seconds kTryAgain{1};

ConsoleShell::ConsoleShell(Commands& commands, const char* device)
    : commands_(&commands),
      device_(device),
      terminal_(::open(device, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {
  request_.argv = {"/bin/sh", "-c", kScript};
  request_.tty = true;
  if (terminal_) ::tcgetattr(terminal_.get(), &first_);
  await_line();
}

ConsoleShell::~ConsoleShell() {
  if (pid_ > 0) commands_->reaper.forget(pid_);
}

// The terminal gathers lines, so nothing is here to be read before one is complete. It is left
// where it is: the shell reads it.
void ConsoleShell::await_line() {
  if (!terminal_) return;
  try {
    typed_ = commands_->loop.watch(terminal_.get(), EPOLLIN, [this](uint32_t events) {
      typed_.reset();
      // Hung up: there is no console any more.
      if ((events & EPOLLIN) != 0) start();
    });
  } catch (const SystemError&) {
    // Memory is short. Nobody is waiting for an answer: later.
    typed_ = commands_->loop.after(kTryAgain, [this] { await_line(); });
  }
}

void ConsoleShell::start() {
  try {
    const sys::Fd theirs = sys::open_file(device_, O_RDWR | O_NOCTTY);
    const auto root = find_identity("0");
    if (!root) throw Error(Kind::Invalid, root.error());
    tree_ = commands_->trees.make();
    Launched launched = launch({request_,
                                *root,
                                ::geteuid() == 0,
                                commands_->open_files,
                                *tree_,
                                commands_->common,
                                {theirs.get(), theirs.get(), theirs.get()}});
    pid_ = launched.pid;
    tree_->set_root(pid_);
    report_ = std::move(launched.report);
    report_watch_ =
        commands_->loop.watch(report_.get(), EPOLLIN, [this](uint32_t) { on_report(); });
    commands_->reaper.expect(pid_, [this](sys::ExitStatus) { ended(); });
  } catch (const Error& error) {
    print("mvm: no shell: " + error.message() + "\n");
    if (pid_ > 0) tree_->kill();
    ended();
  }
}

void ConsoleShell::on_report() {
  report_watch_.reset();
  if (const auto failure = read_failure(report_.get(), request_))
    print("mvm: no shell here: " + failure->message + "\n");
  report_.reset();
}

void ConsoleShell::ended() {
  if (report_watch_) on_report();
  pid_ = -1;
  tree_.reset();
  // Whatever it left behind: without lines nothing would start the next one, and what it did not
  // read would start it at once.
  ::tcsetattr(terminal_.get(), TCSANOW, &first_);
  ::tcflush(terminal_.get(), TCIFLUSH);
  await_line();
}

void ConsoleShell::print(const std::string& text) const {
  static_cast<void>(!::write(terminal_.get(), text.data(), text.size()));
}

}
