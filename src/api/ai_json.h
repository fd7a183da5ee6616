#pragma once
// The fields of what is said of AI; see json.h.

#include <concepts>
#include <type_traits>

#include "mvm/api/usage.h"

#include "json.h"

namespace mvm::api {

template <typename T, typename Of>
concept Same = std::same_as<std::remove_const_t<T>, Of>;

template <typename Io, Same<proto::AiBudget> T>
void describe(Io& io, T& value) {
  io("max_total_tokens", value.max_total_tokens);
  io("max_input_tokens", value.max_input_tokens);
  io("max_output_tokens", value.max_output_tokens);
  io("max_requests", value.max_requests);
  io("max_cost", value.max_cost);
}

template <typename Io, Same<proto::AiConfig> T>
void describe(Io& io, T& value) {
  io("metering", value.metering);
  io("budget", value.budget);
  io("on_unknown", value.on_unknown);
  io("reserve", value.reserve);
  io("inject_stream_usage", value.inject_stream_usage);
  io("providers", value.providers);
  io("budgets", value.budgets);
  io("prices", value.prices);
}

template <typename Io, Same<proto::AiBudgetRequest> T>
void describe(Io& io, T& value) {
  io("of", value.of);
  io("budget", value.budget);
  io("reset", value.reset);
}

template <typename Io, Same<AiCounts> T>
void describe(Io& io, T& value) {
  io("requests", value.requests);
  io("unknown", value.unknown);
  io("refused", value.refused);
  io("input_tokens", value.input_tokens);
  io("output_tokens", value.output_tokens);
  io("total_tokens", value.total_tokens);
  io("cached_tokens", value.cached_tokens);
  io("cache_written_tokens", value.cache_written_tokens);
  io("reasoning_tokens", value.reasoning_tokens);
  io("audio_input_tokens", value.audio_input_tokens);
  io("audio_output_tokens", value.audio_output_tokens);
  io("estimated_tokens", value.estimated_tokens);
  io("cost_nanodollars", value.cost_nanodollars);
  io("unpriced", value.unpriced);
}

template <typename Io, Same<AiOperation> T>
void describe(Io& io, T& value) {
  io("operation", value.operation);
  io("reported", value.reported);
  io("input_tokens", value.input_tokens);
  io("output_tokens", value.output_tokens);
}

template <typename Io, Same<AiSeries> T>
void describe(Io& io, T& value) {
  io("provider", value.provider);
  io("model", value.model);
  io("counts", value.counts);
  io("operations", value.operations);
}

template <typename Io, Same<AiSpent> T>
void describe(Io& io, T& value) {
  io("total_tokens", value.total_tokens);
  io("input_tokens", value.input_tokens);
  io("output_tokens", value.output_tokens);
  io("requests", value.requests);
  io("cost_nanodollars", value.cost_nanodollars);
  io("unknown", value.unknown);
}

template <typename Io, Same<AiBudgetOf> T>
void describe(Io& io, T& value) {
  io("of", value.of);
  io("budget", value.budget);
  io("spent", value.spent);
}

template <typename Io, Same<AiUsage> T>
void describe(Io& io, T& value) {
  io.required("sandbox", value.sandbox);
  io("id", value.id);
  io("on_unknown", value.on_unknown);
  io("budget", value.budget);
  io("spent", value.spent);
  io("budgets", value.budgets);
  io("under_way", value.under_way);
  io("counts", value.counts);
  io("models", value.models);
}

}
