// Requests to providers are recognised by host and path, and nothing else is.

#include "mvm/meter/provider.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace mvm::meter {
namespace {

std::string told(std::string_view host, std::string_view method, std::string_view target,
                 uint16_t port = 443) {
  const std::vector<std::string> words{"openai",  "azure_openai", "anthropic",  "gemini",
                                       "bedrock", "mistral",      "cohere",     "deepseek",
                                       "groq",    "xai",          "openrouter", "llm.example:8443"};
  const auto call = Catalogue(words).recognise(host, port, method, target);
  if (!call) return "nothing";
  return std::string(provider_word(call->provider)) + " " +
         std::string(operation_word(call->operation)) +
         (call->model.empty() ? "" : " model=" + call->model) +
         (call->once.empty() ? "" : " once=" + call->once) +
         (call->asks_for_stream_usage ? " asks" : "");
}

TEST(Catalogue, RecognisesProvidersByHostAndPath) {
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/chat/completions"), "openai chat asks");
  EXPECT_EQ(told("eu.api.openai.com", "POST", "/v1/chat/completions"), "openai chat asks");
  EXPECT_EQ(told("API.OpenAI.com", "POST", "/v1/responses"), "openai chat");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/completions"), "openai text_completion asks");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/embeddings"), "openai embeddings");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/images/generations"), "openai media");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/something/new"), "openai other");
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/batches/batch_1"), "openai batch once=batch_1");
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/batches"), "nothing");
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/models"), "nothing");
  EXPECT_EQ(told("api.anthropic.com", "POST", "/v1/messages"), "anthropic chat");
  EXPECT_EQ(told("api.anthropic.com", "POST", "/v1/messages?beta=true"), "anthropic chat");
  EXPECT_EQ(told("api.anthropic.com", "POST", "/v1/messages/count_tokens"), "nothing");
  EXPECT_EQ(told("api.anthropic.com", "GET", "/v1/messages/batches/b1/results"),
            "anthropic batch once=b1");
  EXPECT_EQ(told("generativelanguage.googleapis.com", "POST",
                 "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
            "gemini generate_content model=gemini-2.5-pro");
  EXPECT_EQ(told("generativelanguage.googleapis.com", "POST",
                 "/v1beta/models/gemini-2.5-pro:countTokens"),
            "nothing");
  EXPECT_EQ(told("europe-west4-aiplatform.googleapis.com", "POST",
                 "/v1/projects/p/locations/l/publishers/anthropic/models/claude:rawPredict"),
            "gemini chat model=claude");
  EXPECT_EQ(told("bedrock-runtime.us-west-2.amazonaws.com", "POST",
                 "/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream"),
            "bedrock chat model=us.anthropic.claude-sonnet-4-20250514-v1:0");
  EXPECT_EQ(told("bedrock-runtime.us-west-2.amazonaws.com", "POST",
                 "/model/amazon.titan-embed-text-v2:0/invoke"),
            "bedrock embeddings model=amazon.titan-embed-text-v2:0");
  EXPECT_EQ(told("bedrock-mantle.us-west-2.api.aws", "POST", "/v1/responses"), "bedrock chat");
  EXPECT_EQ(told("bedrock-mantle.us-west-2.api.aws", "POST", "/anthropic/v1/messages"),
            "bedrock chat");
  EXPECT_EQ(told("bedrock-runtime.us-west-2.amazonaws.com", "POST", "/openai/v1/chat/completions"),
            "bedrock chat");
  EXPECT_EQ(told("generativelanguage.googleapis.com", "POST", "/v1beta/interactions"),
            "gemini generate_content");
  EXPECT_EQ(told("generativelanguage.googleapis.com", "GET", "/v1beta/interactions/v1_a"),
            "gemini generate_content once=v1_a");
  for (const char* host :
       {"europe-southwest1-aiplatform.googleapis.com", "me-west1-aiplatform.googleapis.com",
        "aiplatform.eu.rep.googleapis.com", "aiplatform.us-central1.rep.googleapis.com"})
    EXPECT_EQ(
        told(host, "POST", "/v1/projects/p/locations/l/publishers/google/models/g:generateContent"),
        "gemini generate_content model=g");
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/responses/resp_1"), "openai chat once=resp_1");
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/responses"), "nothing");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/batches/batch_1/cancel"), "openai batch");
  EXPECT_EQ(told("api.mistral.ai", "POST", "/v1/chat/completions"), "mistral chat");
  EXPECT_EQ(told("api.cohere.com", "POST", "/v2/chat"), "cohere chat");
  EXPECT_EQ(told("api.cohere.com", "POST", "/v2/rerank"), "cohere rerank");
  EXPECT_EQ(told("api.deepseek.com", "POST", "/chat/completions"), "deepseek chat asks");
  EXPECT_EQ(told("api.deepseek.com", "POST", "/anthropic/v1/messages"), "deepseek chat");
  EXPECT_EQ(told("api.groq.com", "POST", "/openai/v1/chat/completions"), "groq chat asks");
  EXPECT_EQ(told("api.x.ai", "POST", "/v1/chat/completions"), "xai chat asks");
  EXPECT_EQ(told("openrouter.ai", "POST", "/api/v1/chat/completions"), "openrouter chat");
  EXPECT_EQ(told("llm.example", "POST", "/v1/chat/completions", 8443), "compatible chat asks");
}

