// The egress proxy as a sandbox has it, with a namespace in the guest's place, for a benchmark's
// command: which runs on the proxy's side ("the Internet"), as root of namespaces of their own.
//
//   clients ─ eth0 [guest's namespace] ═ link ═ [sandbox's namespace: rules, listeners] ─ proxy ─
//   lo
//                                                                                          └
//                                                                                          servers
//
//   egress_stand LINK AUTHORITY [RULE]... -- COMMAND [ARGUMENT]...
//     LINK       veth: frames stay in the kernel. tap: as a monitor moves them, by a thread.
//     AUTHORITY  file with the certificates that servers are verified by, or "-"
//     RULE       host=HOST[:PORT]  endpoint="GET https://…"  name=HOST=ADDRESS, which lo gets too
//                protect=HOST: its exchanges are looked into (protection.h)
//   egress_stand setup ROUNDS    prints what making the sandbox's network takes, in milliseconds
//
// The command finds STAND_GUEST (a file of the guest's namespace, for nsenter), STAND_AUTHORITY (a
// file with the certificate that the guest is to trust), STAND_PROXY (process and thread) and,
// where a host is protected, STAND_KEY (what the guest has in its secret's place).
#include <csignal>
#include <cstdio>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/crypto/trust.h"
#include "mvm/egress/proxy.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/pattern.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "../unit/egress/test_resolver.h"
#include "protection.h"

namespace mvm::egress {
namespace {

constexpr const char* kResolver = "198.41.0.4";
constexpr unsigned kMtu = 1500;

void shell(const std::string& command) {
  // The benchmark's own words, no one else's.
  if (std::system(command.c_str()) != 0)  // NOLINT
    throw Error(Kind::Internal, "failed: " + command);
}

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Root stays what it is; others become root of a namespace of users.
void enter_namespaces() {
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  const bool root = ::geteuid() == 0;
  sys::check(::unshare((root ? 0 : CLONE_NEWUSER) | CLONE_NEWNET | CLONE_NEWNS),
             "making namespaces");
  if (!root) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 " + user + " 1");
    write_file("/proc/self/gid_map", "0 " + group + " 1");
  }
  sys::check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  shell("ip link set lo up && ip addr add " + std::string(kResolver) + "/32 dev lo");
}

sys::Fd own_namespace() { return sys::open_file("/proc/self/ns/net", O_RDONLY); }

// In another namespace, and back.
template <typename Work>
void inside(const sys::Fd& where, Work work) {
  const sys::Fd home = own_namespace();
  sys::check(::setns(where.get(), CLONE_NEWNET), "entering a namespace");
  work();
  sys::check(::setns(home.get(), CLONE_NEWNET), "going back");
}

constexpr const char* kGuestSetup =
    "ip link set lo up; ip link set eth0 address 02:6d:76:6d:00:02 mtu 1500 up && "
    "ip addr add 100.127.255.2/30 dev eth0 && ip route add default via 100.127.255.1";

// A veth pair in the TAP's place.
void link_by_veth(net::GuestNetwork& network, const sys::Fd& guest) {
  const sys::Fd sandbox(sys::check(::ioctl(network.tcp.get(), SIOCGSKNS), "finding a namespace"));
  network.tap.reset();
  inside(sandbox, [&] {
    const std::string name = "stand" + std::to_string(::getpid());
    shell("ip link add guest type veth peer name eth0");
    shell(
        "ip link set guest address 02:6d:76:6d:00:01 mtu 1500 up && "
        "ip addr add 100.127.255.1/30 dev guest");
    // By the number of a process, for ip knows no other way without a name in /run.
    const pid_t holder = ::fork();
    if (holder == 0) {
      static_cast<void>(::setns(guest.get(), CLONE_NEWNET));
      ::pause();
      ::_exit(0);
    }
    const auto in_guest = [&] {
      const std::string path = "/proc/" + std::to_string(holder) + "/ns/net";
      struct stat status{};
      struct stat wanted{};
      return ::stat(path.c_str(), &status) == 0 && ::fstat(guest.get(), &wanted) == 0 &&
             status.st_ino == wanted.st_ino;
    };
    while (!in_guest()) ::sched_yield();
    shell("ip link set eth0 netns " + std::to_string(holder));
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
  });
  inside(guest, [] { shell(kGuestSetup); });
}

void offload(int tap) {
  sys::check(::ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6), "offloads");
}

