// Budgets: the answer that crosses one passes, the next request is refused, and what is not known
// is not nothing.

#include "mvm/meter/ledger.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/meter/journal.h"

namespace mvm::meter {
namespace {

using Verdict = ResponseReader::Verdict;

ResponseReader::Result used(uint64_t input, uint64_t output, std::string model = "m") {
  return {Verdict::Reported,
          {.input = input, .output = output, .total = input + output},
          std::move(model),
          false};
}

struct Kept {
  std::vector<Record> records;
  bool full = false;
};

Ledger ledger(Terms terms, Kept& kept, Account account = {}) {
  return {std::move(terms), std::move(account), [&kept](const Record& record, const Account&) {
            if (!kept.full) kept.records.push_back(record);
            return !kept.full;
          }};
}

// Lets one out and charges it; what it was refused for, or "".
std::string spend(Ledger& budget, const ResponseReader::Result& result, Bounds bounds = {},
                  Provider provider = Provider::OpenAi) {
  uint64_t id = 0;
  if (const auto denial = budget.admit(provider, bounds, id)) return denial->budget;
  if (const auto denial = budget.bound(id, bounds)) return denial->budget;
  budget.settle(id, result);
  return "";
}

TEST(Ledger, TheAnswerThatCrossesPassesAndTheNextRequestIsRefused) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 100}}, kept);
  EXPECT_EQ(spend(budget, used(40, 10)), "");
  EXPECT_EQ(spend(budget, used(40, 9)), "");
  EXPECT_EQ(spend(budget, used(400, 100)), "");  // 99 were used
  uint64_t id = 0;
  const auto denial = budget.admit(Provider::OpenAi, {}, id);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->budget, "max_total_tokens");
  EXPECT_EQ(denial->limit, 100U);
  EXPECT_EQ(denial->used, 599U);
  EXPECT_EQ(denial->message,
            "the sandbox's AI budget is used up: max_total_tokens is 100, and 599 is used");
  EXPECT_EQ(budget.account().sum().requests, 3U);
  EXPECT_EQ(budget.account().sum().refused, 1U);
}

TEST(Ledger, EveryLimitIsOneOfItsOwn) {
  Kept kept;
  Ledger input = ledger({.budget = {.input_tokens = 10}}, kept);
  EXPECT_EQ(spend(input, used(10, 500)), "");
  EXPECT_EQ(spend(input, used(0, 0)), "max_input_tokens");
  Ledger output = ledger({.budget = {.output_tokens = 10}}, kept);
  EXPECT_EQ(spend(output, used(500, 9)), "");
  EXPECT_EQ(spend(output, used(500, 1)), "");
  EXPECT_EQ(spend(output, used(0, 0)), "max_output_tokens");
  Ledger requests = ledger({.budget = {.requests = 2}}, kept);
  EXPECT_EQ(spend(requests, used(1, 1)), "");
  EXPECT_EQ(spend(requests, {Verdict::Nothing, {}, {}, false}), "");
  EXPECT_EQ(spend(requests, used(1, 1)), "max_requests");
  Ledger none = ledger({}, kept);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(spend(none, used(kMaxCount, kMaxCount)), "");
}

TEST(Ledger, AnthropicsTotalCountsAlthoughItTellsNone) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 25}}, kept);
  ResponseReader reader({Provider::Anthropic, Dialect::Anthropic, Operation::Chat, "", "", false});
  http::ResponseHead head;
  head.status = 200;
  reader.head(head);
  reader.feed(R"({"model":"claude","usage":{"input_tokens":10,"output_tokens":15}})");
  reader.finish(true);
  EXPECT_EQ(spend(budget, reader.result()), "");
  EXPECT_EQ(spend(budget, {}), "max_total_tokens");
}

