#include "mvm/monitor/role.h"

#include <algorithm>
#include <csignal>

#include <pthread.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/jail/jail.h"
#include "mvm/jail/seccomp.h"
#include "mvm/sys/file.h"
#include "mvm/sys/socket.h"

#include "control_link.h"
#include "machine.h"
#include "syscalls.h"

namespace mvm::monitor {

// The console's log stays far below it.
static constexpr uint64_t kSmallestFileLimit = 64 << 20;
static constexpr size_t kFdCount = static_cast<size_t>(proto::MonitorFd::Count);

static proto::MonitorEvent ended(proto::EndCause cause, std::string detail) {
  proto::MonitorEvent event;
  event.kind = proto::MonitorEventKind::Ended;
  event.cause = cause;
  event.detail = std::move(detail);
  return event;
}

static void run(sys::Fd socket, Chassis& chassis, const proto::MonitorConfig& config,
                MonitorFds fds) {
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
          case proto::MonitorRequestKind::Console:
            if (fd) machine->console().connect(std::move(fd));
            machine->console().resize(request.terminal);
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
        loop, chassis, config, std::move(fds),
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

  // The last stage: every thread adds its own filter before it serves the guest.
  try {
    machine->start();
    jail::confine_thread("mvm-monitor", loop_thread_syscalls());
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

static jail::Limits limits() {
  // A descriptor a stream, and what the machine itself takes: vCPUs, disks, eventfds.
  constexpr uint64_t kOwnFiles = 512;
  constexpr uint64_t kLocked = 8 << 20;
  return {.files = virtio::Vsock::kMaxStreams + kOwnFiles,
          .file_size = UINT64_MAX,  // it has no file yet; see below
          .locked = kLocked,
          .processes = std::nullopt};  // its threads are still to start; pids.max bounds them
}

static sys::Message next_message(const sys::Fd& socket, size_t most) {
  auto message = sys::receive_message(socket.get(), most);
  if (!message || message->data.empty())
    throw Error(Kind::Invalid, "mvm monitor is started by mvm sandbox");
  return std::move(*message);
}

// Puts descriptors where they belong; the last kinds are there when the configuration says so.
static bool place(std::vector<sys::Fd> handed, const proto::MonitorConfig& config,
                  MonitorFds& fds) {
  size_t next = 0;
  for (size_t which = 0; which < kFdCount; ++which) {
    const auto kind = static_cast<proto::MonitorFd>(which);
    if ((kind == proto::MonitorFd::KeptDisk && !config.kept_disk) ||
        (kind == proto::MonitorFd::Tap && !config.nic))
      continue;
    if (next == handed.size()) return false;
    fds.at(which) = std::move(handed[next++]);
  }
  return next == handed.size();
}

// The first three stages of the jail, and what it is handed: nothing that comes from an image or a
// guest is looked at before they are done.
static void run_jailed(sys::Fd socket, jail::Isolation isolation) {
  jail::leave_file_system(isolation, {});
  jail::give_up_rights({.limits = limits(), .writable = {}});

  sys::Message first = next_message(socket, proto::kMaxBaseMessage);
  const auto base = proto::MachineBase::decode(first.data);
  BaseFds base_fds;
  if (!base || first.fds.size() != base_fds.size())
    throw Error(Kind::Invalid, "what the monitor's machine is built on does not decode");
  std::ranges::move(first.fds, base_fds.begin());
  Chassis chassis(*base, std::move(base_fds));

  sys::Message second = next_message(socket, proto::kMaxMonitorMessage);
  const auto config = proto::MonitorConfig::decode(second.data);
  MonitorFds fds;
  if (!config || !place(std::move(second.fds), *config, fds))
    throw Error(Kind::Invalid, "the monitor's configuration does not decode");
  uint64_t largest = kSmallestFileLimit;
  for (const proto::MonitorFd which : {proto::MonitorFd::Overlay, proto::MonitorFd::KeptDisk})
    if (const sys::Fd& disk = fds.at(static_cast<size_t>(which)))
      largest = std::max(largest, sys::file_size(disk.get()));
  jail::limit_file_size(largest);
  run(std::move(socket), chassis, *config, std::move(fds));
}

int run_monitor(jail::Isolation isolation) {
  use_small_stacks();
  // A disk file that has reached its limit is the guest's I/O error, not our end.
  std::signal(SIGXFSZ, SIG_IGN);
  sys::Fd socket(proto::kConfigFd);
  const sys::Fd last_words = socket.duplicate();
  try {
    run_jailed(std::move(socket), isolation);
  } catch (const Error& error) {
    sys::send_message(last_words.get(), ended(proto::EndCause::Failed, error.message()).encode());
    return 1;
  }
  return 0;
}

}
