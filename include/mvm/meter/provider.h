#pragma once
// Which requests go to an AI provider, by host and path. Pure, and data: what a provider is called,
// where it is, and how it says what was used is in one table (src/meter/provider.cc).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/policy/pattern.h"
#include "mvm/policy/policy.h"

namespace mvm::meter {

enum class Provider : uint8_t {
  OpenAi,
  AzureOpenAi,
  Anthropic,
  Gemini,
  Bedrock,
  Mistral,
  Cohere,
  DeepSeek,
  Groq,
  XAi,
  OpenRouter,
  Compatible,  // a host of the user's own that speaks OpenAI's interface, or Ollama's
};
inline constexpr size_t kProviders = 12;
// "openai", "azure_openai", … as in mvm.toml and in metrics.
std::string_view provider_word(Provider provider) noexcept;
// OpenTelemetry's spelling of it (gen_ai.provider.name).
std::string_view telemetry_name(Provider provider) noexcept;
std::optional<Provider> provider_from_word(std::string_view word) noexcept;

// What usage looks like in an answer.
enum class Dialect : uint8_t {
  OpenAi,  // chat, responses, embeddings; many others'; Ollama's
  Anthropic,
  AnthropicBatch,  // one message a line, all to be added
  Gemini,
  Cohere,
  BedrockInvoke,  // headers, or the model's own, or a stream's metrics
  BedrockConverse,
};

enum class Operation : uint8_t {
  Chat,
  TextCompletion,
  GenerateContent,
  Embeddings,
  Rerank,
  Batch,     // the state or results of one: its usage counts once
  Media,     // images, speech
  Realtime,  // a WebSocket, whose messages nobody here reads
  Other,     // usage counts where there is some; none is not unknown
};
inline constexpr size_t kOperations = 9;
std::string_view operation_word(Operation operation) noexcept;  // gen_ai.operation.name

struct Call {
  Provider provider = Provider::OpenAi;
  Dialect dialect = Dialect::OpenAi;
  Operation operation = Operation::Other;
  std::string model;  // when the path names it
  // Of a batch, or an answer that the provider keeps, its id: however often it is asked for, its
  // usage counts once.
  std::string once;
  // The provider keeps the answer, which names the id.
  bool kept = false;
  // The provider sends a stream's usage only when it is asked to, and takes being asked.
  bool asks_for_stream_usage = false;

  bool operator==(const Call&) const = default;
};

// Complaint about a word of `providers`, or nothing. A word is a provider's, or a host as in
// allow_hosts ("llm.example.com:8443") that speaks OpenAI's interface.
std::optional<std::string> provider_complaint(std::string_view word);

class Catalogue {
 public:
  static constexpr size_t kMaxWords = 64;
  // The providers of these words; none: every one that has hosts of its own. Words that are none
  // are left out.
  explicit Catalogue(std::span<const std::string> words = {});

  std::optional<Provider> provider_of(std::string_view host, uint16_t port) const;
  // Nothing: not a provider's host, or a request that uses nothing up (a list of models).
  std::optional<Call> recognise(std::string_view host, uint16_t port, std::string_view method,
                                std::string_view target) const;
  // Connections to these have to be looked into.
  std::vector<policy::HostRule> hosts() const;

 private:
  struct Place {
    Provider provider;
    policy::HostRule rule;
  };
  // By rank: a host of the user's own wins over what it looks like.
  std::vector<Place> own_;
  std::map<std::string, Provider, std::less<>> names_;  // without a port
  std::vector<Place> zones_;
};

// A model's name as it may be shown and counted by: bounded, and of few characters. What the guest
// or the provider wrote otherwise is "other".
inline constexpr size_t kMaxModel = 80;
std::string clean_model(std::string_view model);

}
