#pragma once
// Where people change a running sandbox's rules and answer what it asks: the verbs of
// proto/policy.h. A change that cannot be recorded is not made.

#include <deque>
#include <string_view>

#include "mvm/egress/open_question.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/policy.h"

#include "audit_trail.h"
#include "mux.h"
#include "network.h"

namespace mvm::sandbox {

class PolicyDesk {
 public:
  // So many may wait for a question; the oldest of more is answered with what there is.
  static constexpr size_t kMaxAskers = 64;

  PolicyDesk(loop::Loop& loop, Mux& mux, Network& network, AuditTrail& audit)
      : loop_(&loop), mux_(&mux), network_(&network), audit_(&audit) {}

  // False: the verb is none of these.
  bool take(Asker asker, std::string_view verb, ByteView request);
  void on_question(const egress::OpenQuestion& question);

 private:
  Bytes report() const;
  Bytes change(ByteView payload);
  Bytes answer(ByteView payload);
  void list(Asker asker, ByteView payload);
  Bytes questions() const;
  // The changes with `add`, or Error with the reason why they cannot be made.
  proto::PolicyChanges with(const proto::PolicyChanges& add) const;
  void make(const proto::PolicyChanges& add, proto::PolicyChanges all);
  egress::Proxy& proxy() const;

  loop::Loop* loop_;
  Mux* mux_;
  Network* network_;
  AuditTrail* audit_;
  uint64_t newest_ = 0;
  std::deque<Asker> waiting_;
  loop::Watch later_;
};

}
