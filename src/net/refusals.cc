#include "mvm/net/refusals.h"

#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <sys/socket.h>

#include <netlink/attr.h>
#include <netlink/msg.h>

#include "mvm/net/guest_network.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "netlink.h"

namespace mvm::net {
namespace {

constexpr uint32_t kCopied = 128;  // bytes of each packet: addresses and ports, no payload of use
constexpr int kReceiveBuffer = 1 << 20;  // bytes; some thousand reports

// One configuration message, acknowledged.
void configure(int netlink, int attribute, const void* data, int length) {
  const NlMessage message(nlmsg_alloc());
  if (!message) throw std::bad_alloc();
  if (nlmsg_put(message.get(), NL_AUTO_PORT, 0, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
                sizeof(nfgenmsg), NLM_F_REQUEST | NLM_F_ACK) == nullptr)
    throw std::bad_alloc();
  auto* head = static_cast<nfgenmsg*>(nlmsg_data(nlmsg_hdr(message.get())));
  head->nfgen_family = AF_UNSPEC;
  head->version = NFNETLINK_V0;
  head->res_id = htons(kRefusedGroup);
  if (nla_put(message.get(), attribute, length, data) < 0) throw std::bad_alloc();
  const nlmsghdr* header = nlmsg_hdr(message.get());
  constexpr std::string_view kDoing = "asking the kernel for refused packets (nflog)";
  if (::send(netlink, header, header->nlmsg_len, 0) < 0) throw SystemError(errno, kDoing);
  alignas(nlmsghdr) std::array<std::byte, 4096> buffer;
  const ssize_t got = ::recv(netlink, buffer.data(), buffer.size(), 0);
  if (got < 0) throw SystemError(errno, kDoing);
  const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (!nlmsg_ok(answer, static_cast<int>(got)) || answer->nlmsg_type != NLMSG_ERROR) return;
  const int error = static_cast<const nlmsgerr*>(nlmsg_data(answer))->error;
  if (error != 0) throw SystemError(-error, kDoing);
}

}

std::optional<Refusal> parse_refused(ByteView packet) {
  if (packet.empty()) return std::nullopt;
  Reader in(packet);
  Refusal refusal;
  uint8_t protocol = 0;
  const unsigned version = std::to_integer<unsigned>(packet[0]) >> 4;
  if (version == 4) {
    const size_t header = (std::to_integer<size_t>(packet[0]) & 15) * 4;
    in.skip(9);
    protocol = in.u8();
    in.skip(6);
    refusal.to = IpAddress(in.read<IpAddress::V4>());
    if (header < 20) return std::nullopt;
    in.skip(header - 20);
  } else if (version == 6) {
    in.skip(6);
    protocol = in.u8();
    in.skip(17);
    refusal.to = IpAddress(in.read<IpAddress::V6>());
  } else {
    return std::nullopt;
  }
  if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) return std::nullopt;
  refusal.transport = protocol == IPPROTO_TCP ? Transport::Tcp : Transport::Udp;
  in.skip(2);
  refusal.port = in.u16be();
  if (!in) return std::nullopt;
  return refusal;
}

Refusals::Refusals(sys::Fd socket) : socket_(std::move(socket)) {
  const nfulnl_msg_config_cmd bind{NFULNL_CFG_CMD_BIND};
  configure(socket_.get(), NFULA_CFG_CMD, &bind, sizeof bind);
  const nfulnl_msg_config_mode mode{htonl(kCopied), NFULNL_COPY_PACKET, 0};
  configure(socket_.get(), NFULA_CFG_MODE, &mode, sizeof mode);
  // Told at once, not when a buffer is full: a person may be waiting to read why.
  const uint32_t at_once = htonl(1);
  configure(socket_.get(), NFULA_CFG_QTHRESH, &at_once, sizeof at_once);
  const uint16_t numbered = htons(NFULNL_CFG_F_SEQ);
  configure(socket_.get(), NFULA_CFG_FLAGS, &numbered, sizeof numbered);
  sys::check(
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer),
      "sizing the socket for refused packets");
  sys::set_nonblocking(socket_.get());
}

void Refusals::count(uint32_t number) noexcept {
  const uint32_t missing = number - next_;
  if (missing > unnamed_) lost_ += missing - unnamed_;
  if (missing >= unnamed_) unnamed_ = 0;
  next_ = number + 1;
}

std::vector<Refusal> Refusals::take() {
  std::vector<Refusal> all;
  alignas(nlmsghdr) std::array<std::byte, 16 * 1024> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && errno == ENOBUFS) {
    ++lost_;
    ++unnamed_;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) return all;
  if (got < 0) throw SystemError(errno, "reading refused packets");
  auto left = static_cast<int>(got);
  for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); nlmsg_ok(header, left);
       header = nlmsg_next(header, &left)) {
    if (header->nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) continue;
    const nlattr* number = nlmsg_find_attr(header, sizeof(nfgenmsg), NFULA_SEQ);
    if (number != nullptr) count(ntohl(nla_get_u32(number)));
    const nlattr* payload = nlmsg_find_attr(header, sizeof(nfgenmsg), NFULA_PAYLOAD);
    if (payload == nullptr) continue;
    const auto* data = static_cast<const std::byte*>(nla_data(payload));
    if (const auto refusal = parse_refused({data, static_cast<size_t>(nla_len(payload))}))
      all.push_back(*refusal);
  }
  return all;
}

}
