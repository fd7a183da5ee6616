#include "links.h"

#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>

#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "netlink.h"

namespace mvm::net {
namespace {

using Link = std::unique_ptr<rtnl_link, Freed<&rtnl_link_put>>;
using Address = std::unique_ptr<rtnl_addr, Freed<&rtnl_addr_put>>;
using Neighbour = std::unique_ptr<rtnl_neigh, Freed<&rtnl_neigh_put>>;
using Route = std::unique_ptr<rtnl_route, Freed<&rtnl_route_put>>;
using Rule = std::unique_ptr<rtnl_rule, Freed<&rtnl_rule_put>>;

// virtio_net_hdr_v1, whose header file C++ cannot read.
constexpr int kVnetHeader = 12;
constexpr uint32_t kTable = 100;
constexpr uint32_t kLoopback = 1;  // the first link of every namespace
// Frames for a guest that does not take them are nobody's memory: no socket's, once it is closed,
// and no cgroup's. Of the longest there are these hold 64 MiB; 10'000 carry no more (measured, one
// to sixteen streams each way).
constexpr unsigned kQueueLength = 1'000;

template <typename Pointer>
Pointer made(Pointer pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

NlAddress mac_address(const MacAddress& mac) {
  return made(NlAddress(nl_addr_build(AF_LLC, mac.data(), mac.size())));
}

int link_index(nl_sock* socket, const char* name) {
  rtnl_link* found = nullptr;
  nl_check(rtnl_link_get_kernel(socket, 0, name, &found), "looking for the guest's link");
  const Link link(found);
  return rtnl_link_get_ifindex(link.get());
}

void bring_up(nl_sock* socket, int index, const Link& change) {
  const Link original = made(Link(rtnl_link_alloc()));
  rtnl_link_set_ifindex(original.get(), index);
  rtnl_link_set_flags(change.get(), IFF_UP);
  nl_check(rtnl_link_change(socket, original.get(), change.get(), 0), "bringing a link up");
}

void add_address(nl_sock* socket, int index, const IpAddress& address, unsigned length) {
  const Address entry = made(Address(rtnl_addr_alloc()));
  rtnl_addr_set_ifindex(entry.get(), index);
  nl_check(rtnl_addr_set_local(entry.get(), nl_address(address, length).get()),
           "naming an address");
  // Nobody else is on this link, so nobody has the address already (RFC 4862 §5.4).
  if (!address.is_v4()) rtnl_addr_set_flags(entry.get(), IFA_F_NODAD);
  nl_check(rtnl_addr_add(socket, entry.get(), 0), "adding the gateway's address");
}

void add_neighbour(nl_sock* socket, int index, const IpAddress& address, const MacAddress& mac) {
  const Neighbour entry = made(Neighbour(rtnl_neigh_alloc()));
  rtnl_neigh_set_ifindex(entry.get(), index);
  rtnl_neigh_set_dst(entry.get(), nl_address(address, address.bits()).get());
  rtnl_neigh_set_lladdr(entry.get(), mac_address(mac).get());
  // Not to be learned, so not to be changed by what the guest sends.
  rtnl_neigh_set_state(entry.get(), NUD_PERMANENT);
  nl_check(rtnl_neigh_add(socket, entry.get(), NLM_F_CREATE | NLM_F_REPLACE),
           "adding the guest as neighbour");
}

void deliver_everything(nl_sock* socket, const IpAddress& any) {
  const Route route = made(Route(rtnl_route_alloc()));
  rtnl_route_set_family(route.get(), any.is_v4() ? AF_INET : AF_INET6);
  rtnl_route_set_table(route.get(), kTable);
  rtnl_route_set_type(route.get(), RTN_LOCAL);
  rtnl_route_set_scope(route.get(), any.is_v4() ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE);
  nl_check(rtnl_route_set_dst(route.get(), nl_address(any, 0).get()), "naming a route");
  rtnl_nexthop* hop = rtnl_route_nh_alloc();
  if (hop == nullptr) throw std::bad_alloc();
  rtnl_route_nh_set_ifindex(hop, kLoopback);
  rtnl_route_add_nexthop(route.get(), hop);  // and owns it
  nl_check(rtnl_route_add(socket, route.get(), NLM_F_CREATE), "adding the local route");
}

void use_table_for_mark(nl_sock* socket, int family) {
  const Rule rule = made(Rule(rtnl_rule_alloc()));
  rtnl_rule_set_family(rule.get(), family);
  rtnl_rule_set_mark(rule.get(), kMark);
  rtnl_rule_set_mask(rule.get(), 0xffff'ffff);
  rtnl_rule_set_table(rule.get(), kTable);
  rtnl_rule_set_action(rule.get(), FR_ACT_TO_TBL);
  nl_check(rtnl_rule_add(socket, rule.get(), NLM_F_CREATE | NLM_F_EXCL), "adding a routing rule");
}

}

sys::Fd make_tap() {
  sys::Fd tap = sys::open_file("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  std::string_view(kTapName).copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  sys::check(::ioctl(tap.get(), TUNSETIFF, &request), "making the guest's TAP");
  int header = kVnetHeader;
  sys::check(::ioctl(tap.get(), TUNSETVNETHDRSZ, &header), "setting the TAP's header size");
  return tap;
}

void configure_links(const GuestAddresses& addresses, unsigned mtu) {
  const NlSocket socket = open_netlink(NETLINK_ROUTE);
  bring_up(socket.get(), kLoopback, made(Link(rtnl_link_alloc())));
  const int index = link_index(socket.get(), kTapName);
  const Link change = made(Link(rtnl_link_alloc()));
  rtnl_link_set_addr(change.get(), mac_address(addresses.gateway_mac).get());
  rtnl_link_set_mtu(change.get(), mtu);
  rtnl_link_set_txqlen(change.get(), kQueueLength);
  bring_up(socket.get(), index, change);
  add_address(socket.get(), index, addresses.gateway4, addresses.length4);
  add_address(socket.get(), index, addresses.gateway6, addresses.length6);
  add_neighbour(socket.get(), index, addresses.guest4, addresses.guest_mac);
  add_neighbour(socket.get(), index, addresses.guest6, addresses.guest_mac);
}

AddressWatch::AddressWatch(const IpAddress& address)
    : address_(address), socket_(open_netlink(NETLINK_ROUTE)) {
  constexpr timeval kPatience{10, 0};  // the worker runs at once, except on a host without time
  nl_socket_disable_seq_check(socket_.get());
  nl_check(nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, note, this),
           "reading routes");
  nl_check(nl_socket_add_membership(socket_.get(), RTNLGRP_IPV6_ROUTE), "asking for routes");
  sys::check(::setsockopt(nl_socket_get_fd(socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &kPatience,
                          sizeof kPatience),
             "bounding the wait for a route");
}

int AddressWatch::note(nl_msg* message, void* watch) {
  auto& self = *static_cast<AddressWatch*>(watch);
  nlmsghdr* const header = nlmsg_hdr(message);
  if (header->nlmsg_type != RTM_NEWROUTE || nlmsg_datalen(header) < int{sizeof(rtmsg)})
    return NL_OK;
  const auto* route = static_cast<const rtmsg*>(nlmsg_data(header));
  const nlattr* to = nlmsg_find_attr(header, sizeof(rtmsg), RTA_DST);
  const auto wanted = self.address_.bytes();
  if (route->rtm_type == RTN_LOCAL && route->rtm_dst_len == self.address_.bits() && to != nullptr &&
      nla_len(to) == static_cast<int>(wanted.size()) &&
      std::memcmp(nla_data(to), wanted.data(), wanted.size()) == 0)
    self.ready_ = true;
  return NL_OK;
}

void AddressWatch::wait() {
  while (!ready_)
    nl_check(nl_recvmsgs_default(socket_.get()), "waiting for the gateway's IPv6 address");
}

void route_marked_to_us() {
  const NlSocket socket = open_netlink(NETLINK_ROUTE);
  deliver_everything(socket.get(), IpAddress(IpAddress::V4{}));
  deliver_everything(socket.get(), IpAddress(IpAddress::V6{}));
  use_table_for_mark(socket.get(), AF_INET);
  use_table_for_mark(socket.get(), AF_INET6);
}

}
