// The fields of each dialect are tables of paths, from the providers' public references. `rank`
// tells two ways of saying the same apart; only the first that is used counts.
#include "mvm/meter/usage.h"

#include <algorithm>
#include <span>

#include "mvm/base/checked.h"
#include "mvm/base/text.h"
#include "mvm/http/message.h"

namespace mvm::meter {
namespace {

using Field = Tally::Field;

struct Entry {
  std::string_view path;
  Field field;
  size_t rank = 0;
};

// Where the object with the counts is: of answers, of streams' last events, of Groq's last chunk.
constexpr std::array<std::string_view, 2> kOpenAiPlaces{"usage.", "response.usage."};
constexpr std::array<Entry, 20> kOpenAi{{
    {"prompt_tokens", Field::Input},
    {"completion_tokens", Field::Output},
    {"input_tokens", Field::Input},
    {"output_tokens", Field::Output},
    {"total_tokens", Field::Total},
    {"prompt_tokens_details.cached_tokens", Field::Cached},
    {"input_tokens_details.cached_tokens", Field::Cached},
    {"prompt_cache_hit_tokens", Field::Cached},  // DeepSeek
    {"prompt_tokens_details.cache_write_tokens", Field::CacheWritten},
    {"input_tokens_details.cache_write_tokens", Field::CacheWritten},
    {"completion_tokens_details.reasoning_tokens", Field::Reasoning},
    {"output_tokens_details.reasoning_tokens", Field::Reasoning},
    {"prompt_tokens_details.audio_tokens", Field::AudioInput},
    {"input_tokens_details.audio_tokens", Field::AudioInput},
    {"input_token_details.audio_tokens", Field::AudioInput},
    {"completion_tokens_details.audio_tokens", Field::AudioOutput},
    {"output_tokens_details.audio_tokens", Field::AudioOutput},
    {"output_token_details.audio_tokens", Field::AudioOutput},
    {"input_token_details.cached_tokens", Field::Cached},
    {"reasoning_tokens", Field::Reasoning},
}};
constexpr std::array<Entry, 5> kOpenAiBeside{{
    {"x_groq.usage.prompt_tokens", Field::Input, 1},
    {"x_groq.usage.completion_tokens", Field::Output, 1},
    {"x_groq.usage.total_tokens", Field::Total, 1},
    {"prompt_eval_count", Field::Input, 1},  // Ollama
    {"eval_count", Field::Output, 1},
}};

constexpr std::array<std::string_view, 3> kAnthropicPlaces{"usage.", "message.usage.",
                                                           "result.message.usage."};
constexpr std::array<Entry, 4> kAnthropic{{
    {"input_tokens", Field::Input},
    {"output_tokens", Field::Output},
    {"cache_read_input_tokens", Field::Cached},
    {"cache_creation_input_tokens", Field::CacheWritten},
}};

constexpr std::array<std::string_view, 3> kGeminiPlaces{"usageMetadata.", "[].usageMetadata.",
                                                        "response.usageMetadata."};
constexpr std::array<Entry, 7> kGemini{{
    {"promptTokenCount", Field::Input},
    {"candidatesTokenCount", Field::Output},
    {"responseTokenCount", Field::Output},
    {"totalTokenCount", Field::Total},
    {"cachedContentTokenCount", Field::Cached},
    {"thoughtsTokenCount", Field::Reasoning},
    {"toolUsePromptTokenCount", Field::ToolInput},
}};

constexpr std::array<std::string_view, 5> kCoherePlaces{"usage.", "meta.", "delta.usage.",
                                                        "response.meta.", "response.usage."};
constexpr std::array<Entry, 5> kCohere{{
    {"billed_units.input_tokens", Field::Input},
    {"billed_units.output_tokens", Field::Output},
    {"tokens.input_tokens", Field::Input, 1},
    {"tokens.output_tokens", Field::Output, 1},
    {"cached_tokens", Field::Cached},
}};

constexpr std::array<std::string_view, 1> kConversePlaces{"usage."};
constexpr std::array<Entry, 5> kConverse{{
    {"inputTokens", Field::Input},
    {"outputTokens", Field::Output},
    {"totalTokens", Field::Total},
    {"cacheReadInputTokens", Field::Cached},
    {"cacheWriteInputTokens", Field::CacheWritten},
}};

// A stream's metrics are Bedrock's own; the rest is how the models' makers say it.
constexpr std::array<std::string_view, 1> kNoPlace{""};
constexpr std::array<Entry, 24> kInvoke{{
    {"amazon-bedrock-invocationMetrics.inputTokenCount", Field::Input},
    {"amazon-bedrock-invocationMetrics.outputTokenCount", Field::Output},
    {"amazon-bedrock-invocationMetrics.cacheReadInputTokenCount", Field::Cached},
    {"amazon-bedrock-invocationMetrics.cacheWriteInputTokenCount", Field::CacheWritten},
    {"usage.input_tokens", Field::Input, 1},
    {"usage.output_tokens", Field::Output, 1},
    {"usage.cache_read_input_tokens", Field::Cached, 1},
    {"usage.cache_creation_input_tokens", Field::CacheWritten, 1},
    {"message.usage.input_tokens", Field::Input, 1},
    {"message.usage.output_tokens", Field::Output, 1},
    {"message.usage.cache_read_input_tokens", Field::Cached, 1},
    {"message.usage.cache_creation_input_tokens", Field::CacheWritten, 1},
    {"usage.inputTokens", Field::Input, 1},
    {"usage.outputTokens", Field::Output, 1},
    {"usage.totalTokens", Field::Total, 1},
    {"usage.cacheReadInputTokenCount", Field::Cached, 1},
    {"usage.cacheWriteInputTokenCount", Field::CacheWritten, 1},
    {"usage.prompt_tokens", Field::Input, 1},
    {"usage.completion_tokens", Field::Output, 1},
    {"usage.total_tokens", Field::Total, 1},
    {"prompt_token_count", Field::Input, 1},
    {"generation_token_count", Field::Output, 1},
    {"inputTextTokenCount", Field::Input, 1},
    {"results.[].tokenCount", Field::Output, 1},
}};

constexpr std::array<Entry, 4> kInvokeHeaders{{
    {"x-amzn-bedrock-input-token-count", Field::Input},
    {"x-amzn-bedrock-output-token-count", Field::Output},
    {"x-amzn-bedrock-cache-read-input-token-count", Field::Cached},
    {"x-amzn-bedrock-cache-write-input-token-count", Field::CacheWritten},
}};

const Entry* find(std::string_view path, std::span<const std::string_view> places,
                  std::span<const Entry> entries) {
  for (const std::string_view place : places) {
    if (!path.starts_with(place)) continue;
    const std::string_view rest = path.substr(place.size());
    for (const Entry& entry : entries)
      if (entry.path == rest) return &entry;
  }
  return nullptr;
}

const Entry* find(Dialect dialect, std::string_view path) {
  switch (dialect) {
    case Dialect::OpenAi:
      if (const Entry* entry = find(path, kOpenAiPlaces, kOpenAi)) return entry;
      return find(path, kNoPlace, kOpenAiBeside);
    case Dialect::Anthropic:
    case Dialect::AnthropicBatch:
      return find(path, kAnthropicPlaces, kAnthropic);
    case Dialect::Gemini:
      return find(path, kGeminiPlaces, kGemini);
    case Dialect::Cohere:
      return find(path, kCoherePlaces, kCohere);
    case Dialect::BedrockConverse:
      return find(path, kConversePlaces, kConverse);
    case Dialect::BedrockInvoke:
      return find(path, kNoPlace, kInvoke);
  }
  return nullptr;
}

bool is_model_path(std::string_view path) {
  return path == "model" || path == "message.model" || path == "response.model" ||
         path == "modelVersion" || path == "[].modelVersion";
}

}

std::optional<uint64_t> parse_nanodollars(std::string_view text) {
  constexpr int kDigits = 9;
  uint64_t mantissa = 0;
  int scale = 0;  // digits behind the point
  size_t at = 0;
  bool point = false;
  bool digits = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    digits = true;
    if (point && scale >= 2 * kDigits) continue;  // smaller than anything that is counted
    const auto grown = checked_mul(mantissa, 10);
    const auto more = grown ? checked_add(*grown, static_cast<uint64_t>(c - '0')) : grown;
    if (!more) return std::nullopt;
    mantissa = *more;
    if (point) ++scale;
  }
  if (!digits) return std::nullopt;
  if (at < text.size()) {
    if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
    const bool minus = at + 1 < text.size() && text[at + 1] == '-';
    const bool sign = minus || (at + 1 < text.size() && text[at + 1] == '+');
    const auto exponent = parse_u64(text.substr(at + (sign ? 2 : 1)));
    if (!exponent || *exponent > 40) return std::nullopt;
    scale += minus ? static_cast<int>(*exponent) : -static_cast<int>(*exponent);
  }
  for (; scale < kDigits; ++scale) {
    const auto grown = checked_mul(mantissa, 10);
    if (!grown) return std::nullopt;
    mantissa = *grown;
  }
  for (; scale > kDigits; --scale) mantissa = mantissa / 10 + (mantissa % 10 != 0 ? 1 : 0);
  return mantissa;
}