TEST(Ledger, MoneyNeedsPrices) {
  Kept kept;
  const PriceTable prices({{.model = "gpt-4o",
                            .input = parse_price("2.50").value(),
                            .output = parse_price("10").value(),
                            .cached = parse_price("1.25")},
                           {.model = "claude-*",
                            .input = parse_price("3").value(),
                            .output = parse_price("15").value()}});
  EXPECT_EQ(
      prices.cost("gpt-4o",
                  {.input = 1'000'000, .output = 100'000, .total = 1'100'000, .cached = 400'000}),
      1'500'000'000U + 500'000'000U + 1'000'000'000U);
  EXPECT_EQ(prices.cost("claude-opus", {.input = 1, .output = 0, .total = 1}), 3000U);
  EXPECT_EQ(prices.cost("gpt-4o-mini", {.input = 1}), std::nullopt);
  EXPECT_EQ(prices.cost("gpt-4o-mini", {.input = 1, .cost = 7}), 7U);
  EXPECT_EQ(prices.dearest(0, 1), 15'000U);
  EXPECT_EQ(parse_price("0.0375"), 37'500U);
  EXPECT_EQ(parse_price("-1"), std::nullopt);
  EXPECT_EQ(parse_price("1e-9"), std::nullopt);
  EXPECT_EQ(format_dollars(1'500'000'000), "1.50");
  EXPECT_EQ(format_dollars(12'345), "0.000012345");

  Ledger budget = ledger({.budget = {.cost = 1'000'000'000}, .prices = prices}, kept);
  EXPECT_EQ(spend(budget, used(400'000, 0, "gpt-4o")), "");
  EXPECT_EQ(spend(budget, used(0, 0, "gpt-4o")), "max_cost");
  EXPECT_EQ(budget.account().sum().cost, 1'000'000'000U);
}

TEST(Ledger, AModelWithoutAPriceIsChargedTheDearestOrRefused) {
  Kept kept;
  const PriceTable prices({{.model = "a", .input = 1000, .output = 2000}});
  Ledger estimate =
      ledger({.budget = {.cost = 5}, .on_unknown = OnUnknown::Estimate, .prices = prices}, kept);
  EXPECT_EQ(spend(estimate, used(1, 2, "b")), "");
  EXPECT_EQ(estimate.account().spent.cost, 5U);
  EXPECT_EQ(spend(estimate, {}), "max_cost");
  Ledger refuse =
      ledger({.budget = {.cost = 5}, .on_unknown = OnUnknown::Refuse, .prices = prices}, kept);
  EXPECT_EQ(spend(refuse, used(1, 2, "b")), "");
  EXPECT_EQ(spend(refuse, {}), "on_unknown");
}

TEST(Ledger, UnknownIsCountedEstimatedOrRefused) {
  const ResponseReader::Result unknown{
      Verdict::Unknown, {.input = 10, .output = 1, .total = 11}, "m", false};
  Kept kept;
  Ledger count = ledger({.budget = {.total_tokens = 100}}, kept);
  EXPECT_EQ(spend(count, unknown, {50, 200}), "");
  EXPECT_EQ(count.account().spent.total, 11U);
  EXPECT_EQ(count.account().spent.unknown, 1U);
  EXPECT_EQ(spend(count, unknown, {50, 200}), "");

  Ledger estimate =
      ledger({.budget = {.total_tokens = 100}, .on_unknown = OnUnknown::Estimate}, kept);
  EXPECT_EQ(spend(estimate, unknown, {50, 200}), "");
  EXPECT_EQ(estimate.account().spent.total, 250U);
  EXPECT_EQ(estimate.account().spent.input, 50U);
  // What was reported stays apart from what was guessed.
  EXPECT_EQ(estimate.account().sum().total, 11U);
  EXPECT_EQ(estimate.account().sum().estimated, 239U);
  EXPECT_EQ(spend(estimate, unknown), "max_total_tokens");

  Ledger refuse = ledger({.on_unknown = OnUnknown::Refuse}, kept);
  EXPECT_EQ(spend(refuse, unknown, {50, 200}), "");
  EXPECT_EQ(spend(refuse, unknown, {50, 200}), "on_unknown");
  EXPECT_TRUE(refuse.reset());
  EXPECT_EQ(spend(refuse, unknown, {50, 200}), "");
}

TEST(Ledger, WithoutReservationOnlyThoseUnderWayOvershoot) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 1000}}, kept);
  std::vector<uint64_t> ids(50);
  for (uint64_t& id : ids) {
    ASSERT_FALSE(budget.admit(Provider::OpenAi, {100, 400}, id));
    ASSERT_FALSE(budget.bound(id, {100, 400}));
  }
  for (const uint64_t id : ids) budget.settle(id, used(100, 400));
  EXPECT_EQ(spend(budget, {}), "max_total_tokens");
  EXPECT_EQ(budget.account().spent.total, 25'000U);
}

TEST(Ledger, ReservationBoundsThoseUnderWay) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 1000}, .reserve = true}, kept);
  std::vector<uint64_t> out;
  for (int i = 0; i < 50; ++i) {
    uint64_t id = 0;
    ASSERT_FALSE(budget.admit(Provider::OpenAi, {100, 0}, id));
    const auto denial = budget.bound(id, {100, 400});
    if (!denial) {
      out.push_back(id);
      continue;
    }
    EXPECT_EQ(denial->budget, "max_total_tokens");
    EXPECT_TRUE(denial->reserved);
  }
  ASSERT_EQ(out.size(), 2U);
  for (const uint64_t id : out) budget.settle(id, used(50, 50));
  EXPECT_EQ(budget.account().spent.total, 200U);
  EXPECT_TRUE(budget.account().open.empty());
  // What was reserved and not used is there again; alone, one may always go.
  EXPECT_EQ(spend(budget, used(10, 10), {100'000, 400}), "");
}

TEST(Ledger, WhatIsRefusedByReservationIsNoRequest) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 1000, .requests = 3}, .reserve = true}, kept);
  uint64_t first = 0;
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, first));
  ASSERT_FALSE(budget.bound(first, {0, 900}));
  for (int i = 0; i < 10; ++i) {
    uint64_t id = 0;
    ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
    EXPECT_TRUE(budget.bound(id, {0, 900}));
  }
  EXPECT_EQ(budget.account().spent.requests, 1U);
  EXPECT_EQ(budget.account().sum().refused, 10U);
  EXPECT_EQ(budget.account().sum().requests, 0U);
  budget.settle(first, used(1, 1));
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "max_requests");
}

TEST(Ledger, RequestsUnderWayCountAgainstTheirLimit) {
  Kept kept;
  Ledger budget = ledger({.budget = {.requests = 3}}, kept);
  std::vector<uint64_t> ids(3);
  for (uint64_t& id : ids) EXPECT_FALSE(budget.admit(Provider::OpenAi, {}, id));
  uint64_t id = 0;
  EXPECT_TRUE(budget.admit(Provider::OpenAi, {}, id));
}

// All of them are in the journal when it is written anew.
TEST(Ledger, NoMoreAreUnderWayThanTheJournalHolds) {
  Kept kept;
  Ledger budget = ledger({}, kept);
  uint64_t id = 0;
  for (size_t i = 0; i < Account::kMaxOpen; ++i)
    ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
  uint64_t refused = 0;
  const auto denial = budget.admit(Provider::OpenAi, {}, refused);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->budget, "under_way");
  const auto again = read_journal(encode_journal(budget.account()));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->account, budget.account());
  budget.settle(id, used(1, 1));
  EXPECT_EQ(spend(budget, used(1, 1)), "");
}

