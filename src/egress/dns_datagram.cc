#include "dns_datagram.h"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>

#include "mvm/sys/error.h"

namespace mvm::egress {
namespace {

struct Message {
  explicit Message(sockaddr_in6& peer, std::span<std::byte> data) {
    part = {data.data(), data.size()};
    header.msg_name = &peer;
    header.msg_namelen = sizeof peer;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
  }
  msghdr header{};
  iovec part{};
};

std::optional<in6_addr> original_destination(msghdr& header) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    in6_addr address{};
    if (at->cmsg_level == SOL_IP && at->cmsg_type == IP_ORIGDSTADDR) {
      sockaddr_in v4{};
      std::memcpy(&v4, CMSG_DATA(at), sizeof v4);
      address.s6_addr[10] = address.s6_addr[11] = 0xff;  // RFC 4291 §2.5.5.2
      std::memcpy(address.s6_addr + 12, &v4.sin_addr, sizeof v4.sin_addr);
      return address;
    }
    if (at->cmsg_level == SOL_IPV6 && at->cmsg_type == IPV6_ORIGDSTADDR) {
      sockaddr_in6 v6{};
      std::memcpy(&v6, CMSG_DATA(at), sizeof v6);
      return v6.sin6_addr;
    }
  }
  return std::nullopt;
}

}

std::optional<Datagram> receive_datagram(int socket) {
  while (true) {
    Datagram datagram;
    Message message(datagram.back.client, datagram.data);
    alignas(cmsghdr) std::array<std::byte, 256> control;
    message.header.msg_control = control.data();
    message.header.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message.header, 0);
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    // An ICMP error for an earlier answer is no concern of the next query.
    if (got < 0 && (errno == EINTR || errno == ECONNREFUSED || errno == EHOSTUNREACH)) continue;
    if (got < 0) throw SystemError(errno, "reading a DNS query");
    if ((message.header.msg_flags & MSG_TRUNC) != 0) continue;
    const auto asked = original_destination(message.header);
    if (!asked) continue;
    datagram.back.asked = *asked;
    datagram.length = static_cast<size_t>(got);
    return datagram;
  }
}

void send_datagram(int socket, const WayBack& back, ByteView message) noexcept {
  sockaddr_in6 client = back.client;
  // sendmsg does not write to it.
  auto* data = const_cast<std::byte*>(message.data());
  Message out(client, std::span(data, message.size()));
  // Of either family: the kernel takes a mapped address for IPv4.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> control{};
  out.header.msg_control = control.data();
  out.header.msg_controllen = control.size();
  cmsghdr* source = CMSG_FIRSTHDR(&out.header);
  source->cmsg_level = SOL_IPV6;
  source->cmsg_type = IPV6_PKTINFO;
  source->cmsg_len = CMSG_LEN(sizeof(in6_pktinfo));
  in6_pktinfo info{};
  info.ipi6_addr = back.asked;
  std::memcpy(CMSG_DATA(source), &info, sizeof info);
  static_cast<void>(::sendmsg(socket, &out.header, MSG_NOSIGNAL));
}

}
