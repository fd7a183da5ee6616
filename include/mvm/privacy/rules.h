#pragma once
// What becomes of personal data, as values: compiled from a sandbox's configuration
// (proto/pii.h), asked once for each exchange.

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mvm/policy/policy.h"
#include "mvm/protect/body.h"
#include "mvm/protect/restore.h"
#include "mvm/protect/value.h"
#include "mvm/proto/pii.h"

namespace mvm::privacy {

enum class Action : uint8_t {
  Allow,     // not looked for
  Detect,    // passes, and is counted
  Tokenize,  // replaced, and put back in the answer
  Redact,    // replaced for good
  Deny,      // the request does not pass
};
inline constexpr size_t kActions = 5;
std::string_view action_word(Action action) noexcept;
std::optional<Action> parse_action(std::string_view word) noexcept;

// The actions of one exchange, by class; `own` by the names of patterns.
struct Plan {
  std::array<Action, protect::kPiiClasses> actions{};
  std::map<std::string, Action, std::less<>> own;

  Action action(const protect::Finding& finding) const;
  bool has(Action action) const;
  protect::ClassSet looked_for() const;
  bool looks() const;  // at anything
};

struct Rules {
  struct Rule {
    std::optional<policy::HostRule> host;  // nothing: every host
    std::array<bool, protect::kPiiClasses> classes{};
    std::vector<std::string> own;
    Action action = Action::Allow;
  };
  std::vector<Rule> rules;  // the first that names host and class decides; none: Allow
  std::vector<policy::InspectRule> bypass;
  // Whose connections have to be looked into, and whose not; for Policy::inspect.
  std::vector<policy::InspectRule> inspect;
  std::shared_ptr<const protect::PatternSet> patterns;
  std::vector<std::string> pattern_names;
  protect::OnMismatch on_mismatch = protect::OnMismatch::Keep;
  bool pass_undecodable = false;
  std::chrono::milliseconds token_lifetime{};
  std::chrono::milliseconds token_window{};
  bool token_once = false;
  size_t max_value = protect::BodyRewriter::kMaxHeld;
  uint64_t max_growth = 0;

  // `host` as it was admitted: a name, or an address as text.
  Plan plan(std::string_view host, uint16_t port) const;
};

// Throws Error{Invalid} that names the entry and the words it could have.
Rules compile(const proto::PiiConfig& config);

}
