// By ioctl(2): each call is one line, and the answers are errno. The card has no link-local address
// and listens to no router: its only neighbour is the gateway, which the host has named.
#include "network.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "init.h"

namespace mvm::guest {
namespace {

constexpr const char* kCard = "eth0";
constexpr const char* kResolvers = "/etc/resolv.conf";

// struct in6_ifreq, whose header the C library's do not go together with.
struct AddressRequest6 {
  in6_addr address;
  uint32_t length;
  int index;
};

sys::Fd control_socket(int family) {
  return sys::Fd(sys::check(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "opening a socket"));
}

ifreq request_for_card() {
  ifreq request{};
  std::strncpy(request.ifr_name, kCard, IFNAMSIZ - 1);
  return request;
}

sockaddr socket_address(const IpAddress& address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  std::memcpy(&in.sin_addr, address.bytes().data(), sizeof in.sin_addr);
  sockaddr out{};
  std::memcpy(&out, &in, sizeof in);
  return out;
}

in6_addr address6(const IpAddress& address) {
  in6_addr out{};
  std::memcpy(&out, address.bytes().data(), sizeof out);
  return out;
}

void bring_up(int socket) {
  ifreq request = request_for_card();
  sys::check(::ioctl(socket, SIOCGIFFLAGS, &request), "looking for the network card");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  sys::check(::ioctl(socket, SIOCSIFFLAGS, &request), "bringing up the network card");
}

void set_up_v4(const CardAddress& card) {
  const sys::Fd socket = control_socket(AF_INET);
  ifreq request = request_for_card();
  request.ifr_addr = socket_address(card.address);
  sys::check(::ioctl(socket.get(), SIOCSIFADDR, &request), "setting the IPv4 address");
  const uint32_t mask = card.length == 0 ? 0 : ~uint32_t{0} << (32 - card.length);
  request.ifr_netmask = socket_address(IpAddress(
      IpAddress::V4{static_cast<uint8_t>(mask >> 24), static_cast<uint8_t>(mask >> 16 & 255),
                    static_cast<uint8_t>(mask >> 8 & 255), static_cast<uint8_t>(mask & 255)}));
  sys::check(::ioctl(socket.get(), SIOCSIFNETMASK, &request), "setting the IPv4 netmask");
  bring_up(socket.get());
  rtentry route{};
  route.rt_dst = route.rt_genmask = socket_address(IpAddress());
  route.rt_gateway = socket_address(card.gateway);
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  sys::check(::ioctl(socket.get(), SIOCADDRT, &route), "setting the IPv4 route");
}

void set_for_card(const char* name, const char* value) {
  const std::string path = std::string("/proc/sys/net/ipv6/conf/") + kCard + "/" + name;
  const sys::Fd file = sys::open_file(path, O_WRONLY);
  sys::write_all(file.get(), as_bytes(value));
}

// Before the card comes up: nobody else can have the address, so it need not be asked for.
void quiet_v6() {
  set_for_card("accept_dad", "0");
  set_for_card("accept_ra", "0");
  set_for_card("autoconf", "0");
  set_for_card("addr_gen_mode", "1");  // no link-local address
}

void set_up_v6(const CardAddress& card) {
  const sys::Fd socket = control_socket(AF_INET6);
  bring_up(socket.get());
  ifreq request = request_for_card();
  sys::check(::ioctl(socket.get(), SIOCGIFINDEX, &request), "looking for the network card");
  const AddressRequest6 address{address6(card.address), card.length, request.ifr_ifindex};
  sys::check(::ioctl(socket.get(), SIOCSIFADDR, &address), "setting the IPv6 address");
  in6_rtmsg route{};
  route.rtmsg_gateway = address6(card.gateway);
  route.rtmsg_flags = RTF_UP | RTF_GATEWAY;
  route.rtmsg_ifindex = request.ifr_ifindex;
  route.rtmsg_metric = 1;
  sys::check(::ioctl(socket.get(), SIOCADDRT, &route), "setting the IPv6 route");
}

// Whatever the image has there was for another network, or is a link to nowhere.
void name_resolver(const IpAddress& gateway) {
  ::mkdir("/etc", 0755);
  ::unlink(kResolvers);
  const sys::Fd file =
      sys::open_file(kResolvers, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC);
  sys::check(::fchmod(file.get(), 0644), "naming the name server");
  sys::write_all(file.get(), as_bytes("# Answers for the names that this sandbox may reach.\n"
                                      "nameserver " +
                                      gateway.text() + "\n"));
}

template <typename Step>
void attempt(Step step) {
  try {
    step();
  } catch (const Error& error) {
    say("network: " + error.message());
  }
}

}

void set_up_network(const Settings& settings) {
  if (settings.ip6) attempt([] { quiet_v6(); });
  if (settings.ip4) attempt([&] { set_up_v4(*settings.ip4); });
  if (settings.ip6) attempt([&] { set_up_v6(*settings.ip6); });
  if (settings.ip4) attempt([&] { name_resolver(settings.ip4->gateway); });
}

}