bool Tally::any(const Fields& fields) {
  return std::ranges::any_of(fields, [](const auto& field) { return field.has_value(); });
}

void Tally::number(std::string_view path, std::string_view text) {
  if (path == "usage.cost" || path == "response.usage.cost") {
    const auto cost = parse_nanodollars(text);
    bad_ = bad_ || !cost;
    if (cost) cost_ = cost;
    return;
  }
  const Entry* entry = find(dialect_, path);
  if (entry == nullptr) return;
  const auto value = parse_u64(text);
  if (!value || *value > kMaxCount) {
    bad_ = true;
    return;
  }
  ranks_.at(entry->rank).at(static_cast<size_t>(entry->field)) = *value;
}

void Tally::literal(std::string_view path, std::string_view word) {
  if (path == "done" && word == "true") ending_ = true;  // Ollama
}

void Tally::string(std::string_view path, std::string_view text) {
  if (model_.empty() && is_model_path(path)) model_ = std::string(text.substr(0, kMaxModel + 1));
  switch (dialect_) {
    case Dialect::OpenAi:
      if (path == "status" && (text == "validating" || text == "in_progress" ||
                               text == "finalizing" || text == "cancelling"))
        pending_ = true;
      if (path == "type" && (text == "response.completed" || text == "response.incomplete" ||
                             text == "response.failed"))
        ending_ = true;
      break;
    case Dialect::Anthropic:
      if (path == "type" && text == "message_stop") ending_ = true;
      if (path == "delta.stop_reason" || path == "stop_reason") ending_ = true;
      break;
    case Dialect::Gemini:
      if (path.ends_with("candidates.[].finishReason") ||
          path.ends_with("promptFeedback.blockReason"))
        ending_ = true;
      break;
    case Dialect::Cohere:
      if ((path == "type" && text == "message-end") ||
          (path == "event_type" && text == "stream-end"))
        ending_ = true;
      break;
    case Dialect::AnthropicBatch:
    case Dialect::BedrockInvoke:
    case Dialect::BedrockConverse:
      break;
  }
}

