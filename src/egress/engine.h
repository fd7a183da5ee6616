#pragma once
// The parts of a proxy, put together.

#include "commit.h"
#include "dns_service.h"
#include "flow_table.h"
#include "interception.h"
#include "questions.h"
#include "refused_packets.h"

namespace mvm::egress {

class Proxy::Engine {
 public:
  Engine(loop::Loop& loop, net::GuestNetwork network, Settings settings, EventSink sink);
  void set_policy(policy::Policy policy, Mode mode);
  std::vector<OpenQuestion> questions() const { return questions_.list(); }
  std::optional<OpenQuestion> answer(uint64_t question, bool allow) {
    return questions_.answer(question, allow);
  }
  bool certifies(const policy::HostPattern& hosts) const {
    return interception_ && interception_->certifies(hosts);
  }
  Counters counters() const;
  std::string authority_pem() const { return interception_ ? interception_->root_pem() : ""; }
  void reset();
  void stop_accepting();

 private:
  // Each part uses those above it, and is gone before them.
  Counters counters_;
  Reporter reporter_;
  Judge judge_;
  Questions questions_;
  PinTable pins_;
  Resolver resolver_;
  std::vector<std::shared_ptr<FilterSource>> filters_;
  NameGate names_;
  std::unique_ptr<Interception> interception_;
  Commit commit_;
  PipePool pipes_;
  Partings partings_;
  Meter meter_;
  std::vector<Endpoint> doors_;
  Timeouts timeouts_;
  DnsService dns_;
  RefusedPackets refused_;
  FlowTable flows_;
};

}
