// However many refusals come, each is told or counted.
#include "../../../src/egress/reporter.h"

#include <gtest/gtest.h>

namespace mvm::egress {
namespace {

class ReporterTest : public ::testing::Test {
 protected:
  static Event refusal(const std::string& host,
                       policy::Reason reason = policy::Reason::PolicyDenied) {
    Event event;
    event.kind = EventKind::Dns;
    event.host = host;
    event.reason = reason;
    return event;
  }
  void SetUp() override { start(Refusals::Together); }
  void start(Refusals refusals) {
    reporter_.emplace(
        loop_,
        [this](const Event& event) {
          told_.push_back(event);
          return true;
        },
        refusals);
  }
  loop::Loop loop_;
  std::vector<Event> told_;
  std::optional<Reporter> reporter_;
};

TEST_F(ReporterTest, EqualOnesAreOneWithACount) {
  for (int i = 0; i < 5; ++i) reporter_->refuse(refusal("a.example"));
  EXPECT_EQ(told_.size(), 1U);
  reporter_.reset();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[1].host, "a.example");
  EXPECT_EQ(told_[0].count + told_[1].count, 5U);
}

TEST_F(ReporterTest, EachIsToldBeforeItIsAnsweredWhereItHasToBe) {
  start(Refusals::Each);
  for (size_t i = 1; i <= 2 * Reporter::kMaxKinds; ++i) {
    reporter_->refuse(refusal(i % 2 == 0 ? "a.example" : "n" + std::to_string(i) + ".example"));
    ASSERT_EQ(told_.size(), i);
    EXPECT_EQ(told_.back().count, 1U);
    EXPECT_FALSE(told_.back().host.empty());
  }
  const size_t before = told_.size();
  for (int i = 0; i < 5; ++i) reporter_->has_refused(refusal("packet.example"));
  EXPECT_EQ(told_.size(), before + 1);
  reporter_.reset();
  ASSERT_EQ(told_.size(), before + 2);
  EXPECT_EQ(told_[before].count + told_[before + 1].count, 5U);
}

TEST_F(ReporterTest, CountsWhatStandsForMany) {
  Event many = refusal("");
  many.count = 40;
  for (int i = 0; i < 3; ++i) reporter_->refuse(many);
  reporter_.reset();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0].count, 40U);
  EXPECT_EQ(told_[1].count, 80U);
}

TEST_F(ReporterTest, VeryManyDifferentOnesAreCountedByReason) {
  constexpr uint64_t kMany = 10'000;
  for (uint64_t i = 0; i < kMany; ++i)
    reporter_->refuse(
        refusal("n" + std::to_string(i) + ".example",
                i % 2 == 0 ? policy::Reason::PolicyDenied : policy::Reason::RateLimited));
  EXPECT_EQ(told_.size(), Reporter::kMaxKinds);
  reporter_.reset();
  ASSERT_EQ(told_.size(), Reporter::kMaxKinds + 2);
  uint64_t count = 0;
  for (const Event& event : told_) count += event.count;
  EXPECT_EQ(count, kMany);
  EXPECT_TRUE(told_.back().host.empty());
  EXPECT_NE(told_[Reporter::kMaxKinds].reason, told_.back().reason);
}

}
}
