// Milliseconds from starting `mvm monitor` to its first KVM_RUN, a line a run: the host's share of
// a cold start. The guest gets 256 MiB, one vCPU and the kernel given; it is killed as soon as it
// runs.
//
//   first_kvm_run MONITOR VMLINUX ROUNDS [ISOLATION]
//
// MONITOR is src/mvm-monitor as built, which mvm has inside.
// ISOLATION is how far it is set apart (jail::isolation_from_name); as far as this host allows when
// not given.
#include <chrono>
#include <cstdio>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/jail/jail.h"
#include "mvm/proto/machine_base.h"
#include "mvm/proto/monitor.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

namespace mvm {

static double measure(const std::string& program, const std::string& kernel,
                      const std::string& scratch, jail::Isolation isolation) {
  const sys::Fd kvm = sys::open_file("/dev/kvm", O_RDWR);
  const sys::Fd log = sys::open_file(scratch + "/log", O_RDWR | O_CREAT);
  const sys::Fd kernel_file = sys::open_file(kernel, O_RDONLY);
  const sys::Fd initramfs = sys::memory_file("initramfs", 1 << 20);
  const sys::Fd disk = sys::memory_file("disk", 1 << 20);
  const int base_fds[] = {kvm.get(), kernel_file.get(), initramfs.get()};
  static_assert(std::size(base_fds) == static_cast<size_t>(proto::BaseFd::Count));
  const int fds[] = {log.get(), disk.get(), disk.get()};
  // All but a kept disk and the TAP of a network card.
  static_assert(std::size(fds) == static_cast<size_t>(proto::MonitorFd::KeptDisk));
  const proto::MachineBase base{.memory = 256 << 20};
  proto::MonitorConfig config;
  config.cmdline = "quiet";

  auto [ours, theirs] = sys::socket_pair(sys::SocketType::SeqPacket);
  const auto start = std::chrono::steady_clock::now();
  sys::SpawnOptions options;
  options.argv = {program, "monitor", std::string(jail::isolation_name(isolation))};
  options.fds = {{theirs.get(), proto::kConfigFd}};
  jail::set_apart(options, isolation, jail::Network::Empty);
  sys::Child child = sys::spawn(options);
  sys::send_message(ours.get(), base.encode(), base_fds);
  sys::send_message(ours.get(), config.encode(), fds);
  const auto message = sys::receive_message(ours.get(), proto::kMaxMonitorMessage);
  const auto end = std::chrono::steady_clock::now();
  child.signal(SIGKILL);
  child.wait();
  const auto event = message ? proto::MonitorEvent::decode(message->data) : std::nullopt;
  if (!event || event->kind != proto::MonitorEventKind::Running)
    throw Error(Kind::Internal,
                "the monitor did not start: " + (event ? event->detail : "no word"));
  return std::chrono::duration<double, std::milli>(end - start).count();
}

static int run(int argc, char** argv) {
  const auto rounds = argc == 4 || argc == 5 ? parse_u64(argv[3]) : std::nullopt;
  const auto isolation =
      argc == 5 ? jail::isolation_from_name(argv[4]) : std::optional(jail::probe_host().isolation);
  if (!rounds || !isolation) {
    std::fprintf(stderr, "usage: first_kvm_run MONITOR VMLINUX ROUNDS [ISOLATION]\n");
    return 2;
  }
  const sys::TempDir scratch;
  for (uint64_t i = 0; i < *rounds; ++i)
    std::printf("%.3f\n", measure(argv[1], argv[2], scratch.path(), *isolation));
  return 0;
}

}

int main(int argc, char** argv) {
  try {
    return mvm::run(argc, argv);
  } catch (const mvm::Error& error) {
    std::fprintf(stderr, "first_kvm_run: %s\n", error.what());
    return 1;
  }
}
