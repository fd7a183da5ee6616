#pragma once
// Personal data in inspected exchanges: what the detectors find in a request is replaced, counted
// or refused, as the rules say; the tokens of that flow are put back in its answer, and nowhere
// else. docs/pii.md tells users of it.

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "mvm/egress/filter.h"
#include "mvm/privacy/rules.h"
#include "mvm/protect/past_tokens.h"
#include "mvm/protect/vault.h"

namespace mvm::privacy {

struct FlowTokens;  // of an exchange, or of all within a window

// What was done, for the audit log. Never holds a value.
struct Note {
  enum class Kind : uint8_t {
    Detected,
    Tokenized,
    Redacted,
    Denied,
    Restored,     // tokens in an answer; no class
    Mismatched,   // tokens that were changed, or are another flow's; `change` says how
    Undecodable,  // a body or a part of one; refused or let through, as the rules say
  };
  Kind kind = Kind::Detected;
  uint64_t flow = 0;
  std::string host;
  uint16_t port = 0;
  std::string name;        // the class, or the pattern's name; of some tokens it is not known
  std::string_view place;  // "path", "query", "header", "body"
  uint64_t count = 1;
  std::string_view change;  // "case_changed", "truncated", "reencoded", …
};
using NoteSink = std::function<void(const Note&)>;

class PiiSource final : public egress::FilterSource {
 public:
  using Clock = std::function<protect::Vault::Time()>;
  static constexpr size_t kMaxWindows = 64;  // destinations whose tokens last

  PiiSource(Rules rules, NoteSink sink, Clock clock = std::chrono::steady_clock::now);

  std::unique_ptr<egress::ExchangeFilter> begin(const egress::Exchange& exchange) override;
  // A command began or ended: what is sent from here on is no part of the conversations so far, and
  // gets tokens of its own. Exchanges under way keep theirs.
  void run_changed() noexcept { windows_.clear(); }

 private:
  friend class PiiFilter;
  struct Window {
    std::string destination;
    std::shared_ptr<FlowTokens> tokens;
    protect::Vault::Time last_use;
  };
  std::shared_ptr<FlowTokens> tokens_for(const egress::Exchange& exchange);

  Rules rules_;
  NoteSink sink_;
  Clock clock_;
  std::list<Window> windows_;  // the last used first
  protect::PastTokens past_;
  bool issued_ = false;  // some token is out in the world
};

}
