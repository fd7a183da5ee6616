// What providers report is read from every shape of answer, wherever it is cut, and what they do
// not report is unknown, never zero.

#include "mvm/meter/reader.h"

#include <string>

#include <gtest/gtest.h>

#include "fixture.h"

namespace mvm::meter {
namespace {

using Verdict = ResponseReader::Verdict;
using Result = ResponseReader::Result;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kSse = "text/event-stream; charset=utf-8";

Call call(std::string_view host, std::string_view target, std::string_view method = "POST") {
  const std::vector<std::string> words{"openai",  "azure_openai", "anthropic",  "gemini",
                                       "bedrock", "mistral",      "cohere",     "deepseek",
                                       "groq",    "xai",          "openrouter", "llm.example"};
  const auto found = Catalogue(words).recognise(host, 443, method, target);
  EXPECT_TRUE(found.has_value()) << host << target;
  return found.value_or(Call{});
}

struct Case {
  const char* file;
  const char* host;
  const char* target;
  std::string_view type;
  Usage usage;
  const char* model;
  const char* method = "POST";
};

std::vector<Case> cases() {
  const std::string_view chat = "/v1/chat/completions";
  return {
      {"openai-chat.json",
       "api.openai.com",
       chat.data(),
       kJson,
       {.input = 19, .output = 10, .total = 29, .cached = 4, .reasoning = 3},
       "gpt-4.1-2025-04-14"},
      {"openai-chat-n3-tools.json",
       "api.openai.com",
       chat.data(),
       kJson,
       {.input = 82, .output = 51, .total = 133},
       "gpt-4o-mini"},
      {"openai-chat-audio.json",
       "api.openai.com",
       chat.data(),
       kJson,
       {.input = 107, .output = 145, .total = 252, .audio_input = 90, .audio_output = 114},
       "gpt-4o-audio-preview"},
      {"openai-chat.sse",
       "api.openai.com",
       chat.data(),
       kSse,
       {.input = 9, .output = 12, .total = 21},
       "gpt-4o-mini"},
      {"openai-responses.json",
       "api.openai.com",
       "/v1/responses",
       kJson,
       {.input = 36, .output = 87, .total = 123, .cached = 8, .reasoning = 64},
       "gpt-4.1-2025-04-14"},
      {"openai-responses.sse",
       "api.openai.com",
       "/v1/responses",
       kSse,
       {.input = 37, .output = 11, .total = 48},
       "gpt-4.1-2025-04-14"},
      {"openai-embeddings.json",
       "api.openai.com",
       "/v1/embeddings",
       kJson,
       {.input = 8, .output = 0, .total = 8},
       "text-embedding-ada-002"},
      {"openai-batch.json",
       "api.openai.com",
       "/v1/batches/batch_abc123",
       kJson,
       {.input = 1500, .output = 500, .total = 2000, .cached = 1024, .reasoning = 300},
       "gpt-4o-mini",
       "GET"},
      {"openai-chat.json",
       "corp.openai.azure.com",
       "/openai/deployments/main/chat/completions?api-version=2024-10-21",
       kJson,
       {.input = 19, .output = 10, .total = 29, .cached = 4, .reasoning = 3},
       "gpt-4.1-2025-04-14"},
      // Anthropic tells no total, and does not count what is cached among the input.
      {"anthropic-message.json",
       "api.anthropic.com",
       "/v1/messages",
       kJson,
       {.input = 6197, .output = 503, .total = 6700, .cached = 2051, .cache_written = 2051},
       "claude-sonnet-4-5-20250929"},
      {"anthropic-message.sse",
       "api.anthropic.com",
       "/v1/messages",
       kSse,
       {.input = 10, .output = 15, .total = 25, .cached = 1},
       "claude-opus-4-1-20250805"},
      {"anthropic-cache-in-delta.sse",
       "api.anthropic.com",
       "/v1/messages",
       kSse,
       {.input = 8849, .output = 89, .total = 8938, .cached = 8831},
       "claude-sonnet-4-5-20250929"},
      // What shortened the conversation, and what another model advised, is in the steps alone.
      {"anthropic-compaction.json",
       "api.anthropic.com",
       "/v1/messages",
       kJson,
       {.input = 203000, .output = 4500, .total = 207500},
       "claude-opus-4-6"},
      {"anthropic-compaction.json",
       "bedrock-runtime.eu-west-1.amazonaws.com",
       "/model/eu.anthropic.claude-opus-4-6-v1/invoke",
       kJson,
       {.input = 203000, .output = 4500, .total = 207500},
       "claude-opus-4-6"},
      {"anthropic-advisor.sse",
       "api.anthropic.com",
       "/v1/messages",
       kSse,
       {.input = 2995, .output = 2143, .total = 5138, .cached = 412},
       "claude-sonnet-4-6"},
      {"anthropic-message.sse",
       "bedrock-runtime.us-east-1.amazonaws.com",
       "/anthropic/v1/messages",
       kSse,
       {.input = 10, .output = 15, .total = 25, .cached = 1},
       "claude-opus-4-1-20250805"},
      {"openai-responses.sse",
       "bedrock-mantle.us-east-1.api.aws",
       "/v1/responses",
       kSse,
       {.input = 37, .output = 11, .total = 48},
       "gpt-4.1-2025-04-14"},
      {"anthropic-batch.jsonl",
       "api.anthropic.com",
       "/v1/messages/batches/msgbatch_1/results",
       "application/x-jsonl",
       {.input = 26, .output = 70, .total = 96, .cached = 5},
       "",
       "GET"},
      {"gemini.json",
       "generativelanguage.googleapis.com",
       "/v1beta/models/gemini-2.5-flash:generateContent",
       kJson,
       {.input = 15, .output = 27, .total = 42, .cached = 4, .reasoning = 20},
       "gemini-2.5-flash"},
      {"gemini-stream.json",
       "generativelanguage.googleapis.com",
       "/v1beta/models/gemini-2.0-flash:streamGenerateContent",
       kJson,
       {.input = 8, .output = 5, .total = 13},
       "gemini-2.0-flash"},
      {"gemini.sse",
       "us-central1-aiplatform.googleapis.com",
       "/v1/projects/p/locations/us-central1/publishers/google/models/"
       "gemini-2.0-flash:streamGenerateContent?alt=sse",
       kSse,
       {.input = 8, .output = 35, .total = 43, .reasoning = 30},
       "gemini-2.0-flash"},
      {"gemini-interaction.json",
       "generativelanguage.googleapis.com",
       "/v1beta/interactions",
       kJson,
       {.input = 3901, .output = 335, .total = 4236, .cached = 1024, .reasoning = 278},
       "gemini-3-flash-preview"},
      {"gemini-interaction.sse",
       "aiplatform.googleapis.com",
       "/v1beta1/projects/p/locations/global/interactions",
       kSse,
       {.input = 7, .output = 12, .total = 19},
       "gemini-3-flash-preview"},
      {"gemini-blocked.json",
       "generativelanguage.googleapis.com",
       "/v1beta/models/gemini-2.5-flash:generateContent",
       kJson,
       {.input = 12, .output = 0, .total = 12},
       "gemini-2.5-flash"},
      {"gemini-openai.json",
       "generativelanguage.googleapis.com",
       "/v1beta/openai/chat/completions",
       kJson,
       {.input = 758, .output = 967, .total = 1725},
       "gemini-2.5-pro"},
      {"bedrock-converse.json",
       "bedrock-runtime.us-east-1.amazonaws.com",
       "/model/anthropic.claude-3-haiku-20240307-v1:0/converse",
       kJson,
       {.input = 180, .output = 628, .total = 808, .cached = 100, .cache_written = 50},
       ""},
      {"bedrock-llama.json",
       "bedrock-runtime.us-east-1.amazonaws.com",
       "/model/meta.llama3-8b-instruct-v1:0/invoke",
       kJson,
       {.input = 15, .output = 4, .total = 19},
       ""},
      {"anthropic-message.json",
       "bedrock-runtime.eu-west-1.amazonaws.com",
       "/model/eu.anthropic.claude-sonnet-4-20250514-v1:0/invoke",
       kJson,
       {.input = 6197, .output = 503, .total = 6700, .cached = 2051, .cache_written = 2051},
       "claude-sonnet-4-5-20250929"},
      {"mistral.json",
       "api.mistral.ai",
       chat.data(),
       kJson,
       {.input = 16, .output = 34, .total = 50},
       "mistral-small-latest"},
      {"cohere-chat.json",
       "api.cohere.com",
       "/v2/chat",
       kJson,
       {.input = 5, .output = 418, .total = 423},
       ""},
      {"cohere-chat.sse",
       "api.cohere.com",
       "/v2/chat",
       kSse,
       {.input = 3, .output = 13, .total = 16},
       ""},
      {"cohere-v1.ndjson",
       "api.cohere.com",
       "/v1/chat",
       "application/stream+json",
       {.input = 69, .output = 42, .total = 111},
       ""},
      {"cohere-embed.json", "api.cohere.com", "/v2/embed", kJson, {.input = 2, .total = 2}, ""},
      {"cohere-rerank.json", "api.cohere.com", "/v2/rerank", kJson, {}, ""},
      {"deepseek.json",
       "api.deepseek.com",
       "/chat/completions",
       kJson,
       {.input = 160, .output = 40, .total = 200, .cached = 128, .reasoning = 31},
       "deepseek-reasoner"},
      {"groq.sse",
       "api.groq.com",
       "/openai/v1/chat/completions",
       kSse,
       {.input = 24, .output = 377, .total = 401},
       "llama-3.3-70b-versatile"},
      {"groq-twice.sse",
       "api.groq.com",
       "/openai/v1/chat/completions",
       kSse,
       {.input = 24, .output = 377, .total = 401},
       "llama-3.3-70b-versatile"},
      // Its reasoning is not among the completion, but in the total.
      {"xai.json",
       "api.x.ai",
       chat.data(),
       kJson,
       {.input = 32, .output = 103, .total = 135, .cached = 6, .reasoning = 94},
       "grok-4"},
      {"openrouter.sse",
       "openrouter.ai",
       "/api/v1/chat/completions",
       kSse,
       {.input = 194, .output = 2, .total = 196, .cache_written = 100, .cost = 950'000},
       "openai/gpt-4o"},
      {"ollama.ndjson",
       "llm.example",
       "/api/chat",
       "application/x-ndjson",
       {.input = 26, .output = 282, .total = 308},
       "llama3.2"},
      {"vllm-continuous.sse",
       "llm.example",
       chat.data(),
       kSse,
       {.input = 7, .output = 2, .total = 9},
       "my-model"},
  };
}

TEST(ResponseReader, ReadsEveryProvidersUsageWhereverItIsCut) {
  for (const Case& one : cases()) {
    const std::string body = fixture(one.file);
    const Call to = call(one.host, one.target, one.method);
    for (const size_t step :
         {body.size(), size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}}) {
      Result result = read_answer(to, head_of(one.type), body, step);
      result.once.clear();  // stored_test.cc
      EXPECT_EQ(result, (Result{Verdict::Reported, one.usage, one.model, false, ""}))
          << one.file << " in pieces of " << step;
    }
  }
}

TEST(ResponseReader, ReadsAStreamCutInTwoAtEveryByte) {
  for (const char* file : {"anthropic-message.sse", "openai-chat.sse", "gemini.sse"}) {
    const std::string body = fixture(file);
    for (const Case& one : cases()) {
      if (one.file != std::string_view(file)) continue;
      const Call to = call(one.host, one.target);
      for (size_t cut = 0; cut <= body.size(); ++cut) {
        ResponseReader reader(to);
        reader.head(head_of(kSse));
        reader.feed(std::string_view(body).substr(0, cut));
        reader.feed(std::string_view(body).substr(cut));
        reader.finish(true);
        ASSERT_EQ(reader.result().usage, one.usage) << file << " cut at " << cut;
      }
    }
  }
}

TEST(ResponseReader, FindsTheFramingWithoutAContentType) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  EXPECT_EQ(read_answer(to, head_of(""), fixture("openai-chat.sse"), 5).usage.total, 21U);
  EXPECT_EQ(read_answer(to, head_of(""), fixture("openai-chat.json"), 5).usage.total, 29U);
  EXPECT_EQ(read_answer(to, head_of("text/plain"), fixture("openai-chat.sse")).usage.total, 21U);
}

TEST(ResponseReader, LineEndsOfAStreamMayBeAny) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  for (const char* line_end : {"\r\n", "\r", "\n"}) {
    std::string body;
    for (const char c : fixture("openai-chat.sse")) c == '\n' ? body += line_end : body += c;
    for (const size_t step : {size_t{1}, body.size()})
      EXPECT_EQ(read_answer(to, head_of(kSse), body, step).usage.total, 21U);
  }
  // Data over several lines is one document.
  EXPECT_EQ(read_answer(to, head_of(kSse),
                        "data: {\"usage\": {\"prompt_tokens\": 1,\ndata: \"completion_tokens\": 2}}"
                        "\n\ndata: [DONE]\n\n")
                .usage.total,
            3U);
}

