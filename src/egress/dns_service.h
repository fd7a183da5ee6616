#pragma once
// The guest's resolver, at whatever address the guest thinks it is. A name is judged before
// anything else; one that no rule could admit is not sent anywhere. Of what is found, addresses
// that the policy shuts are left out, and the others are pinned before the guest hears of them.
//
// A refusal is NXDOMAIN without an authority record: the C libraries take it for final (REFUSED
// makes them ask the next resolver, and again), and keep nothing, so a changed policy holds at
// once. Clients with EDNS read why (RFC 8914).

#include <functional>
#include <map>
#include <memory>

#include "mvm/dns/message.h"

#include "acceptor.h"
#include "judge.h"
#include "name_gate.h"
#include "pin_table.h"
#include "reporter.h"
#include "resolver.h"

namespace mvm::egress {

class DnsService {
 public:
  static constexpr size_t kMaxConnections = 64;  // of DNS over TCP
  static constexpr size_t kMaxPending = 1024;    // queries waiting for their answers

  struct Parts {
    loop::Loop& loop;
    Judge& judge;
    PinTable& pins;
    Resolver& resolver;
    NameGate& names;
    Reporter& reporter;
    Counters& counters;
  };
  DnsService(Parts parts, sys::Fd udp, sys::Fd tcp);
  ~DnsService();
  DnsService(const DnsService&) = delete;
  DnsService& operator=(const DnsService&) = delete;

  void stop();

 private:
  class Connection;
  using Reply = std::function<void(const Bytes&)>;
  struct Pending;

  void receive();
  void accept(sys::Fd socket);
  void serve(ByteView message, size_t limit, Reply reply);
  void refuse(const Pending& pending, const Event& event);
  void answer(const Pending& pending, const Answer& answer);
  // The records that the guest may see; pins what it can connect to. `shut` is the first address
  // that it may not see.
  std::vector<dns::Record> admit(const Pending& pending, const std::vector<dns::Record>& records,
                                 Verdict& first_shut, std::optional<IpAddress>& shut);

  Parts parts_;
  sys::Fd udp_;
  loop::Watch datagrams_;
  Acceptor connecting_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t next_connection_ = 1;
  size_t pending_ = 0;
};

}