// The guest's end of the link, whose frames a thread moves as a monitor would.
sys::Fd link_by_tap(const net::GuestNetwork& network, const sys::Fd& guest) {
  sys::Fd tap;
  inside(guest, [&] {
    tap = sys::open_file("/dev/net/tun", O_RDWR | O_NONBLOCK);
    ifreq request{};
    std::string("eth0").copy(request.ifr_name, IFNAMSIZ);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    sys::check(::ioctl(tap.get(), TUNSETIFF, &request), "making the guest's link");
    int header = 12;
    sys::check(::ioctl(tap.get(), TUNSETVNETHDRSZ, &header), "sizing its header");
    shell(kGuestSetup);
    shell("ip link set eth0 txqueuelen 10000");
  });
  offload(tap.get());
  offload(network.tap.get());
  return tap;
}

void move_frames(int one, int other, int stop) {
  std::vector<std::byte> frame(70'000);
  std::array<pollfd, 3> entries{pollfd{one, POLLIN, 0}, pollfd{other, POLLIN, 0},
                                pollfd{stop, POLLIN, 0}};
  while (true) {
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[2].revents != 0) return;
    for (int turn = 0; turn < 64; ++turn) {
      bool moved = false;
      for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
        const ssize_t got = ::read(from, frame.data(), frame.size());
        if (got <= 0) continue;
        moved = true;
        // A frame that finds no room is lost, as on any link.
        static_cast<void>(!::write(to, frame.data(), static_cast<size_t>(got)));
      }
      if (!moved) break;
    }
  }
}

// A kind of filter, for one host's exchanges alone.
class OnlyFor : public FilterSource {
 public:
  OnlyFor(std::string host, std::shared_ptr<FilterSource> source)
      : host_(std::move(host)), source_(std::move(source)) {}
  std::unique_ptr<ExchangeFilter> begin(const Exchange& exchange) override {
    return exchange.host == host_ ? source_->begin(exchange) : nullptr;
  }

 private:
  std::string host_;
  std::shared_ptr<FilterSource> source_;
};

struct Wish {
  std::string link;
  std::string authority;
  std::vector<std::string> rules;
  std::string protect;  // a host
  std::vector<char*> command;
};

