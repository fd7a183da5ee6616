#pragma once
// All connections of a sandbox: accepted within its limits, looked after, and dropped when they
// have ended.

#include <map>

#include "mvm/base/token_bucket.h"

#include "acceptor.h"
#include "flow.h"

namespace mvm::egress {

class FlowTable {
 public:
  FlowTable(FlowParts parts, sys::Fd listener, const Limits& limits);
  ~FlowTable();
  FlowTable(const FlowTable&) = delete;
  FlowTable& operator=(const FlowTable&) = delete;

  void stop_accepting() { acceptor_.stop(); }
  void reset_all();

 private:
  void accept(sys::Fd socket);
  void turn_away(sys::Fd socket, policy::Reason reason);
  void retire(uint64_t id);
  void look_after();
  void weigh();
  void weigh_soon();

  FlowParts parts_;
  uint32_t limit_;
  uint64_t memory_limit_;
  TokenBucket rate_;
  std::map<uint64_t, std::unique_ptr<Flow>> flows_;
  uint64_t next_ = 1;
  // Ended in this turn, perhaps by a call of their own that has not come back.
  std::vector<std::unique_ptr<Flow>> ended_;
  loop::Watch bury_;
  loop::Watch clock_;
  loop::Watch scales_;  // while there are any
  Acceptor acceptor_;
};

}
