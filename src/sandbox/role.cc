#include "mvm/sandbox/role.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/crypto/library.h"
#include "mvm/jail/seccomp.h"
#include "mvm/sandbox/sandbox.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "monitor_link.h"
#include "secrets.h"
#include "syscalls.h"

namespace mvm::sandbox {

// Clients (256), streams between guest and host sockets (1024), and a few of its own.
static constexpr uint64_t kMaxFiles = 2'048;
// Two sockets a flow of the guest's, and what carries bytes between them.
static constexpr uint64_t kFlowFiles = 16'384;
// Records, and lines of the daemon's log, which may be long already.
static constexpr uint64_t kMaxFileSize = 256 << 20;
// The first `count` descriptors, those of one message, all there or Error{Invalid}.
template <size_t Count>
static std::array<sys::Fd, Count> take_fds(std::vector<sys::Fd> received, size_t count = Count) {
  if (received.size() != count)
    throw Error(Kind::Invalid, "a message came with " + std::to_string(received.size()) +
                                   " descriptors instead of " + std::to_string(count));
  std::array<sys::Fd, Count> fds;
  std::ranges::move(received, fds.begin());
  return fds;
}

static sys::Message next_message(const sys::Fd& inbox, size_t most) {
  auto message = sys::receive_message(inbox.get(), most);
  if (!message || message->data.empty())
    throw Error(Kind::Invalid, "mvm sandbox is started by the daemon; use mvm up");
  return std::move(*message);
}

// What the machine stands on, and who builds it.
struct Base {
  proto::MachineBase machine;
  std::array<sys::Fd, static_cast<size_t>(proto::BaseFd::Count)> fds;

  int fd(proto::BaseFd which) const { return fds.at(static_cast<size_t>(which)).get(); }
  std::unique_ptr<MonitorLink> start_monitor(jail::Isolation isolation) const {
    const sys::Fd kvm = sys::open_file("/dev/kvm", O_RDWR);
    return std::make_unique<MonitorLink>(isolation, machine, fd(proto::BaseFd::First), kvm.get(),
                                         fd(proto::BaseFd::Kernel), fd(proto::BaseFd::Initramfs));
  }
};

static Base receive_base(const sys::Fd& inbox) {
  sys::Message message = next_message(inbox, proto::kMaxBaseMessage);
  const auto machine = proto::MachineBase::decode(message.data);
  if (!machine)
    throw Error(Kind::Invalid, "what the sandbox's machine is built on does not decode");
  return {*machine, take_fds<static_cast<size_t>(proto::BaseFd::Count)>(std::move(message.fds))};
}

// A spare waits until it is somebody's. False: its monitor has ended meanwhile, or the daemon has:
// it is of no use.
static bool await_configuration(const sys::Fd& inbox, const MonitorLink& monitor) {
  std::array<pollfd, 2> entries{pollfd{inbox.get(), POLLIN, 0}, pollfd{monitor.pidfd(), POLLIN, 0}};
  while (::poll(entries.data(), entries.size(), -1) < 0)
    if (errno != EINTR) throw SystemError(errno, "waiting for a configuration");
  std::byte first{};
  return entries[0].revents != 0 && ::recv(inbox.get(), &first, 1, MSG_PEEK) > 0;
}

// The jail, beside the monitor's own: the guest does not run before both are done.
static void shut_in(Sandbox& sandbox, jail::Isolation isolation, int failure_record) {
  const auto [data, runtime, audit] = sandbox.directories();
  jail::leave_file_system(isolation, std::array{data, runtime, failure_record, audit});
  sys::check(::fchdir(runtime), "entering the runtime directory");
  jail::give_up_rights({.limits = {.files = kMaxFiles + (sandbox.has_network() ? kFlowFiles : 0),
                                   .file_size = kMaxFileSize,
                                   .locked = 0,
                                   .processes = {}},  // see below
                        .writable = std::array{data, failure_record},
                        .appendable = std::array{audit},
                        .signals_children = true,
                        .dials = sandbox.has_network()});
  sandbox.open_network();
  sandbox.start_audit();
  // The monitor was its only child, and the log's thread its only one.
  jail::forbid_processes();
  jail::confine_thread("mvm-sandbox", sandbox_syscalls(sandbox.has_network()));
}

int run_sandbox(jail::Isolation isolation) {
  crypto::start_library();
  // Take what we were handed.
  const sys::Fd inbox(proto::kConfigFd);
  std::optional<Base> base = receive_base(inbox);
  std::unique_ptr<MonitorLink> monitor;
  if (base->machine.spare) {
    monitor = base->start_monitor(isolation);
    if (!await_configuration(inbox, *monitor)) return 1;
  }
  sys::Message message = next_message(inbox, proto::kMaxConfigMessage);
  auto config = proto::SandboxConfig::decode(message.data);
  if (!config) throw Error(Kind::Invalid, "the sandbox's configuration does not decode");
  // TLS is the network's business; what is left is the audit log.
  if (!config->network) crypto::use_digests_and_signatures_alone();
  constexpr auto kFds = static_cast<size_t>(proto::SandboxFd::Count);
  SandboxFds fds =
      take_fds<kFds>(std::move(message.fds), config->kept_path.empty() ? kFds - 1 : kFds);
  std::shared_ptr<const secret::Secrets> secrets;
  // Kept for the record of a start that fails, whose descriptors are gone by then.
  const sys::Fd data = fds.at(static_cast<size_t>(proto::SandboxFd::Data)).duplicate();

  bool serving = false;
  try {
    // TERM ends the sandbox in good order; it arrives through the loop like everything else.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    sys::check(::sigprocmask(SIG_BLOCK, &signals, nullptr), "blocking signals");
    const sys::Fd signal_fd(
        sys::check(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK), "making a signalfd"));

    if (config->secrets) secrets = take_secrets(inbox.get(), *config);
    if (!monitor) monitor = base->start_monitor(isolation);
    base.reset();
    loop::Loop loop;
    Sandbox sandbox(loop, std::move(*config), std::move(secrets), std::move(fds),
                    std::move(monitor));
    [[maybe_unused]] const loop::Watch on_signal =
        loop.watch(signal_fd.get(), EPOLLIN, [&](uint32_t) {
          signalfd_siginfo info{};
          if (sys::read_some(signal_fd.get(), std::as_writable_bytes(std::span(&info, 1))))
            sandbox.stop();
        });

    shut_in(sandbox, isolation, data.get());
    sandbox.run_machine();
    serving = true;
    loop.run();
    // The monitor is reaped and exit.json is written: there is nothing left to put in order.
    ::_exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mvm sandbox: %s\n", error.what());
    record_failure(data.get(), serving, error.what());
    return 1;
  }
}

}