// ---- Bedrock's framing

std::string converse_stream() {
  return aws_message("messageStart", R"({"p":"abc","role":"assistant"})") +
         aws_message("contentBlockDelta", R"({"contentBlockIndex":0,"delta":{"text":"Hi"}})") +
         aws_message("messageStop", R"({"stopReason":"end_turn"})") +
         aws_message("metadata",
                     R"({"metrics":{"latencyMs":1275},"usage":{"inputTokens":30,"outputTokens":62,)"
                     R"("totalTokens":92,"cacheReadInputTokens":8}})");
}

std::string invoke_stream() {
  const auto chunk = [](std::string_view text) {
    return aws_message("chunk", R"({"bytes":")" + base64(text) + R"(","p":"abcd"})");
  };
  return chunk(R"({"type":"message_start","message":{"model":"claude-3","usage":{)"
               R"("input_tokens":7,"output_tokens":1}}})") +
         chunk(R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{)"
               R"("output_tokens":126}})") +
         chunk(R"({"type":"message_stop","amazon-bedrock-invocationMetrics":{)"
               R"("inputTokenCount":7,"outputTokenCount":126,"invocationLatency":4069,)"
               R"("firstByteLatency":1117,"cacheReadInputTokenCount":14486,)"
               R"("cacheWriteInputTokenCount":2238}})");
}

