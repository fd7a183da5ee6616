// Hosts and paths are those of the providers' public references. A path that is not known but may
// use something up (a POST) is Operation::Other, so that a new endpoint's usage is not missed.
#include "mvm/meter/provider.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mvm::meter {
namespace {

struct About {
  std::string_view word;
  std::string_view telemetry;  // OpenTelemetry's well-known values of gen_ai.provider.name
  std::array<std::string_view, 4> hosts;
  bool asks;  // Call::asks_for_stream_usage
};

// Mistral and OpenRouter report a stream's usage unasked, and Mistral refuses fields it does not
// know.
constexpr std::array<About, kProviders> kAbout{{
    {"openai", "openai", {"api.openai.com", "*.api.openai.com"}, true},
    {"azure_openai",
     "azure.ai.openai",
     {"*.openai.azure.com", "*.openai.azure.us", "*.services.ai.azure.com",
      "*.cognitiveservices.azure.com"},
     true},
    {"anthropic", "anthropic", {"api.anthropic.com"}, false},
    {"gemini",
     "gcp.gemini",
     {"generativelanguage.googleapis.com", "aiplatform.googleapis.com"},
     false},
    {"bedrock", "aws.bedrock", {}, false},  // see kBedrock
    {"mistral", "mistral_ai", {"api.mistral.ai", "codestral.mistral.ai"}, false},
    {"cohere", "cohere", {"api.cohere.com", "api.cohere.ai"}, false},
    {"deepseek", "deepseek", {"api.deepseek.com"}, true},
    {"groq", "groq", {"api.groq.com"}, true},
    {"xai", "x_ai", {"api.x.ai", "*.api.x.ai"}, true},
    {"openrouter", "openrouter", {"openrouter.ai"}, false},
    {"compatible", "openai", {}, true},
}};

const About& about(Provider provider) { return kAbout.at(static_cast<size_t>(provider)); }

// Hosts with a region in their first label cannot be written as one pattern.
constexpr std::array<std::string_view, 42> kAwsRegions{
    "us-east-1",      "us-east-2",      "us-west-1",      "us-west-2",      "us-gov-east-1",
    "us-gov-west-1",  "af-south-1",     "ap-east-1",      "ap-east-2",      "ap-northeast-1",
    "ap-northeast-2", "ap-northeast-3", "ap-south-1",     "ap-south-2",     "ap-southeast-1",
    "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6",
    "ap-southeast-7", "ca-central-1",   "ca-west-1",      "eu-central-1",   "eu-central-2",
    "eu-north-1",     "eu-south-1",     "eu-south-2",     "eu-west-1",      "eu-west-2",
    "eu-west-3",      "il-central-1",   "me-central-1",   "me-south-1",     "mx-central-1",
    "sa-east-1",      "cn-north-1",     "cn-northwest-1", "us-iso-east-1",  "us-isob-east-1",
    "eu-isoe-west-1", "eusc-de-east-1"};
constexpr std::array<std::string_view, 25> kVertexRegions{"us-central1",
                                                          "us-east1",
                                                          "us-east4",
                                                          "us-east5",
                                                          "us-south1",
                                                          "us-west1",
                                                          "us-west4",
                                                          "europe-west1",
                                                          "europe-west2",
                                                          "europe-west3",
                                                          "europe-west4",
                                                          "europe-west8",
                                                          "europe-west9",
                                                          "europe-north1",
                                                          "europe-central2",
                                                          "asia-east1",
                                                          "asia-northeast1",
                                                          "asia-northeast3",
                                                          "asia-south1",
                                                          "asia-southeast1",
                                                          "me-central1",
                                                          "australia-southeast1",
                                                          "southamerica-east1",
                                                          "us",
                                                          "eu"};

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
    call.once = path.size() >= 2 && path[path.size() - 2] == "batches" ? path.back() : "";
    if (call.once.empty()) return std::nullopt;
    call.operation = Operation::Batch;
    return call;
  }
  if (method != "POST") return std::nullopt;
  call.model = behind(path, "deployments");
  if (ends_with(path, {"chat", "completions"})) {
    call.operation = Operation::Chat;
    call.asks_for_stream_usage = asks;
  } else if (ends_with(path, {"completions"})) {
    call.operation = Operation::TextCompletion;
    call.asks_for_stream_usage = asks;
  } else if (ends_with(path, {"responses"}) || ends_with(path, {"api", "chat"}) ||
             ends_with(path, {"messages"})) {
    call.operation = Operation::Chat;
  } else if (ends_with(path, {"api", "generate"})) {
    call.operation = Operation::TextCompletion;
  } else if (ends_with(path, {"embeddings"}) || ends_with(path, {"api", "embed"})) {
    call.operation = Operation::Embeddings;
  } else if (contains(path, "images") || contains(path, "audio")) {
    call.operation = Operation::Media;
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
  if (method != "POST" || path.empty()) return std::nullopt;
  const std::string& last = path.back();
  const size_t colon = last.rfind(':');
  if (colon == std::string::npos) return call;
  call.model = last.substr(0, colon);
  const std::string_view verb = std::string_view(last).substr(colon + 1);
  if (verb == "countTokens" || verb == "computeTokens") return std::nullopt;
  if (verb == "generateContent" || verb == "streamGenerateContent") {
    call.operation = Operation::GenerateContent;
  } else if (verb == "embedContent" || verb == "batchEmbedContents") {
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
  if (contains(path, "openai")) return openai(call, method, path);
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

Catalogue::Catalogue(std::span<const std::string> words) {
  const auto add = [&](Provider provider, std::string_view pattern) {
    if (pattern.empty()) return;
    if (auto rule = policy::parse_host_rule(pattern)) {
      rule->id = "ai:" + std::string(provider_word(provider));
      places_.push_back({provider, std::move(*rule)});
    }
  };
  const auto add_provider = [&](Provider provider) {
    for (const std::string_view host : about(provider).hosts) add(provider, host);
    if (provider == Provider::Gemini)
      for (const std::string_view region : kVertexRegions)
        add(provider, std::string(region) + "-aiplatform.googleapis.com");
    if (provider == Provider::Bedrock)
      for (const std::string_view region : kAwsRegions) {
        const std::string domain =
            std::string(region) +
            (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
        add(provider, "bedrock-runtime." + domain);
        add(provider, "bedrock-runtime-fips." + domain);
      }
  };
  // A host of the user's own first: what it is called for wins over what it looks like.
  for (const std::string& word : words)
    if (!provider_from_word(word)) add(Provider::Compatible, word);
  bool named = false;
  for (const std::string& word : words)
    if (const auto provider = provider_from_word(word)) {
      add_provider(*provider);
      named = true;
    }
  if (named || !words.empty()) return;
  for (size_t i = 0; i < kProviders; ++i) add_provider(static_cast<Provider>(i));
}

std::optional<Provider> Catalogue::provider_of(std::string_view host, uint16_t port) const {
  const auto name = dns::Name::parse(host);
  if (!name) return std::nullopt;
  for (const Place& place : places_) {
    const auto& ports = place.rule.ports;
    const bool fits =
        ports.empty() ? port == 80 || port == 443 : std::ranges::find(ports, port) != ports.end();
    if (fits && place.rule.host.matches(*name)) return place.provider;
  }
  return std::nullopt;
}

std::optional<Call> Catalogue::recognise(std::string_view host, uint16_t port,
                                         std::string_view method, std::string_view target) const {
  const auto provider = provider_of(host, port);
  if (!provider) return std::nullopt;
  Call call;
  call.provider = *provider;
  call.asks_for_stream_usage = about(*provider).asks;
  const auto path = policy::normal_path(target);
  // A path that servers may read in two ways may be any.
  if (!path) return call;
  switch (*provider) {
    case Provider::Anthropic:
      return anthropic(std::move(call), method, *path);
    case Provider::Gemini:
      return gemini(std::move(call), method, *path);
    case Provider::Bedrock:
      return bedrock(std::move(call), method, *path);
    case Provider::Cohere:
      return cohere(std::move(call), method, *path);
    case Provider::AzureOpenAi:
      if (contains(*path, "anthropic")) return anthropic(std::move(call), method, *path);
      call.asks_for_stream_usage = azure_takes_stream_options(target, *path);
      break;
    case Provider::Compatible:
    case Provider::DeepSeek:
    case Provider::OpenRouter:
    case Provider::XAi:
      // They speak Anthropic's interface too.
      if (ends_with(*path, {"v1", "messages"})) return anthropic(std::move(call), method, *path);
      break;
    default:
      break;
  }
  return openai(std::move(call), method, *path);
}

std::vector<policy::HostRule> Catalogue::hosts() const {
  std::vector<policy::HostRule> out;
  out.reserve(places_.size());
  for (const Place& place : places_) out.push_back(place.rule);
  return out;
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
