#include "nft_batch.h"

#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <netlink/attr.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"

namespace mvm::net {
namespace {

constexpr const char* kTable = "mvm";
constexpr const char* kChain = "guest";
constexpr int32_t kPriorityMangle = -150;  // where TPROXY belongs
constexpr uint32_t kFirstWord = NFT_REG32_00;

void put(int result) {
  if (result < 0) throw std::bad_alloc();  // the only way in which building a message fails
}
void put_u32(nl_msg* message, int type, uint32_t value) {
  put(nla_put_u32(message, type, htonl(value)));
}
void put_text(nl_msg* message, int type, std::string_view text) {
  put(nla_put_string(message, type, std::string(text).c_str()));
}
void nest(nl_msg* message, int type, const std::function<void()>& body) {
  nlattr* start = nla_nest_start(message, type | NLA_F_NESTED);
  if (start == nullptr) throw std::bad_alloc();
  body();
  put(nla_nest_end(message, start));
}
void put_data(nl_msg* message, int type, ByteView value) {
  nest(message, type, [&] {
    put(nla_put(message, NFTA_DATA_VALUE, static_cast<int>(value.size()), value.data()));
  });
}
ByteView view_of(const uint32_t& value) { return std::as_bytes(std::span(&value, 1)); }

}

// ---- rules --------------------------------------------------------------------------------------

RuleWriter::RuleWriter(nl_msg* message)
    : message_(message), list_(nla_nest_start(message, NFTA_RULE_EXPRESSIONS | NLA_F_NESTED)) {
  if (list_ == nullptr) throw std::bad_alloc();
}
void RuleWriter::end() { put(nla_nest_end(message_, list_)); }

RuleWriter& RuleWriter::expression(const char* name, const std::function<void()>& attributes) {
  nest(message_, NFTA_LIST_ELEM, [&] {
    put_text(message_, NFTA_EXPR_NAME, name);
    nest(message_, NFTA_EXPR_DATA, attributes);
  });
  return *this;
}

RuleWriter& RuleWriter::meta(uint32_t key) {
  return expression("meta", [&] {
    put_u32(message_, NFTA_META_KEY, key);
    put_u32(message_, NFTA_META_DREG, kFirstWord);
  });
}

RuleWriter& RuleWriter::payload(uint32_t base, uint32_t offset, uint32_t length, unsigned word) {
  return expression("payload", [&] {
    put_u32(message_, NFTA_PAYLOAD_DREG, kFirstWord + word);
    put_u32(message_, NFTA_PAYLOAD_BASE, base);
    put_u32(message_, NFTA_PAYLOAD_OFFSET, offset);
    put_u32(message_, NFTA_PAYLOAD_LEN, length);
  });
}

RuleWriter& RuleWriter::compare(uint32_t operation, ByteView value) {
  return expression("cmp", [&] {
    put_u32(message_, NFTA_CMP_SREG, kFirstWord);
    put_u32(message_, NFTA_CMP_OP, operation);
    put_data(message_, NFTA_CMP_DATA, value);
  });
}
RuleWriter& RuleWriter::equals(ByteView value) { return compare(NFT_CMP_EQ, value); }
RuleWriter& RuleWriter::differs(ByteView value) { return compare(NFT_CMP_NEQ, value); }
RuleWriter& RuleWriter::at_most(ByteView value) { return compare(NFT_CMP_LTE, value); }

RuleWriter& RuleWriter::is_masked(uint32_t mask, uint32_t value) {
  const uint32_t zero = 0;
  expression("bitwise", [&] {
    put_u32(message_, NFTA_BITWISE_SREG, kFirstWord);
    put_u32(message_, NFTA_BITWISE_DREG, kFirstWord);
    put_u32(message_, NFTA_BITWISE_LEN, sizeof mask);
    put_data(message_, NFTA_BITWISE_MASK, view_of(mask));
    put_data(message_, NFTA_BITWISE_XOR, view_of(zero));
  });
  return equals(view_of(value));
}

RuleWriter& RuleWriter::in_set(std::string_view set) {
  return expression("lookup", [&] {
    put_text(message_, NFTA_LOOKUP_SET, set);
    put_u32(message_, NFTA_LOOKUP_SREG, kFirstWord);
  });
}

// A listener for any address is the socket of every packet to its port, whatever the destination:
// that is not a connection.
RuleWriter& RuleWriter::has_connection() {
  const auto socket = [this](uint32_t key, uint8_t value) {
    expression("socket", [&] {
      put_u32(message_, NFTA_SOCKET_KEY, key);
      put_u32(message_, NFTA_SOCKET_DREG, kFirstWord);
    });
    equals(std::as_bytes(std::span(&value, 1)));
  };
  socket(NFT_SOCKET_TRANSPARENT, 1);
  socket(NFT_SOCKET_WILDCARD, 0);
  return *this;
}

RuleWriter& RuleWriter::load(ByteView value) {
  return expression("immediate", [&] {
    put_u32(message_, NFTA_IMMEDIATE_DREG, kFirstWord);
    put_data(message_, NFTA_IMMEDIATE_DATA, value);
  });
}

RuleWriter& RuleWriter::set_mark(uint32_t mark) {
  load(view_of(mark));
  return expression("meta", [&] {
    put_u32(message_, NFTA_META_KEY, NFT_META_MARK);
    put_u32(message_, NFTA_META_SREG, kFirstWord);
  });
}

RuleWriter& RuleWriter::to_listener(int family, uint16_t port) {
  const uint16_t network_order = htons(port);
  load(std::as_bytes(std::span(&network_order, 1)));
  return expression("tproxy", [&] {
    put_u32(message_, NFTA_TPROXY_FAMILY, static_cast<uint32_t>(family));
    put_u32(message_, NFTA_TPROXY_REG_PORT, kFirstWord);
  });
}

RuleWriter& RuleWriter::log(uint16_t group) {
  return expression("log", [&] {
    put(nla_put_u16(message_, NFTA_LOG_GROUP, htons(group)));
    constexpr uint32_t kHeaders = 128;  // of the packet: addresses and ports, no payload of use
    put_u32(message_, NFTA_LOG_SNAPLEN, kHeaders);
  });
}

void RuleWriter::verdict(uint32_t code) {
  expression("immediate", [&] {
    put_u32(message_, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    nest(message_, NFTA_IMMEDIATE_DATA, [&] {
      nest(message_, NFTA_DATA_VERDICT, [&] { put_u32(message_, NFTA_VERDICT_CODE, code); });
    });
  });
  end();
}
void RuleWriter::accept() { verdict(NF_ACCEPT); }
void RuleWriter::drop() { verdict(NF_DROP); }

void RuleWriter::reject(uint32_t type, uint8_t code) {
  expression("reject", [&] {
    put_u32(message_, NFTA_REJECT_TYPE, type);
    put(nla_put_u8(message_, NFTA_REJECT_ICMP_CODE, code));
  });
  end();
}
void RuleWriter::reset_connection() { reject(NFT_REJECT_TCP_RST, 0); }
void RuleWriter::refuse() { reject(NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED); }

// ---- the batch ----------------------------------------------------------------------------------

NftBatch::NftBatch() { boundary(NFNL_MSG_BATCH_BEGIN); }

nl_msg* NftBatch::begin(uint16_t type, uint16_t flags) {
  finish();
  message_.reset(nlmsg_alloc());
  if (!message_) throw std::bad_alloc();
  const bool bounds = type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END;
  const int full_type = bounds ? type : NFNL_SUBSYS_NFTABLES << 8 | type;
  if (nlmsg_put(message_.get(), NL_AUTO_PORT, sequence_++, full_type, sizeof(nfgenmsg),
                NLM_F_REQUEST | flags) == nullptr)
    throw std::bad_alloc();
  auto* head = static_cast<nfgenmsg*>(nlmsg_data(nlmsg_hdr(message_.get())));
  head->nfgen_family = bounds ? AF_UNSPEC : NFPROTO_INET;
  head->version = NFNETLINK_V0;
  head->res_id = htons(bounds ? NFNL_SUBSYS_NFTABLES : 0);
  return message_.get();
}

void NftBatch::finish() {
  if (!message_) return;
  const nlmsghdr* header = nlmsg_hdr(message_.get());
  // A message is a plain block of bytes, padded to four.
  const auto* data = reinterpret_cast<const std::byte*>(header);
  bytes_.insert(bytes_.end(), data, data + header->nlmsg_len);
  bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  message_.reset();
}

void NftBatch::boundary(uint16_t type) {
  begin(type, 0);
  finish();
}

void NftBatch::add_table() {
  nl_msg* message = begin(NFT_MSG_NEWTABLE, NLM_F_CREATE);
  put_text(message, NFTA_TABLE_NAME, kTable);
}

void NftBatch::add_chain() {
  nl_msg* message = begin(NFT_MSG_NEWCHAIN, NLM_F_CREATE);
  put_text(message, NFTA_CHAIN_TABLE, kTable);
  put_text(message, NFTA_CHAIN_NAME, kChain);
  nest(message, NFTA_CHAIN_HOOK, [&] {
    put_u32(message, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
    put_u32(message, NFTA_HOOK_PRIORITY, static_cast<uint32_t>(kPriorityMangle));
  });
  put_u32(message, NFTA_CHAIN_POLICY, NF_DROP);
  put_text(message, NFTA_CHAIN_TYPE, "filter");
}

void NftBatch::add_set(std::string_view name, uint32_t key_length, bool intervals) {
  nl_msg* message = begin(NFT_MSG_NEWSET, NLM_F_CREATE);
  put_text(message, NFTA_SET_TABLE, kTable);
  put_text(message, NFTA_SET_NAME, name);
  put_u32(message, NFTA_SET_FLAGS, intervals ? NFT_SET_INTERVAL : 0);
  put_u32(message, NFTA_SET_KEY_TYPE, 0);
  put_u32(message, NFTA_SET_KEY_LEN, key_length);
  put_u32(message, NFTA_SET_ID, ++sets_);
}

RuleWriter NftBatch::add_rule() {
  nl_msg* message = begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
  put_text(message, NFTA_RULE_TABLE, kTable);
  put_text(message, NFTA_RULE_CHAIN, kChain);
  return RuleWriter(message);
}

void NftBatch::element(uint16_t type, uint16_t flags, std::string_view set, ByteView key,
                       bool end) {
  nl_msg* message = begin(type, flags);
  put_text(message, NFTA_SET_ELEM_LIST_TABLE, kTable);
  put_text(message, NFTA_SET_ELEM_LIST_SET, set);
  nest(message, NFTA_SET_ELEM_LIST_ELEMENTS, [&] {
    nest(message, NFTA_LIST_ELEM, [&] {
      put_data(message, NFTA_SET_ELEM_KEY, key);
      if (end) put_u32(message, NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
    });
  });
}
void NftBatch::add_element(std::string_view set, ByteView key, bool end_of_interval) {
  element(NFT_MSG_NEWSETELEM, NLM_F_CREATE, set, key, end_of_interval);
}
void NftBatch::remove_element(std::string_view set, ByteView key) {
  element(NFT_MSG_DELSETELEM, 0, set, key, false);
}

void NftBatch::clear_set(std::string_view set) {
  nl_msg* message = begin(NFT_MSG_DELSETELEM, 0);
  put_text(message, NFTA_SET_ELEM_LIST_TABLE, kTable);
  put_text(message, NFTA_SET_ELEM_LIST_SET, set);
}

// The kernel answers with an error for each message it does not like, and with none when it likes
// them all; so the last one asks for an answer. (Not the end of the batch: kernels before 6.10 do
// not acknowledge that.) All answers are there when send(2) returns, and all are taken: one that
// stayed would be read as the answer to the next batch.
void NftBatch::commit(int netlink, std::string_view doing) {
  MVM_ASSERT(message_);
  nlmsghdr* last = nlmsg_hdr(message_.get());
  last->nlmsg_flags |= NLM_F_ACK;
  const uint32_t last_sequence = last->nlmsg_seq;
  finish();
  boundary(NFNL_MSG_BATCH_END);
  if (::send(netlink, bytes_.data(), bytes_.size(), 0) < 0) throw SystemError(errno, doing);

  alignas(nlmsghdr) std::array<std::byte, 16 * 1024> buffer;
  int failure = 0;
  bool answered = false;
  while (true) {
    const ssize_t got = ::recv(netlink, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) throw SystemError(errno, doing);
    auto left = static_cast<int>(got);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer.data()); nlmsg_ok(header, left);
         header = nlmsg_next(header, &left)) {
      if (header->nlmsg_type != NLMSG_ERROR) continue;
      const int error = static_cast<const nlmsgerr*>(nlmsg_data(header))->error;
      if (failure == 0) failure = -error;
      if (header->nlmsg_seq == last_sequence) answered = true;
    }
  }
  if (failure != 0) throw SystemError(failure, doing);
  if (!answered) throw Error(Kind::Internal, std::string(doing) + ": the kernel gave no answer");
}

}