TEST(Ledger, ABatchCountsOnceHoweverOftenItIsAskedFor) {
  Kept kept;
  Ledger budget = ledger({}, kept);
  const uint64_t once = once_key(Provider::OpenAi, "batch_abc123");
  for (int i = 0; i < 5; ++i) {
    uint64_t id = 0;
    ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
    budget.settle(id, used(1500, 500), once);
  }
  EXPECT_EQ(budget.account().sum().total, 2000U);
  EXPECT_EQ(budget.account().sum().requests, 5U);
}

TEST(Ledger, ModelsAreBoundedInNumber) {
  Kept kept;
  Ledger budget = ledger({}, kept);
  for (int i = 0; i < 1000; ++i) spend(budget, used(1, 1, "model-" + std::to_string(i)));
  EXPECT_EQ(budget.account().series.size(), Account::kMaxSeries + 1);
  EXPECT_EQ(budget.account().sum().total, 2000U);
  Ledger made_up = ledger({}, kept);
  for (int i = 0; i < 1000; ++i)
    spend(made_up, {Verdict::Nothing, {}, "model-" + std::to_string(i), false});
  EXPECT_EQ(made_up.account().series.size(), 1U);
}

TEST(Ledger, ABudgetMayBeSetAndTheUseOfItReset) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 10}}, kept);
  EXPECT_EQ(spend(budget, used(10, 10)), "");
  EXPECT_EQ(spend(budget, {}), "max_total_tokens");
  EXPECT_TRUE(budget.set_budget({.total_tokens = 30}));
  EXPECT_EQ(spend(budget, used(10, 10)), "");
  EXPECT_EQ(spend(budget, {}), "max_total_tokens");
  EXPECT_TRUE(budget.reset());
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(budget.account().sum().total, 42U);  // never falls
}

