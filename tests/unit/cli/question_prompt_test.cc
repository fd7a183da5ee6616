#include "../../../src/cli/question_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mvm::cli {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class QuestionPromptTest : public testing::Test {
 protected:
  static proto::Question question(const std::string& id) {
    return {id, "api.example", 443, "POST", "/v1/x", "writes", 1, 60'000};
  }
  QuestionPrompt::Typed type(std::string_view keys) { return prompt.type(as_bytes(keys), now); }
  static std::string command(const QuestionPrompt::Typed& typed) {
    return std::string(as_text(typed.for_command));
  }

  QuestionPrompt::Clock::time_point now{};
  QuestionPrompt prompt{"web", true};
};

TEST_F(QuestionPromptTest, TellsEachQuestionOnce) {
  EXPECT_EQ(prompt.take({{question("1001")}, 1001}, now),
            "\r\nmvm: web asks: POST api.example:443/v1/x (rule 'writes')\r\n"
            "  1m0s to answer: Ctrl-] here, or mvm policy approve web/1001, mvm policy deny "
            "web/1001\r\n");
  EXPECT_EQ(prompt.newest(), 1001U);
  EXPECT_THAT(prompt.take({{question("1001"), question("1002")}, 1002}, now),
              testing::AllOf(HasSubstr("web/1002"), testing::Not(HasSubstr("web/1001"))));
  proto::Question hostile = question("1003");
  hostile.path = "/\x1b[2J";
  EXPECT_THAT(prompt.take({{hostile}, 1003}, now), HasSubstr("/\\x1b[2J"));
}

TEST_F(QuestionPromptTest, KeysAreTheCommandsUntilThereIsAQuestion) {
  EXPECT_EQ(command(type("ls\x1dq")), "ls\x1dq");
  EXPECT_FALSE(prompt.shows());
}

TEST_F(QuestionPromptTest, AnAnswerTakesTwoKeysOfWhichTheSecondCameAfterTheQuestion) {
  prompt.take({{question("1001")}, 1001}, now);
  // "s" was typed before the question could be read.
  auto typed = type("ab\x1ds");
  EXPECT_EQ(command(typed), "ab");
  EXPECT_FALSE(typed.answer);
  EXPECT_THAT(typed.text, HasSubstr("POST api.example:443/v1/x"));
  EXPECT_TRUE(prompt.shows());
  typed = type("sx");
  ASSERT_TRUE(typed.answer);
  EXPECT_EQ(*typed.answer, (proto::AnswerRequest{"1001", true, true}));
  EXPECT_EQ(command(typed), "x");
  EXPECT_FALSE(prompt.shows());
  EXPECT_EQ(command(type("\x1d")), "\x1d");  // nothing is open any more
}

TEST_F(QuestionPromptTest, OnceDenyAndLater) {
  prompt.take({{question("1001"), question("1002")}, 1002}, now);
  type("\x1d");
  auto typed = type("\r");
  EXPECT_FALSE(typed.answer);
  EXPECT_EQ(command(typed), "");
  type("\x1d");
  typed = type("o");
  EXPECT_EQ(*typed.answer, (proto::AnswerRequest{"1001", true, false}));
  type("\x1d");
  typed = type("d");
  EXPECT_EQ(*typed.answer, (proto::AnswerRequest{"1002", false, false}));
}

TEST_F(QuestionPromptTest, AQuestionWhoseTimeIsOverIsNotShown) {
  prompt.take({{question("1001")}, 1001}, now);
  now += 60s;
  EXPECT_EQ(command(type("\x1d")), "\x1d");
}

TEST_F(QuestionPromptTest, WithoutKeysItOnlyTells) {
  QuestionPrompt told{"web", false};
  EXPECT_THAT(told.take({{question("1001")}, 1001}, now),
              testing::AllOf(HasSubstr("\nmvm: web asks:"), testing::Not(HasSubstr("Ctrl-]"))));
  EXPECT_EQ(command(told.type(as_bytes(std::string_view("\x1d")), now)), "\x1d");
}

}
}
