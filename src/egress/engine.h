#pragma once
// The parts of a proxy, put together.

#include "dns_service.h"
#include "flow_table.h"
#include "interception.h"
#include "refused_packets.h"

namespace mvm::egress {

class Proxy::Engine {
 public:
  Engine(loop::Loop& loop, net::GuestNetwork network, Settings settings, EventSink sink);
  void set_policy(policy::Policy policy, Mode mode);
  Counters counters() const;
  std::string authority_pem() const { return interception_ ? interception_->root_pem() : ""; }
  void reset();
  void stop_accepting();

 private:
  // Each part uses those above it, and is gone before them.
  Counters counters_;
  Reporter reporter_;
  Judge judge_;
  PinTable pins_;
  Resolver resolver_;
  std::unique_ptr<Interception> interception_;
  std::vector<std::shared_ptr<FilterSource>> filters_;
  PipePool pipes_;
  Meter meter_;
  DnsService dns_;
  RefusedPackets refused_;
  FlowTable flows_;
};

}
