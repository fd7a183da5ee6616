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

// ---- complaints about one word, or nothing
std::optional<std::string> on_unknown_complaint(std::string_view word);
std::optional<std::string> price_complaint(std::string_view text);
std::optional<std::string> cost_complaint(std::string_view text);

}