constexpr std::string_view kAws = "application/vnd.amazon.eventstream";

TEST(ResponseReader, ReadsBedrocksStreams) {
  const Call converse = call("bedrock-runtime.us-east-1.amazonaws.com",
                             "/model/anthropic.claude-3-haiku-20240307-v1:0/converse-stream");
  const Call invoke =
      call("bedrock-runtime.us-east-1.amazonaws.com",
           "/model/anthropic.claude-3-haiku-20240307-v1:0/invoke-with-response-stream");
  for (const size_t step : {size_t{1}, size_t{2}, size_t{5}, size_t{4096}}) {
    EXPECT_EQ(
        read_answer(converse, head_of(kAws), converse_stream(), step),
        (Result{
            Verdict::Reported, {.input = 38, .output = 62, .total = 100, .cached = 8}, "", false}));
    EXPECT_EQ(
        read_answer(invoke, head_of(kAws), invoke_stream(), step),
        (Result{
            Verdict::Reported,
            {.input = 16731, .output = 126, .total = 16857, .cached = 14486, .cache_written = 2238},
            "claude-3",
            false}));
  }
}

TEST(ResponseReader, BedrocksFramingIsCheckedAndBounded) {
  const Call to = call("bedrock-runtime.us-east-1.amazonaws.com", "/model/m/converse-stream");
  std::string body = converse_stream();
  body[9] = static_cast<char>(body[9] ^ 1);  // the first checksum
  EXPECT_EQ(read_answer(to, head_of(kAws), body).verdict, Verdict::Unknown);
  const std::string lengths = big_endian(0xffffffffU) + big_endian(8);
  EXPECT_EQ(read_answer(to, head_of(kAws), lengths + big_endian(slow_crc32(lengths))).verdict,
            Verdict::Unknown);
  for (const uint32_t total : {0U, 12U, 15U, 16U}) {
    const std::string small = big_endian(total) + big_endian(1);
    EXPECT_EQ(read_answer(to, head_of(kAws), small + big_endian(slow_crc32(small))).verdict,
              Verdict::Unknown);
  }
  const std::string cut = converse_stream();
  EXPECT_EQ(read_answer(to, head_of(kAws), cut.substr(0, cut.size() - 150)).verdict,
            Verdict::Unknown);
}

