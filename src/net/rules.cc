// Everything the guest sends meets one chain before routing. Whatever no rule accepts is dropped
// there. In the order of the rules:
//
//   neighbour discovery from no address yet, or the   accepted: the namespace's own business
//   one that the guest's card makes for the link
//   a source that is not the guest's                  dropped
//   its neighbour discovery, pings to the gateway     accepted
//   DNS, to any address                               to our resolver
//   TCP of a connection that we have                  to its socket
//   TCP to a pinned address and port, or a range      to our listener
//   other TCP                                         noted, reset
//   other UDP                                         noted, refused by ICMP: QUIC falls back at
//   once
#include "rules.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "links.h"
#include "nft_batch.h"

namespace mvm::net {
namespace {

// Types and flags by the RFCs: the C library's headers for them and the kernel's for the rest do
// not go together.
constexpr uint8_t kEchoRequest4 = 8;             // RFC 792
constexpr uint8_t kEchoRequest6 = 128;           // RFC 4443
constexpr uint8_t kNeighbourSolicitation = 135;  // RFC 4861
constexpr uint16_t kLongestPing = 1500;          // bytes, as IP counts them
constexpr uint32_t kFin = 1;                     // RFC 9293, in the word at byte 12 of a segment
constexpr uint32_t kSyn = 2;
constexpr uint32_t kRst = 4;
constexpr uint32_t kAck = 16;

ByteView view(const uint8_t& byte) { return std::as_bytes(std::span(&byte, 1)); }
ByteView view(const IpAddress& address) { return std::as_bytes(address.bytes()); }

// A rule for packets of one family and protocol.
RuleWriter rule_for(NftBatch& batch, uint8_t family, uint8_t protocol) {
  RuleWriter rule = batch.add_rule();
  rule.meta(NFT_META_NFPROTO).equals(view(family));
  rule.meta(NFT_META_L4PROTO).equals(view(protocol));
  return rule;
}
RuleWriter rule_for(NftBatch& batch, uint8_t protocol) {
  RuleWriter rule = batch.add_rule();
  rule.meta(NFT_META_L4PROTO).equals(view(protocol));
  return rule;
}

struct Family {
  uint8_t family;
  uint32_t source_at;
  uint32_t destination_at;
  uint32_t length;
  const char* pins;
  const char* ranges;
};
constexpr Family kFamilies[] = {
    {NFPROTO_IPV4, 12, 16, 4, kPins4, kRanges4},
    {NFPROTO_IPV6, 8, 24, 16, kPins6, kRanges6},
};

constexpr uint32_t kDestinationPortAt = 2;  // in TCP and UDP headers alike

void drop_other_sources(NftBatch& batch, const Family& family, const IpAddress& guest) {
  RuleWriter rule = batch.add_rule();
  rule.meta(NFT_META_NFPROTO).equals(view(family.family));
  rule.payload(NFT_PAYLOAD_NETWORK_HEADER, family.source_at, family.length).differs(view(guest));
  rule.drop();
}

// Each address that asks becomes a neighbour, and those of all namespaces share their room
// (gc_thresh3), so there are no others. Nothing is learned of what the guest advertises: it is a
// permanent neighbour.
void accept_neighbour_discovery(NftBatch& batch, const IpAddress& from) {
  RuleWriter rule = rule_for(batch, NFPROTO_IPV6, IPPROTO_ICMPV6);
  rule.payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1).equals(view(kNeighbourSolicitation));
  constexpr uint8_t kOnLink = 255;  // a hop limit that no router leaves (RFC 4861 §7.1)
  rule.payload(NFT_PAYLOAD_NETWORK_HEADER, 7, 1).equals(view(kOnLink));
  rule.payload(NFT_PAYLOAD_NETWORK_HEADER, 8, 16).equals(view(from));
  rule.accept();
}

// What a card's address makes of itself (RFC 4291, appendix A).
IpAddress link_local(const MacAddress& mac) {
  return IpAddress(IpAddress::V6{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(mac[0] ^ 2),
                                 mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]});
}

