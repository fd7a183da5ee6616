#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/net/maker.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "links.h"
#include "rules.h"

namespace mvm::net {
namespace {

constexpr int kBacklog = 1024;  // connections that wait to be accepted
constexpr size_t kMaxComplaint = 1024;

void write_setting(const std::string& path, const std::string& value) {
  const sys::Fd file = sys::open_file(path, O_WRONLY);
  sys::write_all(file.get(), as_bytes(value));
}

void option(int socket, int level, int name, const char* doing) {
  const int on = 1;
  sys::check(::setsockopt(socket, level, name, &on, sizeof on), doing);
}

// A socket that may take and send what is addressed to, and from, anybody.
sys::Fd transparent_socket(int type, uint16_t port) {
  sys::Fd socket(sys::check(::socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                            "making a transparent socket"));
  // For both families: IPv4 comes as mapped addresses.
  option(socket.get(), SOL_IPV6, IPV6_TRANSPARENT, "making a socket transparent for IPv6");
  option(socket.get(), SOL_IP, IP_TRANSPARENT, "making a socket transparent for IPv4");
  if (type == SOCK_DGRAM) {
    option(socket.get(), SOL_IPV6, IPV6_RECVORIGDSTADDR, "asking for destinations");
    option(socket.get(), SOL_IP, IP_RECVORIGDSTADDR, "asking for destinations");
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  sys::check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any),
             "binding a transparent socket");
  if (type == SOCK_STREAM)
    sys::check(::listen(socket.get(), kBacklog), "listening on a transparent socket");
  return socket;
}

sys::Fd netlink_socket() {
  return sys::Fd(sys::check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER),
                            "opening a netlink socket"));
}

// The namespace's own answers to what a guest may try.
void harden_stack() {
  const std::pair<const char*, const char*> settings[] = {
      {"/proc/sys/net/ipv4/ip_forward", "0"},
      {"/proc/sys/net/ipv6/conf/all/forwarding", "0"},
      {"/proc/sys/net/ipv6/conf/all/accept_ra", "0"},
      {"/proc/sys/net/ipv6/conf/default/accept_ra", "0"},
      {"/proc/sys/net/ipv6/conf/all/accept_redirects", "0"},
      {"/proc/sys/net/ipv4/conf/all/accept_redirects", "0"},
      {"/proc/sys/net/ipv4/conf/all/send_redirects", "0"},
      {"/proc/sys/net/ipv4/conf/all/accept_source_route", "0"},
      // For ARP, which the rules do not see: who asks from an address of another link would become
      // a neighbour, and those of all namespaces share their room.
      {"/proc/sys/net/ipv4/conf/all/rp_filter", "1"},
      // No error that is an answer to the guest is left out: a program that tries many servers
      // would wait for each. How many there may be is the frame gate's. The kernel's own limits
      // count by guest, and before Linux 6.12 for all namespaces of a host together, so that one
      // sandbox would silence the others.
      {"/proc/sys/net/ipv4/icmp_ratemask", "0"},
      {"/proc/sys/net/ipv6/icmp/ratemask", "\n"},  // of no type
      // The most that a connection to the guest may hold each way. With the host's own limits (4
      // MiB and more) one stream is a tenth faster, 13.5 Gbit/s against 12, and a quarter as many
      // slow ones are what a sandbox's may hold together (Limits::memory).
      {"/proc/sys/net/ipv4/tcp_wmem", "4096 16384 1048576"},
      {"/proc/sys/net/ipv4/tcp_rmem", "4096 131072 1048576"},
  };
  for (const auto& [path, value] : settings) write_setting(path, value);
}

struct Owner {
  uid_t user;
  gid_t group;
};

void become_root_of_new_namespace(const Owner& owner) {
  // What a process that cannot be dumped has in /proc is root's.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  write_setting("/proc/self/setgroups", "deny");
  write_setting("/proc/self/uid_map", "0 " + std::to_string(owner.user) + " 1");
  write_setting("/proc/self/gid_map", "0 " + std::to_string(owner.group) + " 1");
}

GuestNetwork build(const GuestAddresses& addresses, unsigned mtu) {
  GuestNetwork network;
  harden_stack();
  network.tap = make_tap();
  AddressWatch gateway(addresses.gateway6);
  configure_links(addresses, mtu);
  route_marked_to_us();
  install_rules(addresses);
  network.tcp = transparent_socket(SOCK_STREAM, kTcpPort);
  network.dns_tcp = transparent_socket(SOCK_STREAM, kDnsPort);
  network.dns_udp = transparent_socket(SOCK_DGRAM, kDnsPort);
  network.pins = netlink_socket();
  network.refused = netlink_socket();
  gateway.wait();
  return network;
}

// The child: hands over the descriptors, or says in words what went wrong.
[[noreturn]] void run_child(int parent, const Owner& owner, const GuestAddresses& addresses,
                            unsigned mtu) {
  try {
    become_root_of_new_namespace(owner);
    const GuestNetwork made = build(addresses, mtu);
    const int fds[] = {made.tap.get(),     made.tcp.get(),  made.dns_tcp.get(),
                       made.dns_udp.get(), made.pins.get(), made.refused.get()};
    sys::send_message(parent, as_bytes("ok"), fds);
    ::_exit(0);
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    try {
      sys::send_message(parent, as_bytes(text.substr(0, kMaxComplaint)));
    } catch (const std::exception&) {
      ::_exit(2);  // the parent has gone
    }
    ::_exit(1);
  }
}

[[noreturn]] void unsupported(const std::string& why) {
  throw Error(Kind::Unsupported,
              "no network for this sandbox: " + why + "; `mvm doctor` says what the host needs");
}

}

GuestNetworkMaker::GuestNetworkMaker(const GuestAddresses& addresses, unsigned mtu) {
  MVM_ASSERT(mtu >= kMinMtu && mtu <= kMaxMtu);
  const Owner owner{::geteuid(), ::getegid()};
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::SeqPacket);
  // fork(), with namespaces. The mounts are for a caller that leaves the host's files meanwhile.
  const long child = ::syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | SIGCHLD,
                               nullptr, nullptr, nullptr, nullptr);
  if (child < 0) unsupported("making a network namespace: " + sys::errno_text(errno));
  if (child == 0) run_child(theirs.get(), owner, addresses, mtu);
  channel_ = std::move(ours);
  child_ = static_cast<pid_t>(child);
}

static void reap(pid_t child) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED) < 0 && errno == EINTR) {
  }
}

GuestNetworkMaker::~GuestNetworkMaker() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  reap(child_);
}

GuestNetwork GuestNetworkMaker::take() {
  auto message = sys::receive_message(channel_.get(), kMaxComplaint);
  channel_.reset();
  reap(std::exchange(child_, -1));
  if (!message || message->data.empty()) unsupported("its maker died");
  if (as_text(message->data) != "ok" || message->fds.size() != 6)
    unsupported(std::string(as_text(message->data)));
  auto& fds = message->fds;
  return {std::move(fds[0]), std::move(fds[1]), std::move(fds[2]),
          std::move(fds[3]), std::move(fds[4]), std::move(fds[5])};
}

GuestNetwork make_guest_network(const GuestAddresses& addresses, unsigned mtu) {
  return GuestNetworkMaker(addresses, mtu).take();
}

}