TEST(ResponseReader, BedrocksHeadersSayWhatWasUsed) {
  const Call to = call("bedrock-runtime.us-east-1.amazonaws.com", "/model/amazon.titan/invoke");
  http::ResponseHead head = head_of(kJson);
  head.headers.push_back({"X-Amzn-Bedrock-Input-Token-Count", "11"});
  head.headers.push_back({"X-Amzn-Bedrock-Output-Token-Count", "22"});
  head.headers.push_back({"X-Amzn-Bedrock-Cache-Read-Input-Token-Count", "5"});
  EXPECT_EQ(read_answer(to, head, R"({"inputTextTokenCount":999,"results":[]})").usage,
            (Usage{.input = 16, .output = 22, .total = 38, .cached = 5}));
}

// ---- unknown

TEST(ResponseReader, AStreamWithoutUsageIsUnknownAndNotZero) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  EXPECT_EQ(read_answer(to, head_of(kSse), fixture("openai-chat-no-usage.sse")).verdict,
            Verdict::Unknown);
  EXPECT_EQ(read_answer(to, head_of(kJson), R"({"id":"x","choices":[],"usage":null})").verdict,
            Verdict::Unknown);
  EXPECT_EQ(read_answer(to, head_of(kJson), "").verdict, Verdict::Unknown);
}

