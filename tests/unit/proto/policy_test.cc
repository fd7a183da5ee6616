#include "mvm/proto/policy.h"

#include <gtest/gtest.h>

namespace mvm::proto {
namespace {

PolicyChanges changes() { return {{"a.example", "GET https://b.example:443/x"}, {"10.0.0.0/8"}}; }

Question question() { return {"k3f9xq", "api.example", 443, "POST", "/v1/x", "writes", 2, 41'000}; }

template <typename Message>
void survives(const Message& message) {
  EXPECT_EQ(Message::decode(message.encode()), message);
  const Bytes bytes = message.encode();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(Message::decode(ByteView(bytes).first(length))) << length;
}

TEST(PolicyMessages, SurviveARoundTrip) {
  survives(changes());
  PolicyReport report;
  report.made.allow_hosts = {"a.example"};
  report.changes = changes();
  report.recordable = false;
  survives(report);
  survives(PolicyChangeRequest{changes()});
  survives(question());
  survives(QuestionsRequest{});
  survives(QuestionsRequest{7});
  survives(QuestionList{{question(), question()}, 9});
  survives(AnswerRequest{"k3f9xq", true, true});
}

TEST(PolicyMessages, HoldTheirBounds) {
  PolicyChanges many;
  many.allow.assign(kMaxPolicyChanges, "a.example");
  EXPECT_TRUE(PolicyChanges::decode(many.encode()));
  many.allow.emplace_back("b.example");
  EXPECT_FALSE(PolicyChanges::decode(many.encode()));
  EXPECT_FALSE(PolicyChangeRequest::decode(PolicyChangeRequest{many}.encode()));
  QuestionList list;
  list.questions.assign(kMaxQuestions + 1, question());
  EXPECT_FALSE(QuestionList::decode(list.encode()));
}

}
}