TEST(Catalogue, KnowsWhichOfAzuresInterfacesTakeStreamOptions) {
  const std::string path = "/openai/deployments/main/chat/completions?api-version=";
  EXPECT_EQ(told("a.openai.azure.com", "POST", path + "2023-05-15"),
            "azure_openai chat model=main");
  EXPECT_EQ(told("a.openai.azure.com", "POST", path + "2024-10-21"),
            "azure_openai chat model=main asks");
  EXPECT_EQ(told("a.openai.azure.com", "POST", "/openai/v1/chat/completions"),
            "azure_openai chat asks");
}

TEST(Catalogue, OtherHostsAndPortsAreNobodys) {
  EXPECT_EQ(told("example.com", "POST", "/v1/chat/completions"), "nothing");
  EXPECT_EQ(told("api.openai.com.evil.example", "POST", "/v1/chat/completions"), "nothing");
  EXPECT_EQ(told("api.openai.com", "POST", "/v1/chat/completions", 8080), "nothing");
  EXPECT_EQ(told("llm.example", "POST", "/v1/chat/completions", 443), "nothing");
  EXPECT_EQ(told("93.184.216.34", "POST", "/v1/chat/completions"), "nothing");
}

TEST(Catalogue, APathThatMayBeAnyIsCounted) {
  EXPECT_EQ(told("api.openai.com", "GET", "/v1/models/../chat/completions"), "openai other asks");
  EXPECT_EQ(told("api.openai.com", "POST", "//v1/chat/completions"), "openai chat asks");
  EXPECT_EQ(told("api.anthropic.com", "POST", "/v1//messages"), "anthropic chat");
  EXPECT_EQ(Catalogue().recognise("api.anthropic.com", 443, "POST", "/v1//messages")->dialect,
            Dialect::Anthropic);
}

// As servers take them that are not particular.
TEST(Catalogue, AMethodInAnyCaseAndAPathWithASlashAtItsEndAreCounted) {
  EXPECT_EQ(told("llm.example", "Post", "/v1/chat/completions/", 8443), "compatible chat asks");
  EXPECT_EQ(told("llm.example", "PROPFIND", "/v1/chat/completions", 8443), "compatible chat asks");
  EXPECT_EQ(told("api.openai.com", "get", "/v1/batches/batch_1/"), "openai batch once=batch_1");
  for (const char* method : {"HEAD", "head", "OPTIONS", "DELETE"})
    EXPECT_EQ(told("api.openai.com", method, "/v1/responses/resp_1"), "nothing") << method;
}

TEST(Catalogue, OnlyNamedProvidersAreMetered) {
  const std::vector<std::string> words{"anthropic"};
  EXPECT_TRUE(Catalogue(words).provider_of("api.anthropic.com", 443));
  EXPECT_FALSE(Catalogue(words).provider_of("api.openai.com", 443));
  EXPECT_TRUE(Catalogue().provider_of("api.openai.com", 443));
  EXPECT_EQ(Catalogue(words).hosts().size(), 1U);
}

TEST(Catalogue, ComplainsAboutWordsThatAreNone) {
  EXPECT_FALSE(provider_complaint("openai"));
  EXPECT_FALSE(provider_complaint("llm.example.com:8443"));
  EXPECT_FALSE(provider_complaint("*.llm.example.com"));
  EXPECT_TRUE(provider_complaint("opneai"));
  EXPECT_TRUE(provider_complaint("compatible"));
  EXPECT_TRUE(provider_complaint(""));
  EXPECT_TRUE(provider_complaint("https://llm.example.com/"));
}

TEST(Model, NamesAreBoundedAndPlain) {
  EXPECT_EQ(clean_model("gpt-4o"), "gpt-4o");
  EXPECT_EQ(clean_model("anthropic/claude-sonnet-4@20250514"),
            "anthropic/claude-sonnet-4@20250514");
  EXPECT_EQ(clean_model("a\"} 1\n"), "other");
  EXPECT_EQ(clean_model(""), "other");
  EXPECT_EQ(clean_model(std::string(kMaxModel, 'a')), std::string(kMaxModel, 'a'));
  EXPECT_EQ(clean_model(std::string(kMaxModel + 1, 'a')), "other");
}

}
}
