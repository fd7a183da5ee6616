// The fields of each dialect are tables of paths, from the providers' public references.
#include "usage_fields.h"

#include <array>
#include <span>

#include "mvm/http/message.h"

namespace mvm::meter {
namespace {

using Field = Tally::Field;
using Entry = UsageField;

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

// Of generateContent, and of interactions.
constexpr std::array<std::string_view, 5> kGeminiPlaces{"usageMetadata.", "[].usageMetadata.",
                                                        "response.usageMetadata.", "usage.",
                                                        "interaction.usage."};
constexpr std::array<Entry, 13> kGemini{{
    {"promptTokenCount", Field::Input},
    {"candidatesTokenCount", Field::Output},
    {"responseTokenCount", Field::Output},
    {"totalTokenCount", Field::Total},
    {"cachedContentTokenCount", Field::Cached},
    {"thoughtsTokenCount", Field::Reasoning},
    {"toolUsePromptTokenCount", Field::ToolInput},
    {"total_input_tokens", Field::Input},
    {"total_output_tokens", Field::Output},
    {"total_tokens", Field::Total},
    {"total_cached_tokens", Field::Cached},
    {"total_thought_tokens", Field::Reasoning},
    {"total_tool_use_tokens", Field::ToolInput},
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

const Entry* find_in(std::string_view path, std::span<const std::string_view> places,
                     std::span<const Entry> entries) {
  for (const std::string_view place : places) {
    if (!path.starts_with(place)) continue;
    const std::string_view rest = path.substr(place.size());
    for (const Entry& entry : entries)
      if (entry.path == rest) return &entry;
  }
  return nullptr;
}

// One of several calls of models that an answer took.
constexpr std::string_view kStep = "iterations.[].";

}

const UsageField* find_usage_field(Dialect dialect, std::string_view path) {
  switch (dialect) {
    case Dialect::OpenAi:
      if (const Entry* entry = find_in(path, kOpenAiPlaces, kOpenAi)) return entry;
      return find_in(path, kNoPlace, kOpenAiBeside);
    case Dialect::Anthropic:
    case Dialect::AnthropicBatch:
      return find_in(path, kAnthropicPlaces, kAnthropic);
    case Dialect::Gemini:
      return find_in(path, kGeminiPlaces, kGemini);
    case Dialect::Cohere:
      return find_in(path, kCoherePlaces, kCohere);
    case Dialect::BedrockConverse:
      return find_in(path, kConversePlaces, kConverse);
    case Dialect::BedrockInvoke:
      return find_in(path, kNoPlace, kInvoke);
  }
  return nullptr;
}

std::optional<Tally::Field> find_step_field(Dialect dialect, std::string_view path) {
  if (dialect != Dialect::Anthropic && dialect != Dialect::AnthropicBatch &&
      dialect != Dialect::BedrockInvoke)
    return std::nullopt;
  for (const std::string_view place : kAnthropicPlaces) {
    if (!path.starts_with(place)) continue;
    const std::string_view rest = path.substr(place.size());
    if (!rest.starts_with(kStep)) continue;
    for (const Entry& entry : kAnthropic)
      if (entry.path == rest.substr(kStep.size())) return entry.field;
  }
  return std::nullopt;
}

std::optional<Tally::Field> find_usage_header(std::string_view name) {
  for (const Entry& entry : kInvokeHeaders)
    if (http::same_name(entry.path, name)) return entry.field;
  return std::nullopt;
}

}
