#pragma once
// From metering as it is asked for (proto/ai.h) to what does it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/meter/ledger.h"
#include "mvm/meter/provider.h"
#include "mvm/proto/ai.h"

namespace mvm::meter {

struct Plan {
  Catalogue catalogue;
  Terms terms;
  bool inject_stream_usage = false;
};
// Throws Error{Invalid} that names the entry.
Plan compile(const proto::AiConfig& config);
Budget compile(const proto::AiBudget& budget);
// The way back, as people are shown it.
proto::AiBudget words_of(const Budget& budget);

// "gpt-4o* input=2.50 output=10 cached=1.25 cache_written=3": dollars a million tokens.
std::optional<Price> parse_price_line(std::string_view text);

// "openai max_total_tokens=100000 max_cost=5", "run max_requests=50": whose, and what.
struct BudgetLine {
  std::optional<Provider> provider;  // nothing: of each run
  Budget budget;
  bool operator==(const BudgetLine&) const = default;
};
std::optional<BudgetLine> parse_budget_line(std::string_view text);

// ---- complaints about one word, or nothing
std::optional<std::string> on_unknown_complaint(std::string_view word);
std::optional<std::string> price_complaint(std::string_view text);
std::optional<std::string> budget_complaint(std::string_view text);
// Of whom a budget may be: "run" or a provider; "" is all of the sandbox.
std::optional<std::string> budget_owner_complaint(std::string_view word);
std::optional<std::string> cost_complaint(std::string_view text);

}
