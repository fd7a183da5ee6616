#include <algorithm>

#include "mvm/base/checked.h"
#include "mvm/base/text.h"
#include "mvm/meter/reader.h"

namespace mvm::meter {

static bool is_max_output(std::string_view path) {
  constexpr std::array<std::string_view, 12> kPaths{"max_tokens",
                                                    "max_completion_tokens",
                                                    "max_output_tokens",
                                                    "max_tokens_to_sample",
                                                    "max_gen_len",
                                                    "options.num_predict",
                                                    "generationConfig.maxOutputTokens",
                                                    "generation_config.max_output_tokens",
                                                    "inferenceConfig.maxTokens",
                                                    "inferenceConfig.max_new_tokens",
                                                    "maxTokens",
                                                    "textGenerationConfig.maxTokenCount"};
  return std::ranges::find(kPaths, path) != kPaths.end();
}

static bool is_answers(std::string_view path) {
  constexpr std::array<std::string_view, 5> kPaths{"n", "best_of", "num_generations",
                                                   "generationConfig.candidateCount",
                                                   "generation_config.candidate_count"};
  return std::ranges::find(kPaths, path) != kPaths.end();
}

void RequestReader::feed(std::string_view bytes) {
  facts_.bytes += bytes.size();
  if (!scanner_.failed()) scanner_.feed(bytes, *this);
}

void RequestReader::finish() { facts_.readable = scanner_.finish(*this); }

void RequestReader::number(std::string_view path, std::string_view text) {
  const bool most = is_max_output(path);
  if (!most && !is_answers(path)) return;
  const auto value = parse_u64(text);
  if (!value || *value > kMaxCount) return;  // the provider will refuse it, or not look at it
  if (most)
    facts_.max_output = std::max(facts_.max_output.value_or(0), *value);
  else
    facts_.answers = std::max(facts_.answers, *value);
}

void RequestReader::literal(std::string_view path, std::string_view word) {
  if (path == "stream") facts_.stream = word == "true";
  if (path == "stream_options.include_usage") facts_.include_usage = word == "true";
}

void RequestReader::string(std::string_view path, std::string_view text) {
  if (path == "model") facts_.model = std::string(text);
}

Bounds bounds_of(const RequestFacts& facts) {
  const uint64_t each = facts.max_output.value_or(kAssumedOutput);
  return {facts.bytes, std::min(checked_mul(each, facts.answers).value_or(kMaxCount), kMaxCount)};
}

}
