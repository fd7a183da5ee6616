#include "process_one.h"

#include <array>
#include <cerrno>
#include <utility>

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/loop/loop.h"
#include "mvm/sys/error.h"

#include "guard.h"
#include "init.h"
#include "lane.h"
#include "server.h"
#include "write_out.h"

namespace mvm::guest {

// No process is left but us: every process of the sandbox is a descendant of PID 1.
static bool alone() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

// Ends the sandbox's processes, then the machine.
class Shutdown {
 public:
  static constexpr std::chrono::milliseconds kKillGrace{1000};

  explicit Shutdown(loop::Loop& loop) : loop_(&loop) {}

  // Commands by a signal of their own come first: what they have started is theirs to end.
  void begin(Server& server, const proto::ShutdownRequest& request, PowerAction action) {
    if (server_ != nullptr) return;
    server_ = &server;
    action_ = action;
    server.ask_commands_to_end(request.signal);
    if (request.signal == SIGTERM) {
      terminate();
    } else {
      rest_timer_ = loop_->after(request.grace / 2, [this] { terminate(); });
    }
    timer_ = loop_->after(request.grace, [this] { kill(); });
    on_reaped();
  }

  void on_reaped() {
    if (server_ == nullptr) return;
    if (alone()) return loop_->stop();
    if (!server_->has_commands()) terminate();
  }

  PowerAction action() const { return action_; }

 private:
  void terminate() {
    if (std::exchange(terminated_, true)) return;
    ::kill(-1, SIGTERM);
    ::kill(-1, SIGCONT);
  }

  void kill() {
    ::kill(-1, SIGKILL);
    // A process stuck in the kernel is not waited for longer than this.
    timer_ = loop_->after(kKillGrace, [this] { loop_->stop(); });
  }

  loop::Loop* loop_;
  Server* server_ = nullptr;  // once it has begun
  bool terminated_ = false;
  PowerAction action_ = PowerAction::Off;
  loop::Watch rest_timer_;
  loop::Watch timer_;
};

// The signals by which poweroff(8), halt(8) and reboot(8) of the common inits ask PID 1.
struct Asked {
  int signal;
  PowerAction action;
};
static const std::array<Asked, 8> kAsked{{{SIGUSR1, PowerAction::Off},
                                          {SIGUSR2, PowerAction::Off},
                                          {SIGRTMIN + 3, PowerAction::Off},
                                          {SIGRTMIN + 4, PowerAction::Off},
                                          {SIGTERM, PowerAction::Reboot},
                                          {SIGINT, PowerAction::Reboot},
                                          {SIGRTMIN + 5, PowerAction::Reboot},
                                          {SIGRTMIN + 6, PowerAction::Reboot}}};

static sys::Fd watch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const auto& asked : kAsked) ::sigaddset(&set, asked.signal);
  sys::check(::sigprocmask(SIG_BLOCK, &set, nullptr), "blocking signals");
  return sys::Fd(sys::check(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "making a signalfd"));
}

static constexpr std::chrono::milliseconds kGuestAskedGrace{2000};

static constexpr const char* kCommandGroup = "/sys/fs/cgroup/mvm";

static PowerAction serve(const System& system) {
  loop::Loop loop;
  Shutdown shutdown(loop);
  Server* serving = nullptr;
  Server::Options options;
  options.cgroups = kCommandGroup;
  options.processes_each = guard_from_commands(kCommandGroup).processes_each;
  options.profile = system.settings.profile;
  options.shutdown = [&](const proto::ShutdownRequest& request) {
    shutdown.begin(*serving, request, PowerAction::Off);
  };
  options.reaped = [&] { shutdown.on_reaped(); };
  options.copies = {write_out, listen_vsock_lane, 0};
  Server server(loop, std::move(options));
  serving = &server;

  const sys::Fd signals = watch_signals();
  const loop::Watch watch = loop.watch(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info;
    while (::read(signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      for (const auto& asked : kAsked)
        if (static_cast<uint32_t>(asked.signal) == info.ssi_signo)
          shutdown.begin(server, {kGuestAskedGrace}, asked.action);
  });

  // Listen first, then call: a host that takes the call may as well connect by itself.
  server.listen(listen_vsock(system.settings.port));
  if (auto socket = call_host(system.settings.port)) {
    server.serve(std::move(*socket));
  } else {
    say("the host does not take calls on vsock port " + std::to_string(system.settings.port) +
        " (" + sys::errno_text(errno) + "): waiting for its own");
  }
  if (system.settings.profile == proto::Profile::Dev) server.offer_console_shell();
  loop.run();
  server.flush();
  return shutdown.action();
}

void run_as_process_one() {
  PowerAction action = PowerAction::Off;
  System system;
  try {
    system = set_up_system();
    guard_self();
    action = serve(system);
  } catch (const std::exception& error) {
    fatal(error.what());
  }
  end_machine(action, &system);
}

}
