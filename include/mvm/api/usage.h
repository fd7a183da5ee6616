#pragma once
// A sandbox's use of AI, as the API tells it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/proto/ai.h"

namespace mvm::api {

struct AiCounts {
  uint64_t requests = 0;
  uint64_t unknown = 0;  // answers that did not say what was used
  uint64_t refused = 0;  // requests that the budget refused
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t total_tokens = 0;
  uint64_t cached_tokens = 0;         // of input
  uint64_t cache_written_tokens = 0;  // of input
  uint64_t reasoning_tokens = 0;      // of output
  uint64_t audio_input_tokens = 0;
  uint64_t audio_output_tokens = 0;
  uint64_t estimated_tokens = 0;  // charged to the budget; in none of the above
  uint64_t cost_nanodollars = 0;
  uint64_t unpriced = 0;  // answers whose cost is not known
  bool operator==(const AiCounts&) const = default;
};

// Of one operation ("chat", "embeddings"; gen_ai.operation.name).
struct AiOperation {
  std::string operation;
  uint64_t reported = 0;  // answers that said what was used
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  bool operator==(const AiOperation&) const = default;
};

struct AiSeries {
  std::string provider;
  std::string model;
  AiCounts counts;
  std::vector<AiOperation> operations;
  bool operator==(const AiSeries&) const = default;
};

// Against the budget, since its last reset.
struct AiSpent {
  uint64_t total_tokens = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t requests = 0;
  uint64_t cost_nanodollars = 0;
  uint64_t unknown = 0;
  bool operator==(const AiSpent&) const = default;
};

// A budget besides the sandbox's.
struct AiBudgetOf {
  std::string of;  // a provider, or "run": of each command's run
  proto::AiBudget budget;
  AiSpent spent;  // of a provider
  bool operator==(const AiBudgetOf&) const = default;
};

struct AiUsage {
  std::string sandbox;
  std::string id;
  std::string on_unknown;
  proto::AiBudget budget;  // that holds now
  AiSpent spent;
  std::vector<AiBudgetOf> budgets;
  uint64_t under_way = 0;  // requests
  AiCounts counts;         // of all models, since the sandbox was made
  std::vector<AiSeries> models;
  bool operator==(const AiUsage&) const = default;
};

std::string encode(const AiUsage& value);
std::string encode(const std::vector<AiUsage>& value);
AiUsage decode_ai_usage(std::string_view json);
std::vector<AiUsage> decode_ai_usages(std::string_view json);
std::string encode(const proto::AiBudgetRequest& value);
proto::AiBudgetRequest decode_ai_budget(std::string_view json);

}
