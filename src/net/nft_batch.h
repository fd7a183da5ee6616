#pragma once
// nf_tables changes, spoken over netlink: a batch of messages that the kernel takes whole or not at
// all. libnftables would parse text for us, but comes as a shared library only, and mvm is one
// static file; libnl makes and carries the messages.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"

#include "netlink.h"

namespace mvm::net {

// The expressions of one rule, run in turn; those that compare end the rule when they do not hold.
// Register 1 is the one that everything passes through; a second word is next to it.
class RuleWriter {
 public:
  explicit RuleWriter(nl_msg* message);

  RuleWriter& meta(uint32_t key);  // NFT_META_*
  RuleWriter& payload(uint32_t base, uint32_t offset, uint32_t length, unsigned word = 0);
  RuleWriter& equals(ByteView value);
  RuleWriter& differs(ByteView value);
  RuleWriter& at_most(ByteView value);                   // as the network writes numbers
  RuleWriter& is_masked(uint32_t mask, uint32_t value);  // of one word
  RuleWriter& in_set(std::string_view set);
  RuleWriter& has_connection();  // accepted by a transparent listener
  RuleWriter& set_mark(uint32_t mark);
  RuleWriter& to_listener(int family, uint16_t port);  // tproxy; AF_UNSPEC: of either family
  RuleWriter& log(uint16_t group);
  void accept();
  void drop();
  void reset_connection();
  void refuse();  // ICMP: administratively prohibited

 private:
  RuleWriter& expression(const char* name, const std::function<void()>& attributes);
  RuleWriter& compare(uint32_t operation, ByteView value);
  RuleWriter& load(ByteView value);
  void verdict(uint32_t code);
  void reject(uint32_t type, uint8_t code);
  void end();

  nl_msg* message_;
  nlattr* list_;  // open until the rule's end
};

class NftBatch {
 public:
  NftBatch();

  void add_table();
  // A chain that drops what no rule accepts, at NF_INET_PRE_ROUTING.
  void add_chain();
  // A set of keys of that many bytes; with intervals, of ranges of them.
  void add_set(std::string_view name, uint32_t key_length, bool intervals);
  RuleWriter add_rule();  // finished by its verdict
  void add_element(std::string_view set, ByteView key, bool end_of_interval = false);
  void remove_element(std::string_view set, ByteView key);
  void clear_set(std::string_view set);

  // Sends it and waits for the kernel's word. Throws Error.
  void commit(int netlink, std::string_view doing);

 private:
  nl_msg* begin(uint16_t type, uint16_t flags);
  void finish();  // the message begun last joins the batch
  void element(uint16_t type, uint16_t flags, std::string_view set, ByteView key, bool end);
  void boundary(uint16_t type);

  Bytes bytes_;
  NlMessage message_;
  uint32_t sequence_ = 0;
  uint32_t sets_ = 0;
};

}
