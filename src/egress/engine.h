#pragma once
// The parts of a proxy, put together.

#include "mvm/egress/proxy.h"

namespace mvm::egress {

class Proxy::Engine {
 public:
  Engine(loop::Loop& loop, net::GuestNetwork network, Settings settings, EventSink sink);
  void set_policy(policy::Policy policy, Mode mode);
  Counters counters() const { return counters_; }
  void reset();
  void stop_accepting();

 private:
  void refuse_waiting();

  loop::Loop& loop_;
  net::GuestNetwork network_;
  Settings settings_;
  EventSink sink_;
  Counters counters_;
  loop::Watch accepts_;
};

}