TEST(Ledger, NothingIsLetOutThatCannotBeRecorded) {
  Kept kept;
  Ledger budget = ledger({}, kept);
  uint64_t id = 0;
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
  kept.full = true;
  budget.settle(id, used(10, 10));
  EXPECT_EQ(budget.account().sum().total, 0U);
  EXPECT_EQ(spend(budget, {}), "journal");
  kept.full = false;
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(budget.account().sum().total, 22U);
}

TEST(Ledger, WhatWasUnderWayAtACrashIsUnknown) {
  Kept kept;
  Account account;
  {
    Ledger before = ledger({.on_unknown = OnUnknown::Estimate}, kept);
    uint64_t id = 0;
    ASSERT_FALSE(before.admit(Provider::OpenAi, {10, 0}, id));
    ASSERT_FALSE(before.bound(id, {12, 34}));
    account = before.account();
  }
  Ledger after = ledger({.on_unknown = OnUnknown::Estimate}, kept, account);
  EXPECT_TRUE(after.account().open.empty());
  EXPECT_EQ(after.account().spent.total, 46U);
  EXPECT_EQ(after.account().sum().unknown, 1U);
  EXPECT_EQ(after.account().sum().requests, 1U);
  ASSERT_EQ(after.left_over().size(), 1U);
  EXPECT_EQ(after.left_over()[0].verdict, Verdict::Unknown);
  EXPECT_EQ(after.left_over()[0].estimate, (Bounds{12, 34}));
}

TEST(Ledger, AProvidersBudgetIsBesideTheSandboxs) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 500},
                          .provider_budgets = {{Provider::OpenAi, {.total_tokens = 50}}}},
                         kept);
  EXPECT_EQ(spend(budget, used(40, 20)), "");
  uint64_t id = 0;
  const auto denial = budget.admit(Provider::OpenAi, {}, id);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->of, "openai");
  EXPECT_EQ(denial->budget, "max_total_tokens");
  EXPECT_EQ(
      denial->message,
      "the sandbox's AI budget for openai is used up: max_total_tokens is 50, and 60 is used");
  EXPECT_EQ(spend(budget, used(400, 40), {}, Provider::Cohere), "");
  const auto whole = budget.admit(Provider::Cohere, {}, id);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->of, "");
  EXPECT_TRUE(budget.must_know(Provider::Cohere));
  budget.set_budget({});
  EXPECT_FALSE(budget.must_know(Provider::Cohere));
  EXPECT_TRUE(budget.must_know(Provider::OpenAi));
  budget.set_provider_budget(Provider::OpenAi, {.total_tokens = 61});
  EXPECT_EQ(spend(budget, used(1, 0)), "");
  EXPECT_EQ(spend(budget, used(1, 0)), "max_total_tokens");
  budget.reset();
  EXPECT_EQ(spend(budget, used(1, 0)), "");
}