void Tally::container(std::string_view path, bool) {
  if (path == "meta.billed_units" || path == "usage.billed_units" || path == "usageMetadata" ||
      path == "[].usageMetadata" || path == "delta.usage.billed_units")
    saw_usage_ = true;
  if (dialect_ == Dialect::BedrockConverse && path == "usage") ending_ = true;
  if (path == "amazon-bedrock-invocationMetrics") ending_ = true;
}

// Of a batch every document is a message of its own.
void Tally::document_end() {
  final_ = final_ || ending_;
  if (dialect_ != Dialect::AnthropicBatch) return;
  if (const auto one = read(ranks_[0])) {
    const auto add = [this](uint64_t& sum, uint64_t value) {
      const auto next = checked_add(sum, value);
      bad_ = bad_ || !next || *next > kMaxCount;
      if (next) sum = std::min(*next, kMaxCount);
    };
    add(added_.input, one->input);
    add(added_.output, one->output);
    add(added_.total, one->total);
    add(added_.cached, one->cached);
    add(added_.cache_written, one->cache_written);
  }
  adding_ = true;
  ranks_ = {};
}

void Tally::header(std::string_view name, std::string_view value) {
  if (dialect_ != Dialect::BedrockInvoke) return;
  for (const Entry& entry : kInvokeHeaders) {
    if (!http::same_name(entry.path, name)) continue;
    const auto count = parse_u64(value);
    bad_ = bad_ || !count || *count > kMaxCount;
    if (count && *count <= kMaxCount) ranks_.at(0).at(static_cast<size_t>(entry.field)) = *count;
  }
}