// Of the size that programs send. Answers are no socket's and no cgroup's: of the longest there
// are, a guest that takes no frames would have the link's queue hold 64 MB.
void accept_ping(NftBatch& batch, const Family& family, const IpAddress& gateway) {
  const bool v4 = family.family == NFPROTO_IPV4;
  RuleWriter rule =
      rule_for(batch, family.family, v4 ? uint8_t{IPPROTO_ICMP} : uint8_t{IPPROTO_ICMPV6});
  const uint16_t longest = htons(kLongestPing);
  rule.payload(NFT_PAYLOAD_NETWORK_HEADER, v4 ? 2 : 4, 2)
      .at_most(std::as_bytes(std::span(&longest, 1)));
  const uint8_t echo = v4 ? kEchoRequest4 : kEchoRequest6;
  rule.payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1).equals(view(echo));
  rule.payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination_at, family.length)
      .equals(view(gateway));
  rule.accept();
}

void take_dns(NftBatch& batch, uint8_t protocol) {
  RuleWriter rule = rule_for(batch, protocol);
  const uint16_t port = htons(kDnsPort);
  rule.payload(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPortAt, 2)
      .equals(std::as_bytes(std::span(&port, 1)));
  rule.to_listener(NFPROTO_UNSPEC, kDnsPort).set_mark(kMark).accept();
}

void keep_connections(NftBatch& batch) {
  rule_for(batch, IPPROTO_TCP).has_connection().set_mark(kMark).accept();
}

void take_pinned(NftBatch& batch, const Family& family) {
  const auto start = [&] { return rule_for(batch, family.family, IPPROTO_TCP); };
  RuleWriter pinned = start();
  pinned.payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination_at, family.length);
  pinned.payload(NFT_PAYLOAD_TRANSPORT_HEADER, kDestinationPortAt, 2, family.length / 4);
  pinned.in_set(family.pins).to_listener(family.family, kTcpPort).set_mark(kMark).accept();
  RuleWriter in_range = start();
  in_range.payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination_at, family.length);
  in_range.in_set(family.ranges).to_listener(family.family, kTcpPort).set_mark(kMark).accept();
}

void refuse_the_rest(NftBatch& batch) {
  // A connection attempt is noted once; what else belongs to none is not.
  RuleWriter attempt = rule_for(batch, IPPROTO_TCP);
  attempt.payload(NFT_PAYLOAD_TRANSPORT_HEADER, 12, 4);
  attempt.is_masked(htonl((kFin | kSyn | kRst | kAck) << 16), htonl(kSyn << 16));
  attempt.log(kRefusedGroup).reset_connection();
  rule_for(batch, IPPROTO_TCP).reset_connection();
  rule_for(batch, IPPROTO_UDP).log(kRefusedGroup).refuse();
}

}

void install_rules(const GuestAddresses& addresses) {
  NftBatch batch;
  batch.add_table();
  for (const Family& family : kFamilies) {
    batch.add_set(family.pins, family.length + 4, false);
    batch.add_set(family.ranges, family.length, true);
  }
  batch.add_chain();
  // Before sources are checked: what a host asks before it uses its address comes from others.
  accept_neighbour_discovery(batch, IpAddress(IpAddress::V6{}));
  accept_neighbour_discovery(batch, link_local(addresses.guest_mac));
  drop_other_sources(batch, kFamilies[0], addresses.guest4);
  drop_other_sources(batch, kFamilies[1], addresses.guest6);
  accept_neighbour_discovery(batch, addresses.guest6);
  accept_ping(batch, kFamilies[0], addresses.gateway4);
  accept_ping(batch, kFamilies[1], addresses.gateway6);
  take_dns(batch, IPPROTO_UDP);
  take_dns(batch, IPPROTO_TCP);
  keep_connections(batch);
  for (const Family& family : kFamilies) take_pinned(batch, family);
  refuse_the_rest(batch);
  const NlSocket socket = open_netlink(NETLINK_NETFILTER);
  batch.commit(nl_socket_get_fd(socket.get()), "installing the sandbox's network rules");
}

}