TEST(ResponseReader, AnExplicitZeroIsReported) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  const Result result =
      read_answer(to, head_of(kJson),
                  R"({"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}})");
  EXPECT_EQ(result.verdict, Verdict::Reported);
  EXPECT_EQ(result.usage, Usage{});
}

TEST(ResponseReader, AnAbortedStreamIsUnknownAndAtLeastWhatWasSaid) {
  const Call to = call("api.anthropic.com", "/v1/messages");
  const std::string body = fixture("anthropic-message.sse");
  const std::string begun = body.substr(0, body.find("event: message_delta"));
  for (const bool whole : {false, true}) {
    const Result result = read_answer(to, head_of(kSse), begun, 100, whole);
    EXPECT_EQ(result.verdict, Verdict::Unknown) << whole;
    EXPECT_EQ(result.usage.input, 10U);
    EXPECT_EQ(result.usage.output, 1U);
  }
  // The last word was there: what the client did after it changes nothing.
  const std::string told = body.substr(0, body.find("event: message_stop"));
  EXPECT_EQ(read_answer(to, head_of(kSse), told, 100, false).verdict, Verdict::Reported);
}

TEST(ResponseReader, ContinuousUsageOfAnAbortedStreamIsNoLastWord) {
  const Call to = call("llm.example", "/v1/chat/completions");
  const std::string body = fixture("vllm-continuous.sse");
  const std::string begun = body.substr(0, body.find("data: {\"id\"", 10));
  const Result result = read_answer(to, head_of(kSse), begun, 100, false);
  EXPECT_EQ(result.verdict, Verdict::Unknown);
  EXPECT_EQ(result.usage.total, 8U);
}

TEST(ResponseReader, AnErrorWithinAStreamIsUnknown) {
  EXPECT_EQ(read_answer(call("api.anthropic.com", "/v1/messages"), head_of(kSse),
                        fixture("anthropic-error-in-stream.sse"))
                .verdict,
            Verdict::Unknown);
}

TEST(ResponseReader, ErrorsUseNothingUp) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  for (const unsigned status : {400U, 401U, 429U, 500U, 529U})
    EXPECT_EQ(read_answer(to, head_of(kJson, status), fixture("openai-error.json")).verdict,
              Verdict::Nothing);
  EXPECT_EQ(read_answer(to, head_of("text/html", 502), "<html>Bad Gateway</html>").verdict,
            Verdict::Nothing);
  EXPECT_EQ(read_answer(to, head_of("", 503), "").verdict, Verdict::Nothing);
  // Unless one says otherwise.
  EXPECT_EQ(read_answer(to, head_of(kJson, 400),
                        R"({"error":{},"usage":{"prompt_tokens":3,"completion_tokens":0}})")
                .usage.total,
            3U);
}

TEST(ResponseReader, CountsThatAreNoneAreNotBelieved) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  for (const char* count : {"-1", "1.5", "1e3", "18446744073709551616", "2000000000000"}) {
    const Result result = read_answer(
        to, head_of(kJson),
        R"({"usage":{"prompt_tokens":5,"completion_tokens":)" + std::string(count) + "}}");
    EXPECT_EQ(result.verdict, Verdict::Unknown) << count;
    EXPECT_TRUE(result.bad) << count;
    EXPECT_EQ(result.usage.input, 5U);
  }
  EXPECT_EQ(
      read_answer(to, head_of(kJson), R"({"usage":{"prompt_tokens":"5","completion_tokens":"6"}})")
          .verdict,
      Verdict::Unknown);
}

