#include "mvm/monitor/role.h"

#include <csignal>
#include <cstdio>

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/jail/seccomp.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/error.h"
#include "mvm/sys/socket.h"

#include "control_link.h"
#include "machine.h"
#include "syscalls.h"

namespace mvm::monitor {

static constexpr size_t kFdCount = static_cast<size_t>(proto::MonitorFd::Count);

static proto::MonitorEvent ended(proto::EndCause cause, std::string detail) {
  proto::MonitorEvent event;
  event.kind = proto::MonitorEventKind::Ended;
  event.cause = cause;
  event.detail = std::move(detail);
  return event;
}

static void run(sys::Fd socket, const proto::MonitorConfig& config, MonitorFds fds) {
  loop::Loop loop;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<ControlLink> control;

  control = std::make_unique<ControlLink>(
      loop, std::move(socket),
      [&](const proto::MonitorRequest& request, sys::Fd fd) {
        switch (request.kind) {
          case proto::MonitorRequestKind::Connect:
            if (fd) machine->streams().connect(std::move(fd), request.port, request.announce);
            break;
          case proto::MonitorRequestKind::Accept:
            if (fd) {
              machine->streams().accept(request.stream, std::move(fd));
            } else {
              machine->streams().refuse(request.stream);  // we have no descriptor left for it
            }
            break;
          case proto::MonitorRequestKind::Refuse:
            machine->streams().refuse(request.stream);
            break;
          case proto::MonitorRequestKind::Stats: {
            proto::MonitorEvent event;
            event.kind = proto::MonitorEventKind::Stats;
            event.counters = machine->counters();
            control->send(event);
            break;
          }
          case proto::MonitorRequestKind::Memory:
            if (request.balloon) machine->balloon().set_target(*request.balloon);
            machine->balloon().ask();
            break;
          case proto::MonitorRequestKind::Stop:
            machine->flush_console();
            control->send(ended(proto::EndCause::Stopped, ""));
            ::_exit(0);
        }
      },
      // Without the sandbox process nobody knows of this machine.
      [] { ::_exit(1); });

  try {
    machine = std::make_unique<Machine>(
        loop, config, std::move(fds),
        Machine::Handlers{[&](HostStreams::Token stream, uint32_t port) {
                            proto::MonitorEvent event;
                            event.kind = proto::MonitorEventKind::GuestConnect;
                            event.stream = stream;
                            event.port = port;
                            control->send(event);
                          },
                          [&] {
                            proto::MonitorEvent event;
                            event.kind = proto::MonitorEventKind::Running;
                            control->send(event);
                          },
                          [&](proto::EndCause cause, const std::string& detail) {
                            control->send(ended(cause, detail));
                            // The other threads are in the kernel or in the guest; there is nothing
                            // to put in order.
                            ::_exit(0);
                          },
                          [&](const proto::MemoryUse& use) {
                            proto::MonitorEvent event;
                            event.kind = proto::MonitorEventKind::Memory;
                            event.memory = use;
                            control->send(event);
                          }});
  } catch (const Error& error) {
    control->send(ended(proto::EndCause::Failed, error.message()));
    return;
  }

  // Narrow. Threads inherit this, and each adds its own filter before it serves the guest.
  sys::check(::prctl(PR_SET_DUMPABLE, 0), "forbidding core dumps");
  jail::forbid_new_privileges();
  try {
    machine->start();
    jail::confine_thread(loop_thread_syscalls(), jail::violation_from_environment());
    loop.run();
  } catch (const std::exception& error) {
    // The other threads still run, so this process ends without putting anything in order.
    control->send(ended(proto::EndCause::Failed, error.what()));
    ::_exit(1);
  }
}

// Threads here call little deep down. The usual 8 MiB of address space would hold a huge page, and
// the host may well put one there at the first touch.
static void use_small_stacks() {
  constexpr size_t kStack = 256 << 10;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  ::pthread_attr_setstacksize(&attributes, kStack);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

int run_monitor() {
  use_small_stacks();
  // A disk file that has reached RLIMIT_FSIZE is the guest's I/O error, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  // A descriptor a stream: the usual soft limit is just below what the vsock device offers.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  sys::Fd socket(proto::kConfigFd);
  auto message = sys::receive_message(socket.get(), proto::kMaxMonitorMessage);
  if (!message || message->data.empty())
    throw Error(Kind::Invalid, "mvm monitor is started by mvm sandbox");
  const auto config = proto::MonitorConfig::decode(message->data);
  if (!config || message->fds.size() != kFdCount)
    throw Error(Kind::Invalid, "the monitor's configuration does not decode");
  MonitorFds fds;
  for (size_t i = 0; i < kFdCount; ++i) fds.at(i) = std::move(message->fds.at(i));
  run(std::move(socket), *config, std::move(fds));
  return 0;
}

}
