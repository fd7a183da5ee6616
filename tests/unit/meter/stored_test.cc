// Answers that are made while nobody waits, and kept by the provider to be asked for: what they
// used is unknown when they are begun, and counts once however often they are asked for.
#include <string>

#include <gtest/gtest.h>

#include "mvm/meter/reader.h"

#include "fixture.h"

namespace mvm::meter {
namespace {

using Verdict = ResponseReader::Verdict;
using Result = ResponseReader::Result;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kSse = "text/event-stream";

Call call(std::string_view host, std::string_view method, std::string_view target) {
  const auto found = Catalogue().recognise(host, 443, method, target);
  EXPECT_TRUE(found.has_value()) << host << target;
  return found.value_or(Call{});
}

std::string background(std::string_view status) {
  std::string text = fixture("openai-background-queued.json");
  return text.replace(text.find("STATUS"), 6, status);
}

TEST(StoredAnswers, WhatRunsInTheBackgroundIsUnknownAndNotNothing) {
  const Call made = call("api.openai.com", "POST", "/v1/responses");
  for (const char* status : {"queued", "in_progress"}) {
    const Result result = read_answer(made, head_of(kJson), background(status));
    EXPECT_EQ(result.verdict, Verdict::Unknown) << status;
    EXPECT_EQ(result.once, "resp_abc123xyz");
  }
  const Result researched =
      read_answer(call("generativelanguage.googleapis.com", "POST", "/v1beta/interactions"),
                  head_of(kJson), fixture("gemini-interaction-running.json"));
  EXPECT_EQ(researched.verdict, Verdict::Unknown);
  EXPECT_EQ(researched.once, "v1_abc123");
}

TEST(StoredAnswers, WhoAsksForOneIsToldWhatItUsed) {
  for (const auto& [host, path] : std::initializer_list<std::pair<const char*, const char*>>{
           {"api.openai.com", "/v1/responses/resp_abc123xyz"},
           {"corp.openai.azure.com", "/openai/v1/responses/resp_abc123xyz"},
           {"bedrock-mantle.us-east-1.api.aws", "/v1/responses/resp_abc123xyz"}}) {
    const Call asked = call(host, "GET", path);
    EXPECT_EQ(asked.once, "resp_abc123xyz");
    for (const char* status : {"queued", "in_progress"})
      EXPECT_EQ(read_answer(asked, head_of(kJson), background(status)).verdict, Verdict::Nothing);
    const Result done =
        read_answer(asked, head_of(kJson), fixture("openai-background-done.json"), 7);
    EXPECT_EQ(done.verdict, Verdict::Reported);
    EXPECT_EQ(done.usage.total, 2067U);
    EXPECT_EQ(done.once, "resp_abc123xyz");
  }
  const Call asked =
      call("generativelanguage.googleapis.com", "GET", "/v1beta/interactions/v1_abc123");
  EXPECT_EQ(read_answer(asked, head_of(kJson), fixture("gemini-interaction-running.json")).verdict,
            Verdict::Nothing);
  EXPECT_EQ(read_answer(asked, head_of(kJson), fixture("gemini-interaction.json")).usage.total,
            4236U);
  EXPECT_EQ(read_answer(asked, head_of(kSse), fixture("gemini-interaction.sse")).usage.total, 19U);
}

// One that was made while its client waited has been counted then.
TEST(StoredAnswers, AnOldAnswerIsNotCountedAgain) {
  const Call asked = call("api.openai.com", "GET", "/v1/responses/resp_67ccd2bed1ec8190");
  EXPECT_EQ(read_answer(asked, head_of(kJson), fixture("openai-responses.json")).verdict,
            Verdict::Nothing);
  EXPECT_EQ(read_answer(asked, head_of(kSse), fixture("openai-responses.sse")).verdict,
            Verdict::Nothing);
  const Result made = read_answer(call("api.openai.com", "POST", "/v1/responses"), head_of(kJson),
                                  fixture("openai-responses.json"));
  EXPECT_EQ(made.verdict, Verdict::Reported);
  EXPECT_EQ(made.once, "");
  // Gemini's do not tell the two apart: there both ways have the same name.
  const Result interaction =
      read_answer(call("generativelanguage.googleapis.com", "POST", "/v1beta/interactions"),
                  head_of(kJson), fixture("gemini-interaction.json"));
  EXPECT_EQ(interaction.once, "v1_abc123");
}

TEST(StoredAnswers, XaisDeferredOnesAreKnownWhenTheyAreThere) {
  const Call made = call("api.x.ai", "POST", "/v1/chat/completions");
  EXPECT_EQ(read_answer(made, head_of(kJson), R"({"request_id":"aca259"})").verdict,
            Verdict::Unknown);
  const Call asked = call("api.x.ai", "GET", "/v1/chat/deferred-completion/aca259");
  EXPECT_EQ(asked.once, "aca259");
  EXPECT_EQ(read_answer(asked, head_of("", 202), "").verdict, Verdict::Nothing);
  EXPECT_EQ(read_answer(asked, head_of(kJson), fixture("xai.json")).usage.total, 135U);
}

// Whose results nobody can be asked for here.
TEST(StoredAnswers, ABatchOrRunWhoseAnswerDoesNotTellIsUnknown) {
  for (const auto& [host, path] : std::initializer_list<std::pair<const char*, const char*>>{
           {"generativelanguage.googleapis.com",
            "/v1beta/models/gemini-2.5-flash:batchGenerateContent"},
           {"api.mistral.ai", "/v1/batch/jobs"},
           {"corp.openai.azure.com", "/openai/v1/threads/thread_1/runs"}})
    EXPECT_EQ(
        read_answer(call(host, "POST", path), head_of(kJson), R"({"name":"batches/1"})").verdict,
        Verdict::Unknown)
        << host;
  EXPECT_EQ(read_answer(call("api.openai.com", "POST", "/v1/batches"), head_of(kJson),
                        fixture("openai-batch-running.json"))
                .verdict,
            Verdict::Nothing);
}

}
}