// A request is of every run that is under way when it begins, and of no later one.
TEST(Ledger, ARunsBudgetIsOfTheRequestsThatBeginInIt) {
  Kept kept;
  Ledger budget = ledger({.run_budget = {.total_tokens = 50, .requests = 3}}, kept);
  EXPECT_EQ(spend(budget, used(400, 20)), "");  // no command runs
  budget.run_began("run-a");
  uint64_t early = 0;
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, early));
  budget.run_began("run-b");
  budget.settle(early, used(30, 25));  // run-a's alone
  EXPECT_EQ(budget.most_of_runs().total, 55U);
  uint64_t id = 0;
  const auto denial = budget.admit(Provider::OpenAi, {}, id);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->of, "run");
  EXPECT_EQ(denial->used, 55U);
  budget.run_ended("run-a");
  EXPECT_EQ(budget.most_of_runs(), Spent());
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "max_requests");
  budget.run_ended("run-b");
  EXPECT_EQ(spend(budget, used(400, 20)), "");
  EXPECT_TRUE(budget.set_run_budget({.requests = 1}));
  budget.run_began("run-c");
  EXPECT_EQ(spend(budget, used(1, 1)), "");
  EXPECT_EQ(spend(budget, used(1, 1)), "max_requests");
  budget.reset();
  EXPECT_EQ(spend(budget, used(1, 1)), "");
}

TEST(Ledger, ReservationIsWithinEachBudget) {
  Kept kept;
  Ledger budget = ledger(
      {.provider_budgets = {{Provider::OpenAi, {.total_tokens = 100}}}, .reserve = true}, kept);
  uint64_t first = 0;
  uint64_t other = 0;
  uint64_t second = 0;
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, first));
  ASSERT_FALSE(budget.bound(first, {10, 50}));
  ASSERT_FALSE(budget.admit(Provider::Cohere, {}, other));
  ASSERT_FALSE(budget.bound(other, {1000, 5000}));
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, second));
  const auto denial = budget.bound(second, {10, 50});
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->of, "openai");
  EXPECT_TRUE(denial->reserved);
  EXPECT_EQ(budget.account().spent_by.at(Provider::OpenAi).requests, 1U);
  budget.settle(first, used(10, 10));
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, second));
  EXPECT_FALSE(budget.bound(second, {10, 50}));
}

TEST(Ledger, CountsByOperation) {
  Kept kept;
  Ledger budget = ledger({}, kept);
  uint64_t id = 0;
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
  budget.settle(id, used(7, 0), 0, Operation::Embeddings);
  ASSERT_FALSE(budget.admit(Provider::OpenAi, {}, id));
  budget.settle(id, {Verdict::Unknown, {.input = 3, .total = 3}, "m", false}, 0, Operation::Chat);
  const Counts& counts = budget.account().series.at({Provider::OpenAi, "m"});
  const auto part = [&](Operation operation) {
    return counts.parts.at(static_cast<size_t>(operation));
  };
  EXPECT_EQ(part(Operation::Embeddings), (Counts::Part{1, 7, 0}));
  EXPECT_EQ(part(Operation::Chat), Counts::Part{});  // what is unknown has no size
}

// ---- the journal

