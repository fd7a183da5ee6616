// Variables that programs look for, by the documentation of those who issue the keys. A prefix is
// there where clients are known to look at it: a placeholder has to pass for a key.
#include <algorithm>
#include <array>

#include "mvm/policy/secret.h"

namespace mvm::policy {
namespace {

using P = SecretProvider;
constexpr std::string_view kBearer = "Authorization: Bearer";
constexpr std::string_view kAnthropic = "X-Api-Key|Authorization: Bearer";
constexpr std::string_view kGitHub = "api.github.com github.com uploads.github.com";
constexpr std::string_view kGoogle = "generativelanguage.googleapis.com";
constexpr std::string_view kGoogleHeaders = "X-Goog-Api-Key|Authorization: Bearer";

constexpr std::array kProviders = {
    P{"ANTHROPIC_API_KEY", "api.anthropic.com", "header", kAnthropic, "sk-ant-api03-"},
    P{"ANTHROPIC_AUTH_TOKEN", "api.anthropic.com", "header", kAnthropic, "sk-ant-oat01-"},
    P{"AZURE_DEVOPS_EXT_PAT", "dev.azure.com *.visualstudio.com", "basic", "", ""},
    P{"BRAVE_API_KEY", "api.search.brave.com", "header", "X-Subscription-Token", ""},
    P{"CEREBRAS_API_KEY", "api.cerebras.ai", "header", kBearer, "csk-"},
    P{"CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "header", kAnthropic, "sk-ant-oat01-"},
    P{"CLOUDFLARE_API_TOKEN", "api.cloudflare.com", "header", kBearer, ""},
    P{"COHERE_API_KEY", "api.cohere.com api.cohere.ai", "header", kBearer, ""},
    P{"CO_API_KEY", "api.cohere.com api.cohere.ai", "header", kBearer, ""},
    P{"DEEPSEEK_API_KEY", "api.deepseek.com", "header", kBearer, "sk-"},
    P{"DIGITALOCEAN_ACCESS_TOKEN", "api.digitalocean.com", "header", kBearer, "dop_v1_"},
    P{"ELEVENLABS_API_KEY", "api.elevenlabs.io", "header", "Xi-Api-Key", ""},
    P{"EXA_API_KEY", "api.exa.ai", "header", "X-Api-Key|Authorization: Bearer", ""},
    P{"FIREWORKS_API_KEY", "api.fireworks.ai", "header", kBearer, "fw_"},
    P{"GEMINI_API_KEY", kGoogle, "header query", kGoogleHeaders, "AIzaSy"},
    P{"GH_TOKEN", kGitHub, "", "Authorization", "ghp_"},
    P{"GITHUB_TOKEN", kGitHub, "", "Authorization", "ghp_"},
    P{"GITLAB_TOKEN", "gitlab.com", "", "Private-Token|Authorization", "glpat-"},
    P{"GOOGLE_API_KEY", kGoogle, "header query", kGoogleHeaders, "AIzaSy"},
    P{"GROQ_API_KEY", "api.groq.com", "header", kBearer, "gsk_"},
    P{"HF_TOKEN", "huggingface.co router.huggingface.co api-inference.huggingface.co", "",
      "Authorization", "hf_"},
    P{"LINEAR_API_KEY", "api.linear.app", "header", "Authorization", "lin_api_"},
    P{"MISTRAL_API_KEY", "api.mistral.ai", "header", kBearer, ""},
    P{"NOTION_TOKEN", "api.notion.com", "header", kBearer, "ntn_"},
    P{"OPENAI_API_KEY", "api.openai.com", "header", kBearer, "sk-proj-"},
    P{"OPENROUTER_API_KEY", "openrouter.ai", "header", kBearer, "sk-or-v1-"},
    P{"PERPLEXITY_API_KEY", "api.perplexity.ai", "header", kBearer, "pplx-"},
    P{"REPLICATE_API_TOKEN", "api.replicate.com", "header", "Authorization", "r8_"},
    P{"SENTRY_AUTH_TOKEN", "sentry.io *.sentry.io", "header", kBearer, "sntrys_"},
    P{"SLACK_BOT_TOKEN", "slack.com", "header", kBearer, "xoxb-"},
    P{"STRIPE_API_KEY", "api.stripe.com", "", "Authorization", "sk_test_"},
    P{"TAVILY_API_KEY", "api.tavily.com", "header", kBearer, "tvly-"},
    P{"TOGETHER_API_KEY", "api.together.xyz", "header", kBearer, ""},
    P{"VERCEL_TOKEN", "api.vercel.com", "header", kBearer, ""},
    P{"VOYAGE_API_KEY", "api.voyageai.com", "header", kBearer, "pa-"},
    P{"XAI_API_KEY", "api.x.ai", "header", kBearer, "xai-"},
};

}

std::span<const SecretProvider> secret_providers() noexcept { return kProviders; }

const SecretProvider* find_secret_provider(std::string_view name) noexcept {
  const auto found = std::ranges::find(kProviders, name, &SecretProvider::name);
  return found == kProviders.end() ? nullptr : &*found;
}

}
