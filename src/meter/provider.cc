// Paths are those of the providers' public references. A path that is not known but may
// use something up (a POST) is Operation::Other, so that a new endpoint's usage is not missed.
#include "mvm/meter/provider.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mvm/http/message.h"

namespace mvm::meter {
namespace {

struct About {
  std::string_view word;
  std::string_view telemetry;  // OpenTelemetry's well-known values of gen_ai.provider.name
  bool asks;                   // Call::asks_for_stream_usage
};

// Mistral and OpenRouter report a stream's usage unasked, and Mistral refuses fields it does not
// know.
constexpr std::array<About, kProviders> kAbout{{
    {"openai", "openai", true},
    {"azure_openai", "azure.ai.openai", true},
    {"anthropic", "anthropic", false},
    {"gemini", "gcp.gemini", false},
    {"bedrock", "aws.bedrock", false},
    {"mistral", "mistral_ai", false},
    {"cohere", "cohere", false},
    {"deepseek", "deepseek", true},
    {"groq", "groq", true},
    {"xai", "x_ai", true},
    {"openrouter", "openrouter", false},
    {"compatible", "openai", true},
}};

const About& about(Provider provider) { return kAbout.at(static_cast<size_t>(provider)); }

bool ends_with(const policy::Path& path, std::initializer_list<std::string_view> tail) {
  return path.size() >= tail.size() &&
         std::equal(tail.begin(), tail.end(),
                    path.end() - static_cast<std::ptrdiff_t>(tail.size()));
}

bool contains(const policy::Path& path, std::string_view segment) {
  return std::ranges::find(path, segment) != path.end();
}

// What stands behind the segment: the id in "/v1/batches/ID/results".
std::string behind(const policy::Path& path, std::string_view segment) {
  const auto at = std::ranges::find(path, segment);
  return at == path.end() || at + 1 == path.end() ? std::string() : *(at + 1);
}

std::optional<Call> openai(Call call, std::string_view method, const policy::Path& path) {
  call.dialect = Dialect::OpenAi;
  const bool asks = std::exchange(call.asks_for_stream_usage, false);
  if (method == "GET") {
    if (path.size() < 2 || path.back().empty()) return std::nullopt;
    const std::string& kind = path[path.size() - 2];
    call.once = path.back();
    call.kept = kind == "responses";
    call.operation = kind == "batches" ? Operation::Batch : Operation::Chat;
    // xAI's answers to who does not wait.
    if (kind != "batches" && kind != "responses" && kind != "deferred-completion")
      return std::nullopt;
    return call;
  }
  if (method != "POST") return std::nullopt;
  call.model = behind(path, "deployments");
  call.kept = contains(path, "responses");
  if (ends_with(path, {"chat", "completions"})) {
    call.operation = Operation::Chat;
    call.asks_for_stream_usage = asks;
  } else if (ends_with(path, {"completions"})) {
    call.operation = Operation::TextCompletion;
    call.asks_for_stream_usage = asks;
  } else if (ends_with(path, {"responses"}) || ends_with(path, {"api", "chat"}) ||
             ends_with(path, {"messages"}) || ends_with(path, {"batch", "jobs"}) ||
             ends_with(path, {"runs"})) {
    // Also Mistral's batches, assistants' and evaluations' runs: what they use may not be told.
    call.operation = Operation::Chat;
  } else if (ends_with(path, {"api", "generate"})) {
    call.operation = Operation::TextCompletion;
  } else if (ends_with(path, {"embeddings"}) || ends_with(path, {"api", "embed"})) {
    call.operation = Operation::Embeddings;
  } else if (contains(path, "images") || contains(path, "audio")) {
    call.operation = Operation::Media;
  } else if (contains(path, "batches")) {
    call.operation = Operation::Batch;
  }
  return call;
}

std::optional<Call> anthropic(Call call, std::string_view method, const policy::Path& path) {
  call.dialect = Dialect::Anthropic;
  call.asks_for_stream_usage = false;
  if (method == "GET") {
    if (!ends_with(path, {"results"}) || !contains(path, "batches")) return std::nullopt;
    call.once = behind(path, "batches");
    call.dialect = Dialect::AnthropicBatch;
    call.operation = Operation::Batch;
    return call;
  }
  if (method != "POST" || ends_with(path, {"count_tokens"})) return std::nullopt;
  if (ends_with(path, {"messages"})) {
    call.operation = Operation::Chat;
  } else if (ends_with(path, {"complete"})) {
    call.operation = Operation::TextCompletion;
  }
  return call;
}

// The last segment is "MODEL:method"; Vertex serves other vendors' models by ":rawPredict".
std::optional<Call> gemini(Call call, std::string_view method, const policy::Path& path) {
  if (contains(path, "openai") || contains(path, "openapi")) return openai(call, method, path);
  call.dialect = Dialect::Gemini;
  if (method == "GET" && path.size() >= 2 && path[path.size() - 2] == "interactions") {
    call.operation = Operation::GenerateContent;
    call.once = path.back();
    call.kept = true;
    if (call.once.empty()) return std::nullopt;
    return call;
  }
  if (method != "POST" || path.empty()) return std::nullopt;
  if (contains(path, "interactions")) {
    if (ends_with(path, {"interactions"})) call.operation = Operation::GenerateContent;
    call.kept = true;
    return call;
  }
  const std::string& last = path.back();
  const size_t colon = last.rfind(':');
  if (colon == std::string::npos) return call;
  call.model = last.substr(0, colon);
  const std::string_view verb = std::string_view(last).substr(colon + 1);
  if (verb == "countTokens" || verb == "computeTokens") return std::nullopt;
  if (verb == "generateContent" || verb == "streamGenerateContent" ||
      verb == "batchGenerateContent") {  // the last one's use is not told where it can be read
    call.operation = Operation::GenerateContent;
  } else if (verb == "embedContent" || verb == "batchEmbedContents" ||
             verb == "asyncBatchEmbedContent") {
    call.operation = Operation::Embeddings;
  } else if (verb == "rawPredict" || verb == "streamRawPredict") {
    call.operation = Operation::Chat;
    const std::string publisher = behind(path, "publishers");
    call.dialect = publisher == "anthropic" ? Dialect::Anthropic : Dialect::OpenAi;
  } else if (verb == "predict" || verb == "predictLongRunning") {
    call.operation = Operation::Media;
  }
  return call;
}

std::optional<Call> bedrock(Call call, std::string_view method, const policy::Path& path) {
  // The other interfaces of both its endpoints; an id of a model may look like anything.
  if (!path.empty() && path.front() != "model") {
    if (contains(path, "anthropic") || ends_with(path, {"messages"}))
      return anthropic(call, method, path);
    if (contains(path, "openai") || path.front() == "v1") return openai(call, method, path);
  }
  call.dialect = Dialect::BedrockInvoke;
  if (method != "POST") return std::nullopt;
  call.model = behind(path, "model");
  if (path.empty() || path.back() == "count-tokens" || path.front() == "guardrail")
    return std::nullopt;
  if (path.back() == "converse" || path.back() == "converse-stream") {
    call.dialect = Dialect::BedrockConverse;
    call.operation = Operation::Chat;
  } else if (path.back() == "invoke" || path.back() == "invoke-with-response-stream") {
    call.operation = call.model.find("embed") != std::string::npos ? Operation::Embeddings
                                                                   : Operation::TextCompletion;
  } else if (path.back() == "invoke-with-bidirectional-stream") {
    call.operation = Operation::Realtime;
  }
  return call;
}

std::optional<Call> cohere(Call call, std::string_view method, const policy::Path& path) {
  if (contains(path, "compatibility")) return openai(call, method, path);
  call.dialect = Dialect::Cohere;
  if (method != "POST" || ends_with(path, {"tokenize"}) || ends_with(path, {"detokenize"}))
    return std::nullopt;
  if (ends_with(path, {"chat"})) {
    call.operation = Operation::Chat;
  } else if (ends_with(path, {"generate"}) || ends_with(path, {"summarize"})) {
    call.operation = Operation::TextCompletion;
  } else if (ends_with(path, {"embed"})) {
    call.operation = Operation::Embeddings;
  } else if (ends_with(path, {"rerank"})) {
    call.operation = Operation::Rerank;
  }
  return call;
}

// Older interfaces of Azure refuse stream_options; "/openai/v1/" and these dates take it.
bool azure_takes_stream_options(std::string_view target, const policy::Path& path) {
  if (ends_with(path, {"openai", "v1", "chat", "completions"})) return true;
  constexpr std::string_view kVersion = "api-version=";
  const size_t at = target.find(kVersion);
  if (at == std::string_view::npos) return false;
  const std::string_view version = target.substr(at + kVersion.size());
  return version.starts_with("preview") || version.substr(0, 10) >= "2024-09-01";
}

}

std::string_view provider_word(Provider provider) noexcept { return about(provider).word; }
std::string_view telemetry_name(Provider provider) noexcept { return about(provider).telemetry; }

std::optional<Provider> provider_from_word(std::string_view word) noexcept {
  for (size_t i = 0; i < kProviders; ++i)
    if (kAbout.at(i).word == word) return static_cast<Provider>(i);
  return std::nullopt;
}

std::string_view operation_word(Operation operation) noexcept {
  constexpr std::array<std::string_view, kOperations> kWords{
      "chat",  "text_completion", "generate_content", "embeddings", "rerank",
      "batch", "media",           "realtime",         "other"};
  return kWords.at(static_cast<size_t>(operation));
}

std::optional<std::string> provider_complaint(std::string_view word) {
  if (provider_from_word(word) && word != "compatible") return std::nullopt;
  if (word.find('.') != std::string_view::npos && policy::parse_host_rule(word))
    return std::nullopt;
  std::string known;
  for (const About& one : kAbout)
    if (one.word != "compatible") known += (known.empty() ? "" : ", ") + std::string(one.word);
  return "must be one of " + known +
         ", or a host that speaks OpenAI's interface, such as llm.example.com:8443";
}

namespace {

// What servers may take a method for: there are some that read it in any case.
enum class Reads : uint8_t { Get, Post, Nothing };
Reads kind_of(std::string_view method) {
  if (http::same_name(method, "GET")) return Reads::Get;
  for (const std::string_view harmless : {"HEAD", "OPTIONS", "DELETE"})
    if (http::same_name(method, harmless)) return Reads::Nothing;
  return Reads::Post;
}

std::optional<Call> call_of(Call call, std::string_view method, const policy::Path& path,
                            std::string_view target) {
  switch (call.provider) {
    case Provider::Anthropic:
      return anthropic(std::move(call), method, path);
    case Provider::Gemini:
      return gemini(std::move(call), method, path);
    case Provider::Bedrock:
      return bedrock(std::move(call), method, path);
    case Provider::Cohere:
      return cohere(std::move(call), method, path);
    case Provider::AzureOpenAi:
      if (contains(path, "anthropic")) return anthropic(std::move(call), method, path);
      call.asks_for_stream_usage = azure_takes_stream_options(target, path);
      break;
    case Provider::Compatible:
    case Provider::DeepSeek:
    case Provider::OpenRouter:
    case Provider::XAi:
      // They speak Anthropic's interface too.
      if (ends_with(path, {"v1", "messages"})) return anthropic(std::move(call), method, path);
      break;
    default:
      break;
  }
  return openai(std::move(call), method, path);
}

}

std::optional<Call> Catalogue::recognise(std::string_view host, uint16_t port,
                                         std::string_view method, std::string_view target) const {
  const auto provider = provider_of(host, port);
  const Reads kind = kind_of(method);
  if (!provider || kind == Reads::Nothing) return std::nullopt;
  Call call;
  call.provider = *provider;
  call.asks_for_stream_usage = about(*provider).asks;
  auto path = policy::normal_path(target);
  if (path) {
    // "/v1/messages/" is the same to many.
    while (path->size() > 1 && path->back().empty()) path->pop_back();
    return call_of(std::move(call), kind == Reads::Get ? "GET" : "POST", *path, target);
  }
  // One that servers may read in two ways may be any: what its answer does not tell is unknown.
  const auto any = call_of(call, "POST", {"?"}, target);
  call.dialect = any ? any->dialect : call.dialect;
  if (kind == Reads::Post) call.operation = Operation::Chat;
  return call;
}

std::string clean_model(std::string_view model) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == ':' || c == '/' || c == '@';
  };
  if (model.empty() || model.size() > kMaxModel || !std::ranges::all_of(model, allowed))
    return "other";
  return std::string(model);
}

}