Bytes journal_of(const std::vector<Record>& records) {
  Bytes out = encode_journal({});
  for (const Record& record : records) {
    const Bytes one = encode_record(record);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::vector<Record> some_records(Account& account) {
  Kept kept;
  Ledger budget = ledger({.budget = {.total_tokens = 100},
                          .on_unknown = OnUnknown::Estimate,
                          .prices = PriceTable({{.model = "m", .input = 1500, .output = 3}})},
                         kept);
  spend(budget, used(40, 10), {100, 50});
  spend(budget, {Verdict::Unknown, {.input = 3, .total = 3}, "x", false}, {10, 20});
  budget.set_budget({.input_tokens = 900, .cost = 12'000'000});
  uint64_t id = 0;
  budget.set_run_budget({.requests = 4});
  budget.set_provider_budget(Provider::Gemini, {.output_tokens = 5});
  budget.admit(Provider::Gemini, {1, 2}, id);
  budget.settle(id, used(1, 1), 77, Operation::GenerateContent);
  budget.admit(Provider::Cohere, {1, 2}, id);
  spend(budget, {});
  account = budget.account();
  return kept.records;
}

TEST(Journal, IsTheSameAccountWhenItIsReadAgain) {
  Account account;
  const std::vector<Record> records = some_records(account);
  const auto replayed = read_journal(journal_of(records));
  ASSERT_TRUE(replayed);
  EXPECT_FALSE(replayed->torn);
  EXPECT_EQ(replayed->account, account);
  const auto whole = read_journal(encode_journal(account));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->account, account);
}

TEST(Journal, CutAnywhereItIsTheAccountBeforeTheCut) {
  Account last;
  const std::vector<Record> records = some_records(last);
  const Bytes data = journal_of(records);
  const size_t first = encode_journal({}).size();
  for (size_t cut = 0; cut <= data.size(); ++cut) {
    const auto read = read_journal(ByteView(data).first(cut));
    ASSERT_TRUE(read) << cut;
    Account expected;
    size_t good = cut < first ? 0 : first;
    for (const Record& record : records) {
      const size_t size = encode_record(record).size();
      if (good == 0 || good + size > cut) break;
      expected.apply(record);
      good += size;
    }
    EXPECT_EQ(read->account, expected) << cut;
    EXPECT_EQ(read->good, good) << cut;
    EXPECT_EQ(read->torn, good != cut) << cut;
  }
}

// As it was written before there were operations and budgets of providers: one model with two
// requests, one of them unknown, and one more that ends.
TEST(Journal, ReadsTheFormerForm) {
  const auto byte = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  constexpr std::string_view kFormer =
      "6d766d616920310a07010000800400000000000000000000000000000000000000000000000000000000000000"
      "000000000000000000000000000000000000000000001d0000000000000013000000000000000a000000000000"
      "0003000000000000000000000000000000010000000000000002000000000000000100000002016d0200000000"
      "0000000100000000000000000000000000000013000000000000000a000000000000001d000000000000000000"
      "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "000000000000000000020000000000000001000000030000000000000002090000000000000009000000000000"
      "0000000000120a1803760000000203000000000000000200016d05000000000000000200000000000000070000"
      "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
      "00000000000000000000000000000000000000000000000000000000000000000000000000000000001e7d81e1";
  Bytes data;
  for (size_t i = 0; i < kFormer.size(); i += 2)
    data.push_back(static_cast<std::byte>(byte(kFormer[i]) << 4 | byte(kFormer[i + 1])));
  const auto read = read_journal(data);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->torn);
  EXPECT_EQ(read->account.next, 4U);
  EXPECT_EQ(read->account.spent.total, 36U);
  const Counts& counts = read->account.series.at({Provider::Anthropic, "m"});
  EXPECT_EQ(counts.requests, 3U);
  EXPECT_EQ(counts.input, 24U);
  EXPECT_EQ(counts.parts.back(), (Counts::Part{2, 24, 12}));
}

TEST(Journal, RefusesWhatIsNone) {
  EXPECT_FALSE(read_journal(as_bytes("something else")));
  Account account;
  Bytes data = journal_of(some_records(account));
  data[data.size() / 2] ^= std::byte{1};
  const auto read = read_journal(data);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->torn);
  EXPECT_LE(read->good, data.size() / 2);
}

}
}
