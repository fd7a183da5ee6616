#include "mvm/sandbox/role.h"

#include <array>
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "mvm/crypto/library.h"
#include "mvm/jail/seccomp.h"
#include "mvm/sandbox/sandbox.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "secrets.h"
#include "syscalls.h"

namespace mvm::sandbox {

// Clients (256), streams between guest and host sockets (1024), and a few of its own.
static constexpr uint64_t kMaxFiles = 2'048;
// Two sockets a flow of the guest's, and what carries bytes between them.
static constexpr uint64_t kFlowFiles = 16'384;
// Records, and lines of the daemon's log, which may be long already.
static constexpr uint64_t kMaxFileSize = 256 << 20;
static constexpr size_t kFdCount = static_cast<size_t>(proto::SandboxFd::Count);

// The descriptors of one configuration message, all there or Error{Invalid}.
static SandboxFds take_fds(std::vector<sys::Fd> received) {
  if (received.size() != kFdCount)
    throw Error(Kind::Invalid, "the configuration came with " + std::to_string(received.size()) +
                                   " descriptors instead of " + std::to_string(kFdCount));
  SandboxFds fds;
  for (size_t i = 0; i < kFdCount; ++i) fds.at(i) = std::move(received.at(i));
  return fds;
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
  auto message = sys::receive_message(inbox.get(), proto::kMaxConfigMessage);
  if (!message || message->data.empty())
    throw Error(Kind::Invalid, "mvm sandbox is started by the daemon; use mvm up");
  auto config = proto::SandboxConfig::decode(message->data);
  if (!config) throw Error(Kind::Invalid, "the sandbox's configuration does not decode");
  // TLS is the network's business; what is left is the audit log.
  if (!config->network) crypto::use_digests_and_signatures_alone();
  SandboxFds fds = take_fds(std::move(message->fds));
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
    loop::Loop loop;
    Sandbox sandbox(loop, std::move(*config), std::move(secrets), std::move(fds), isolation);
    const loop::Watch on_signal = loop.watch(signal_fd.get(), EPOLLIN, [&](uint32_t) {
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
