#pragma once
// What a sandbox was refused on its network, or let through by mode "audit" alone: each thing once,
// with the flag that would admit it, from the audit log.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/record.h"
#include "mvm/cli/context.h"

namespace mvm::cli {

struct Refusal {
  std::string what;    // "POST api.example.com:443/v1", "example.com:443", "example.com (name)"
  std::string reason;  // "policy_denied"
  std::string flag;    // that would admit exactly this; empty: none can
  bool audited = false;
  bool name_only = false;  // a name was looked up, so the flag's port is a guess
};
// Nothing for records of other things.
std::optional<Refusal> refusal_of(const audit::Line& line);

class Refusals {
 public:
  static constexpr size_t kMost = 1000;

  void take(const audit::Line& line);
  const std::vector<Refusal>& all() const { return all_; }  // in the order in which they came
  size_t more() const { return more_; }                     // beyond kMost

  // Lines of mvm.toml that admit all of them, and nothing that a narrower rule would do for.
  std::string as_rules() const;

 private:
  std::vector<Refusal> all_;
  std::map<std::string, size_t> seen_;
  size_t more_ = 0;
};

// Of this log; with `run`, what came while that ran.
Refusals read_refusals(const store::Paths& paths, const std::string& log, const std::string& run);

// Prints on standard error what the sandbox with this log was refused; `run` names a command, and
// then it is what happened while that ran. `hint` is a command that tells more.
void tell_refusals(Context& context, const std::string& log, const std::string& run,
                   const std::string& hint);

}
