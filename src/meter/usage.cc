#include "mvm/meter/usage.h"

#include <algorithm>
#include <utility>

#include "mvm/base/checked.h"
#include "mvm/base/text.h"

#include "usage_fields.h"

namespace mvm::meter {
namespace {

bool is_model_path(std::string_view path) {
  return path == "model" || path == "message.model" || path == "response.model" ||
         path == "modelVersion" || path == "[].modelVersion" || path == "interaction.model";
}

bool is_id_path(std::string_view path) {
  return path == "id" || path == "response.id" || path == "interaction.id";
}

// Of a batch, a response or an interaction that has not come to its end.
bool is_running(std::string_view status) {
  constexpr std::array<std::string_view, 5> kRunning{"validating", "queued", "in_progress",
                                                     "finalizing", "cancelling"};
  return std::ranges::find(kRunning, status) != kRunning.end();
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
  const UsageField* entry = find_usage_field(dialect_, path);
  const auto step = entry == nullptr ? find_step_field(dialect_, path) : std::nullopt;
  if (entry == nullptr && !step) return;
  const auto value = parse_u64(text);
  if (!value || *value > kMaxCount) {
    bad_ = true;
    return;
  }
  if (entry != nullptr) {
    ranks_.at(entry->rank).at(static_cast<size_t>(entry->field)) = value;
    return;
  }
  auto& sum = these_steps_.at(static_cast<size_t>(*step));
  sum = sum.value_or(0) + *value;
  bad_ = bad_ || *sum > kMaxCount;
  if (*sum > kMaxCount) sum = kMaxCount;
}

void Tally::literal(std::string_view path, std::string_view word) {
  if (path == "done" && word == "true") ending_ = true;  // Ollama
  if (path == "background" || path == "response.background") background_ = word == "true";
}

void Tally::string(std::string_view path, std::string_view text) {
  if (model_.empty() && is_model_path(path)) model_ = std::string(text.substr(0, kMaxModel + 1));
  if (path == "status") running_ = is_running(text);
  if (is_id_path(path)) id_ = std::string(text);
  switch (dialect_) {
    case Dialect::OpenAi:
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
          path.ends_with("promptFeedback.blockReason") ||
          (path == "event_type" &&
           (text == "interaction.completed" || text == "interaction.complete")))
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
  // All steps so far, each time it comes.
  if (path.ends_with("usage.iterations")) steps_ = std::exchange(these_steps_, {});
}

// Of a batch every document is a message of its own.
void Tally::document_end() {
  final_ = final_ || ending_;
  these_steps_ = {};
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
  steps_ = {};
}

void Tally::header(std::string_view name, std::string_view value) {
  const auto field = dialect_ == Dialect::BedrockInvoke ? find_usage_header(name) : std::nullopt;
  if (!field) return;
  const auto count = parse_u64(value);
  bad_ = bad_ || !count || *count > kMaxCount;
  if (count && *count <= kMaxCount) ranks_.at(0).at(static_cast<size_t>(*field)) = count;
}

std::optional<Usage> Tally::read(Fields fields) const {
  // Anthropic's sums leave out the steps that other models made, those that shortened the
  // conversation, and the input of all but the first; what is billed is every step.
  for (size_t i = 0; i < fields.size(); ++i)
    fields.at(i) = std::max(fields.at(i), steps_.at(i));  // nothing is less than any
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
