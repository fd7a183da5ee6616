#include "mvm/proto/ai.h"

#include <gtest/gtest.h>

#include "mvm/proto/counters.h"
#include "mvm/proto/network.h"

namespace mvm::proto {
namespace {

AiConfig full() {
  AiConfig config;
  config.metering = true;
  config.budget = {250'000, 1, 2, 3, "2.50"};
  config.on_unknown = "refuse";
  config.reserve = config.inject_stream_usage = true;
  config.providers = {"openai", "llm.example:8443"};
  config.budgets = {"openai max_requests=5", "run max_total_tokens=7"};
  config.prices = {"gpt-4o* input=2.50 output=10"};
  return config;
}

TEST(AiConfig, IsTheSameAfterTheWay) {
  EXPECT_EQ(AiConfig::decode(full().encode()), full());
  EXPECT_EQ(AiConfig::decode(AiConfig{}.encode()), AiConfig{});
  NetworkConfig network;
  network.ai = full();
  EXPECT_EQ(NetworkConfig::decode(network.encode()), network);
  for (const bool reset : {false, true}) {
    const AiBudgetRequest request{full().budget, reset, reset ? "" : "openai"};
    EXPECT_EQ(AiBudgetRequest::decode(request.encode()), request);
  }
  EXPECT_EQ(AiBudgetRequest::decode(AiBudgetRequest{std::nullopt, true}.encode()),
            (AiBudgetRequest{std::nullopt, true}));
  const EgressCounters counters{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(EgressCounters::decode(counters.encode()), counters);
}

TEST(AiConfig, WhatIsCutOrTooLongIsNone) {
  const Bytes whole = full().encode();
  for (size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(AiConfig::decode(ByteView(whole).first(cut))) << cut;
  AiConfig longer = full();
  longer.providers.assign(kMaxAiWords + 1, "openai");
  EXPECT_FALSE(AiConfig::decode(longer.encode()));
  longer.providers = {std::string(kMaxAiText + 1, 'a')};
  EXPECT_FALSE(AiConfig::decode(longer.encode()));
}

}
}