TEST(ResponseReader, OnlyTheUsageOfTheAnswerItselfCounts) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  EXPECT_EQ(read_answer(to, head_of(kJson),
                        R"({"choices":[{"usage":{"prompt_tokens":9,"completion_tokens":9}}],)"
                        R"("usage.prompt_tokens":9,"a":{"usage":{"prompt_tokens":9}}})")
                .verdict,
            Verdict::Unknown);
  // Of two, the last.
  EXPECT_EQ(read_answer(to, head_of(kJson),
                        R"({"usage":{"prompt_tokens":9,"completion_tokens":9},)"
                        R"("usage":{"prompt_tokens":2,"completion_tokens":3}})")
                .usage.total,
            5U);
}

TEST(ResponseReader, ABatchThatRunsHasUsedNothingYet) {
  EXPECT_EQ(read_answer(call("api.openai.com", "/v1/batches/batch_abc123", "GET"), head_of(kJson),
                        fixture("openai-batch-running.json"))
                .verdict,
            Verdict::Nothing);
}

TEST(ResponseReader, ReadsAHugeAnswerInBoundedMemory) {
  const Call to = call("api.openai.com", "/v1/embeddings");
  ResponseReader reader(to);
  reader.head(head_of(kJson));
  reader.feed(R"({"data":[{"embedding":")");
  const std::string piece(64 * 1024, 'A');
  for (int i = 0; i < 512; ++i) reader.feed(piece);
  reader.feed("\"},");
  for (int i = 0; i < 100'000; ++i) reader.feed(R"({"embedding":[0.0023064255,-0.009327292]},)");
  reader.feed(R"({}],"usage":{"prompt_tokens":8,"total_tokens":8}})");
  reader.finish(true);
  EXPECT_EQ(reader.result().usage.total, 8U);
}

TEST(ResponseReader, WhatIsNoJsonIsUnknown) {
  const Call to = call("api.openai.com", "/v1/chat/completions");
  const std::string deep(2000, '[');
  for (const std::string& body :
       {std::string("<html>"), std::string("{]"), std::string("{\"usage\":{\"prompt_tokens\":1"),
        deep, deep + R"({"usage":{"prompt_tokens":1,"completion_tokens":1}})"})
    EXPECT_EQ(read_answer(to, head_of(kJson), body).verdict, Verdict::Unknown)
        << body.substr(0, 40);
}

// ---- requests

RequestFacts read_request(std::string_view body, size_t step = 3) {
  RequestReader reader;
  for (size_t at = 0; at < body.size(); at += step) reader.feed(body.substr(at, step));
  reader.finish();
  return reader.facts();
}

TEST(RequestReader, ReadsWhatARequestMayUse) {
  const RequestFacts chat = read_request(
      R"({"model":"gpt-4o","stream":true,"n":3,"max_completion_tokens":500,"messages":[{"n":9}]})");
  EXPECT_EQ(chat.model, "gpt-4o");
  EXPECT_TRUE(chat.stream);
  EXPECT_EQ(chat.include_usage, std::nullopt);
  EXPECT_EQ(chat.bytes, 87U);
  EXPECT_EQ(bounds_of(chat), (Bounds{87, 1500}));
  EXPECT_EQ(bounds_of(read_request("{}")), (Bounds{2, kAssumedOutput}));
  EXPECT_EQ(read_request(R"({"stream_options":{"include_usage":false}})").include_usage, false);
  EXPECT_EQ(
      read_request(R"({"generationConfig":{"maxOutputTokens":7,"candidateCount":2}})").max_output,
      7U);
  EXPECT_EQ(read_request(R"({"inferenceConfig":{"maxTokens":64}})").max_output, 64U);
  EXPECT_EQ(read_request(R"({"inferenceConfig":{"max_new_tokens":65}})").max_output, 65U);
  EXPECT_FALSE(read_request("model=gpt-4o").readable);
  // A name is what it means, however it is written.
  const RequestFacts written = read_request(
      R"({"m\u0061x_tokens":70000,"str\u0065am":true,"\u006e":2,"mod\/el":"x","\u00e9":1,"a\u":1})");
  EXPECT_EQ(written.max_output, 70000U);
  EXPECT_EQ(written.answers, 2U);
  EXPECT_TRUE(written.stream);
  EXPECT_EQ(written.model, "");
  EXPECT_EQ(bounds_of(read_request(R"({"max_tokens":999999999999,"n":999999999999})")).output,
            kMaxCount);
}

}
}