std::optional<Usage> Tally::read(const Fields& fields) const {
  Usage usage;
  auto input = get(fields, Field::Input);
  auto output = get(fields, Field::Output);
  const auto total = get(fields, Field::Total);
  usage.cached = get(fields, Field::Cached).value_or(0);
  usage.cache_written = get(fields, Field::CacheWritten).value_or(0);
  usage.reasoning = get(fields, Field::Reasoning).value_or(0);
  usage.audio_input = get(fields, Field::AudioInput).value_or(0);
  usage.audio_output = get(fields, Field::AudioOutput).value_or(0);
  switch (dialect_) {
    case Dialect::OpenAi:
      // Of embeddings there is a total, and nothing that came out.
      if (input && total && !output) output = *total - std::min(*input, *total);
      break;
    case Dialect::Anthropic:
    case Dialect::AnthropicBatch:
    case Dialect::BedrockInvoke:
    case Dialect::BedrockConverse:
      // What was read from the cache, or written to it, is not among the input there.
      if (dialect_ == Dialect::BedrockInvoke && input && !output)
        output = total ? *total - std::min(*input, *total) : 0;
      if (input) input = *input + usage.cached + usage.cache_written;
      break;
    case Dialect::Gemini:
      // Its JSON leaves out what is 0.
      if (!any(fields) && !saw_usage_) return std::nullopt;
      input = input.value_or(0) + get(fields, Field::ToolInput).value_or(0);
      output = output.value_or(0) + usage.reasoning;
      break;
    case Dialect::Cohere:
      // What is billed by other units (rerank) has no tokens.
      if (!any(fields) && !saw_usage_) return std::nullopt;
      input = input.value_or(0);
      output = output.value_or(0);
      break;
  }
  if (!input || !output) return std::nullopt;
  usage.input = *input;
  usage.output = *output;
  usage.total = usage.input + usage.output;
  // What a total holds besides was generated: xAI's reasoning is not among the completion, and
  // neither is Gemini's behind OpenAI's interface.
  if (total && *total > usage.total) {
    usage.output += *total - usage.total;
    usage.total = *total;
  }
  usage.cost = cost_;
  return usage;
}

std::optional<Usage> Tally::usage() const {
  if (adding_) return added_;
  for (const Fields& fields : ranks_)
    if (get(fields, Field::Input) || get(fields, Field::Output) || get(fields, Field::Total))
      return read(fields);
  return read(ranks_[0]);
}

Usage Tally::least() const {
  if (const auto known = usage()) return *known;
  Fields fields = ranks_[0];
  if (!any(fields)) fields = ranks_[1];
  for (const Field field : {Field::Input, Field::Output})
    if (!get(fields, field)) fields.at(static_cast<size_t>(field)) = 0;
  return read(fields).value_or(Usage{});
}

}
