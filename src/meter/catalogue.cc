// Where the providers are: the hosts of their public references.
#include <algorithm>
#include <array>
#include <utility>

#include "mvm/meter/provider.h"

namespace mvm::meter {
namespace {

struct Hosts {
  Provider provider;
  std::array<std::string_view, 4> hosts;
};
constexpr std::array<Hosts, 10> kHosts{{
    {Provider::OpenAi, {"api.openai.com", "*.api.openai.com"}},
    {Provider::AzureOpenAi,
     {"*.openai.azure.com", "*.openai.azure.us", "*.services.ai.azure.com",
      "*.cognitiveservices.azure.com"}},
    {Provider::Anthropic, {"api.anthropic.com"}},
    {Provider::Gemini, {"generativelanguage.googleapis.com", "aiplatform.googleapis.com"}},
    {Provider::Mistral, {"api.mistral.ai", "codestral.mistral.ai"}},
    {Provider::Cohere, {"api.cohere.com", "api.cohere.ai"}},
    {Provider::DeepSeek, {"api.deepseek.com"}},
    {Provider::Groq, {"api.groq.com"}},
    {Provider::XAi, {"api.x.ai", "*.api.x.ai"}},
    {Provider::OpenRouter, {"openrouter.ai"}},
}};

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
constexpr std::array<std::string_view, 47> kVertexRegions{"us-central1",
                                                          "us-east1",
                                                          "us-east4",
                                                          "us-east5",
                                                          "us-east7",
                                                          "us-south1",
                                                          "us-west1",
                                                          "us-west2",
                                                          "us-west3",
                                                          "us-west4",
                                                          "us-west8",
                                                          "northamerica-northeast1",
                                                          "northamerica-northeast2",
                                                          "northamerica-south1",
                                                          "southamerica-east1",
                                                          "southamerica-west1",
                                                          "europe-central2",
                                                          "europe-north1",
                                                          "europe-north2",
                                                          "europe-southwest1",
                                                          "europe-west1",
                                                          "europe-west2",
                                                          "europe-west3",
                                                          "europe-west4",
                                                          "europe-west6",
                                                          "europe-west8",
                                                          "europe-west9",
                                                          "europe-west10",
                                                          "europe-west12",
                                                          "asia-east1",
                                                          "asia-east2",
                                                          "asia-northeast1",
                                                          "asia-northeast2",
                                                          "asia-northeast3",
                                                          "asia-south1",
                                                          "asia-south2",
                                                          "asia-southeast1",
                                                          "asia-southeast2",
                                                          "asia-southeast3",
                                                          "australia-southeast1",
                                                          "australia-southeast2",
                                                          "me-central1",
                                                          "me-central2",
                                                          "me-west1",
                                                          "africa-south1",
                                                          "us",
                                                          "eu"};

// Calls `add` with each pattern.
template <typename Add>
void hosts_of(Provider provider, Add add) {
  for (const Hosts& one : kHosts)
    for (const std::string_view host : one.hosts)
      if (one.provider == provider && !host.empty()) add(std::string(host));
  if (provider == Provider::Gemini)
    for (const std::string_view text : kVertexRegions) {
      const std::string region(text);
      add(region + "-aiplatform.googleapis.com");
      add("aiplatform." + region + ".rep.googleapis.com");
    }
  if (provider == Provider::Bedrock)
    for (const std::string_view text : kAwsRegions) {
      const std::string region(text);
      const std::string domain =
          region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
      add("bedrock-runtime." + domain);
      add("bedrock-runtime-fips." + domain);
      for (const char* name : {"bedrock-mantle.", "bedrock-runtime.", "bedrock-runtime-fips."})
        add(name + region + ".api.aws");
    }
}

}

Catalogue::Catalogue(std::span<const std::string> words) {
  const auto place = [](Provider provider, std::string_view pattern) -> std::optional<Place> {
    auto rule = policy::parse_host_rule(pattern);
    if (!rule) return std::nullopt;
    rule->id = "ai:" + std::string(provider_word(provider));
    return Place{provider, std::move(*rule)};
  };
  const auto add_provider = [&](Provider provider) {
    hosts_of(provider, [&](const std::string& pattern) {
      auto one = place(provider, pattern);
      if (!one) return;
      if (one->rule.host.is_zone())
        zones_.push_back(std::move(*one));
      else
        names_.emplace(pattern, provider);
    });
  };
  for (const std::string& word : words)
    if (!provider_from_word(word))
      if (auto one = place(Provider::Compatible, word)) own_.push_back(std::move(*one));
  for (const std::string& word : words)
    if (const auto provider = provider_from_word(word)) add_provider(*provider);
  if (!words.empty()) return;
  for (size_t i = 0; i < kProviders; ++i) add_provider(static_cast<Provider>(i));
}

std::optional<Provider> Catalogue::provider_of(std::string_view host, uint16_t port) const {
  const auto name = dns::Name::parse(host);
  if (!name) return std::nullopt;
  const bool usual = port == 80 || port == 443;
  const auto in = [&](const std::vector<Place>& places) -> std::optional<Provider> {
    for (const Place& place : places) {
      const auto& ports = place.rule.ports;
      const bool fits = ports.empty() ? usual : std::ranges::find(ports, port) != ports.end();
      if (fits && place.rule.host.matches(*name)) return place.provider;
    }
    return std::nullopt;
  };
  if (const auto own = in(own_)) return own;
  const auto named = usual ? names_.find(name->text()) : names_.end();
  return named == names_.end() ? in(zones_) : std::optional(named->second);
}

std::vector<policy::HostRule> Catalogue::hosts() const {
  std::vector<policy::HostRule> out;
  for (const auto* places : {&own_, &zones_})
    for (const Place& place : *places) out.push_back(place.rule);
  for (const auto& [name, provider] : names_) {
    out.push_back(*policy::parse_host_rule(name));
    out.back().id = "ai:" + std::string(provider_word(provider));
  }
  return out;
}

}
