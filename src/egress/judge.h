#pragma once
// The policy in force, asked on behalf of one sandbox: decide() and what the mode makes of it.

#include <vector>

#include "mvm/egress/event.h"
#include "mvm/egress/proxy.h"

namespace mvm::egress {

struct Verdict {
  policy::Decision decision;
  bool admitted = false;
  bool audited = false;   // admitted by the mode alone
  bool watched = false;   // its connection is looked into even then
  std::string near_miss;  // of what is refused; may be empty

  // A person has to say (Questions). Whoever cannot wait for that refuses.
  bool asks() const noexcept { return !admitted && decision.outcome == policy::Outcome::Ask; }
  // The same when somebody has said yes.
  Verdict granted() const {
    Verdict out = *this;
    out.decision.outcome = policy::Outcome::Allow;
    out.decision.reason = policy::Reason::Allowed;
    out.admitted = true;
    return out;
  }
};

class Judge {
 public:
  Judge(policy::Policy policy, Mode mode) : policy_(std::move(policy)), mode_(mode) {}
  void replace(policy::Policy policy, Mode mode);

  Verdict ask(const policy::Request& request) const;
  // The ports at which some rule could admit the name.
  std::vector<uint16_t> ports_of(const dns::Name& name) const;
  // The pattern that admits the name together with all others below some name; nothing where a rule
  // spells it out, or none covers it.
  std::optional<policy::HostPattern> zone_of(const dns::Name& name) const;
  // What the kernel has to let through besides pinned addresses.
  std::vector<IpPrefix> open_ranges() const;

  // An event that says how `request` was judged.
  static Event describe(EventKind kind, const policy::Request& request, const Verdict& verdict);

 private:
  bool opened_by_range(const IpAddress& address, std::optional<uint16_t> port) const;

  policy::Policy policy_;
  Mode mode_;
};

}
