#pragma once
// How a sandbox's use of AI is metered, as it is asked for: the words of flags and mvm.toml,
// bounded. What they mean is decided in mvm/meter.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxAiWords = 256;         // providers, prices
inline constexpr size_t kMaxAiText = 256;          // one word
inline constexpr size_t kMaxAiConfig = 16 * 1024;  // bytes of the whole, encoded

struct AiBudget {
  std::optional<uint64_t> max_total_tokens;
  std::optional<uint64_t> max_input_tokens;
  std::optional<uint64_t> max_output_tokens;
  std::optional<uint64_t> max_requests;
  std::string max_cost;  // dollars: "2.50"; empty: none
  bool operator==(const AiBudget&) const = default;

  bool any() const {
    return max_total_tokens || max_input_tokens || max_output_tokens || max_requests ||
           !max_cost.empty();
  }
  Bytes encode() const;
  static std::optional<AiBudget> decode(ByteView data);
};

struct AiConfig {
  bool metering = false;
  AiBudget budget;
  std::string on_unknown = "count";  // "count", "estimate", "refuse"
  bool reserve = false;
  bool inject_stream_usage = false;
  std::vector<std::string> providers;  // "openai", "llm.example.com:8443"; empty: all known ones
  std::vector<std::string> budgets;    // "openai max_total_tokens=100000", "run max_requests=50"
  std::vector<std::string> prices;     // "gpt-4o* input=2.50 output=10 cached=1.25"
  bool operator==(const AiConfig&) const = default;

  // A budget is none unless somebody counts.
  bool on() const { return metering || budget.any() || !budgets.empty(); }

  Bytes encode() const;
  static std::optional<AiConfig> decode(ByteView data);
};

// Changes the budget of a running sandbox: another one, or none of it used. End ok, no result, when
// it is on record.
inline constexpr std::string_view kSandboxAiBudgetVerb = "sandbox.ai_budget";
struct AiBudgetRequest {
  std::optional<AiBudget> budget;
  bool reset = false;
  std::string of;  // whose budget: "" the sandbox's, a provider's word, "run"
  bool operator==(const AiBudgetRequest&) const = default;

  Bytes encode() const;
  static std::optional<AiBudgetRequest> decode(ByteView payload) noexcept;
};

}