void apply(const std::string& rule, Settings& settings, TestResolver& resolver,
           std::set<std::string>& addresses) {
  const size_t equals = rule.find('=');
  const std::string kind = rule.substr(0, equals);
  const std::string value = rule.substr(equals + 1);
  if (kind == "host") {
    settings.policy.hosts.push_back(policy::parse_host_rule(value).value());
  } else if (kind == "endpoint") {
    settings.policy.routes.push_back(policy::parse_endpoint(value).value());
  } else if (kind == "name") {
    const size_t second = value.find('=');
    const std::string address = value.substr(second + 1);
    resolver.add(value.substr(0, second), address, 86'400);
    if (addresses.insert(address).second) shell("ip addr add " + address + "/32 dev lo");
  } else {
    throw Error(Kind::Invalid, "no rule: " + rule);
  }
}

int run(const Wish& wish) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  constexpr rlim_t kWanted = 40'000;  // root may have them
  const rlimit more{kWanted, std::max(kWanted, files.rlim_max)};
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) ::setrlimit(RLIMIT_NOFILE, &files);
  ::signal(SIGPIPE, SIG_IGN);
  enter_namespaces();
  net::GuestNetwork network = net::make_guest_network({}, kMtu);
  sys::Fd guest;
  {
    const sys::Fd home = own_namespace();
    sys::check(::unshare(CLONE_NEWNET), "making the guest's namespace");
    guest = own_namespace();
    sys::check(::setns(home.get(), CLONE_NEWNET), "going back");
  }
  sys::Fd guest_tap;
  if (wish.link == "veth") {
    link_by_veth(network, guest);
  } else {
    guest_tap = link_by_tap(network, guest);
  }
  const sys::Fd tap = guest_tap ? network.tap.duplicate() : sys::Fd();

  loop::Loop loop;
  TestResolver resolver(loop);
  resolver.listen(kResolver);
  Settings settings;
  std::set<std::string> addresses;
  for (const std::string& rule : wish.rules) apply(rule, settings, resolver, addresses);
  settings.resolvers = {{IpAddress::parse(kResolver).value(), 53}};
  settings.limits.flows = 0;
  settings.limits.flows_per_second = 0;
  if (wish.authority != "-")
    settings.extra_authorities = sys::read_text_file(wish.authority, 1 << 20);
  std::string directory = "/tmp/mvm-stand-XXXXXX";
  std::optional<bench::Protection> protection;
  if (!wish.protect.empty()) {
    if (::mkdtemp(directory.data()) == nullptr) sys::check(-1, "making a directory");
    protection.emplace(wish.protect, directory);
    settings.commit = protection->commit();
    for (const auto& source : protection->sources())
      settings.filters.push_back(std::make_shared<OnlyFor>(wish.protect, source));
  }
  Proxy proxy(loop, std::move(network), settings, [](const Event&) { return true; });

  std::string authority = "/tmp/mvm-stand-XXXXXX";
  const sys::Fd authority_file(sys::check(::mkstemp(authority.data()), "making a file"));
  sys::write_all(authority_file.get(), as_bytes(proxy.authority_pem()));
  const pid_t own = ::getpid();
  const pid_t child = sys::check(::fork(), "fork");
  if (child == 0) {
    ::setenv("STAND_GUEST",
             ("/proc/" + std::to_string(own) + "/fd/" + std::to_string(guest.get())).c_str(), 1);
    ::setenv("STAND_AUTHORITY", authority.c_str(), 1);
    ::setenv("STAND_PROXY", (std::to_string(own) + "/" + std::to_string(own)).c_str(), 1);
    if (protection) ::setenv("STAND_KEY", protection->placeholder().c_str(), 1);
    ::execvp(wish.command[0], wish.command.data());
    ::_exit(127);
  }
  const sys::Fd ended = sys::event_fd();
  std::thread mover;
  if (guest_tap) mover = std::thread([&] { move_frames(tap.get(), guest_tap.get(), ended.get()); });
  const sys::Fd pidfd(
      static_cast<int>(sys::check(::syscall(SYS_pidfd_open, child, 0), "watching the command")));
  const loop::Watch watch = loop.watch(pidfd.get(), EPOLLIN, [&](uint32_t) { loop.stop(); });
  loop.run();
  int status = 0;
  ::waitpid(child, &status, 0);
  if (mover.joinable()) {
    sys::signal_event(ended.get());
    mover.join();
  }
  ::unlink(authority.c_str());
  if (protection) std::filesystem::remove_all(directory);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int setup(long rounds) {
  for (; rounds > 0; --rounds) {
    const auto begin = std::chrono::steady_clock::now();
    const net::GuestNetwork network = net::make_guest_network({}, net::kMaxMtu);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.3f\n", took.count());
  }
  return 0;
}

}
}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "setup")
      return mvm::egress::setup(std::strtol(words[1].c_str(), nullptr, 10));
    mvm::egress::Wish wish;
    size_t at = 2;
    for (; at < words.size() && words[at] != "--"; ++at)
      if (words[at].starts_with("protect="))
        wish.protect = words[at].substr(8);
      else
        wish.rules.push_back(words[at]);
    if (at + 1 >= words.size() || (words[0] != "veth" && words[0] != "tap")) {
      std::fputs("usage: egress_stand veth|tap AUTHORITY [RULE]... -- COMMAND...\n", stderr);
      return 2;
    }
    wish.link = words[0];
    wish.authority = words[1];
    for (int i = static_cast<int>(at) + 2; i < argc; ++i) wish.command.push_back(argv[i]);
    wish.command.push_back(nullptr);
    return mvm::egress::run(wish);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "egress_stand: %s\n", error.what());
    return 1;
  }
}
