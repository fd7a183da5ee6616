// The filter on bodies with a content coding, or with one in name only.
#include "mvm/http/coding.h"

#include "secret_filter.h"

namespace mvm::guard {
namespace {

using egress::BodyUse;
using policy::Reason;
using ::testing::ElementsAre;

std::string coded(std::string_view text, http::Coding coding) {
  http::Encoder encoder({coding});
  Bytes out;
  encoder.write(as_bytes(text), false, out);
  encoder.finish(out);
  return std::string(as_text(out));
}

TEST_F(SecretFilterTest, PutsNothingIntoACodedRequest) {
  key_rule_.places = {"body"};
  start();
  request_.headers.push_back({"Content-Encoding", "gzip"});
  EXPECT_FALSE(head("application/json"));
  EXPECT_EQ(use_, BodyUse::Read);
  body(coded("{\"a\":\"" + key() + "\"}", http::Coding::Gzip));
  EXPECT_FALSE(verdict_);
  EXPECT_THAT(notices_, ElementsAre("inert KEY api.test 1"));
}

TEST_F(SecretFilterTest, RefusesAValueInACodedRequest) {
  for (const http::Coding coding : {http::Coding::Gzip, http::Coding::Zstd, http::Coding::Brotli}) {
    for (const size_t step : {size_t{1}, SIZE_MAX}) {
      verdict_.reset();
      start();
      request_.headers.push_back({"Content-Encoding", std::string(http::coding_name(coding))});
      EXPECT_FALSE(head("application/json"));
      body(coded("the key is " + std::string(kKey) + " indeed", coding), step);
      ASSERT_TRUE(verdict_);
      EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
    }
  }
}

// Whatever its header says: a body that is no such thing is looked at as it is.
TEST_F(SecretFilterTest, RefusesAValueWhoseCodingIsNone) {
  const std::string leak = "the key is " + std::string(kKey) + " indeed";
  const std::string gzip = coded("nothing", http::Coding::Gzip);
  const std::array<std::pair<const char*, std::string>, 8> kBodies{{
      {"gzip", leak},
      {"zstd, gzip", leak},
      {"x-unknown", leak},
      {"identity, x-unknown", leak},
      {"gzip, gzip, gzip, gzip", leak},  // more than are undone
      {"gzip", gzip + leak},
      {"gzip", gzip.substr(0, 10) + leak},
      {"br", secret::base64(leak)},
  }};
  for (const auto& [coding, text] : kBodies) {
    for (const size_t step : {size_t{1}, size_t{9}, SIZE_MAX}) {
      for (const bool chunked : {false, true}) {
        verdict_.reset();
        notices_.clear();
        request_ = {"POST", "/", 1, {}, {}};
        start();
        request_.headers.push_back({"Content-Encoding", coding});
        ASSERT_FALSE(head("application/json", chunked));
        body(text, step);
        ASSERT_TRUE(verdict_) << coding << " " << text;
        EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
        EXPECT_THAT(notices_, ElementsAre("leaked KEY api.test 1"));
      }
    }
  }
}

// A reader that does not mind the damage has what came before it.
TEST_F(SecretFilterTest, RefusesAValueInFrontOfDamage) {
  for (const http::Coding coding : {http::Coding::Gzip, http::Coding::Deflate}) {
    const std::string whole = coded("it is " + std::string(kKey), coding);
    std::string wrong_sum = whole;
    wrong_sum[wrong_sum.size() - (coding == http::Coding::Gzip ? 8 : 4)] ^= 1;
    for (const std::string& text : {whole, wrong_sum, whole.substr(0, whole.size() - 4)}) {
      for (const size_t step : {size_t{1}, SIZE_MAX}) {
        verdict_.reset();
        start();
        request_.headers.push_back({"Content-Encoding", std::string(http::coding_name(coding))});
        ASSERT_FALSE(head("application/json"));
        body(text, step);
        ASSERT_TRUE(verdict_);
        EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
      }
    }
  }
}

TEST_F(SecretFilterTest, RefusesAValueBehindMuchThatCodesToLittle) {
  const std::string text = std::string(size_t{6} << 20, ' ') + std::string(kKey);
  start();
  request_.headers.push_back({"Content-Encoding", "gzip"});
  ASSERT_FALSE(head("application/json"));
  body(coded(text, http::Coding::Gzip));
  ASSERT_TRUE(verdict_);
  EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
}

TEST_F(SecretFilterTest, RefusesARequestThatGrowsTooMuch) {
  start();
  request_.headers.push_back({"Content-Encoding", "br"});
  ASSERT_FALSE(head("application/json"));
  body(coded(std::string(size_t{6} << 20, ' '), http::Coding::Brotli));
  ASSERT_TRUE(verdict_);
  EXPECT_EQ(verdict_->reason, Reason::Unreadable);
  EXPECT_EQ(verdict_->answer.status, 413U);
}

TEST_F(SecretFilterTest, PassesARequestWhoseCodingIsNone) {
  for (const char* coding : {"gzip", "x-unknown"}) {
    start();
    request_.headers.push_back({"Content-Encoding", coding});
    EXPECT_FALSE(head("application/json"));
    EXPECT_EQ(use_, BodyUse::Read);
    body("this is no such thing, and " + key() + " is text");
    EXPECT_FALSE(verdict_);
    EXPECT_EQ(notices_.back(), "inert KEY api.test 1");
  }
}

TEST_F(SecretFilterTest, MasksValuesInCodedAnswersAndDecodesThem) {
  for (const http::Coding coding : {http::Coding::Gzip, http::Coding::Zstd, http::Coding::Brotli}) {
    for (const size_t step : {size_t{1}, SIZE_MAX}) {
      start();
      EXPECT_FALSE(head());
      EXPECT_FALSE(answer_head({{"Content-Encoding", std::string(http::coding_name(coding))}}));
      EXPECT_EQ(http::find(answer_.headers, "Content-Encoding"), nullptr);
      const std::string text = "one " + std::string(kKey) + " two";
      EXPECT_EQ(answer(coded(text, coding), step), "one " + key() + " two");
      EXPECT_FALSE(verdict_);
    }
  }
}

TEST_F(SecretFilterTest, BreaksOffAnAnswerThatIsNotOfItsCoding) {
  start();
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head({{"Content-Encoding", "gzip"}}));
  const std::string whole = coded("one two three", http::Coding::Gzip);
  answer(whole.substr(0, whole.size() - 4));
  ASSERT_TRUE(verdict_);
  EXPECT_EQ(verdict_->reason, Reason::Unreadable);
}

TEST_F(SecretFilterTest, RefusesAnAnswerThatItCannotRead) {
  start();
  EXPECT_FALSE(head());
  const auto refusal = answer_head({{"Content-Encoding", "unheard-of"}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::Unreadable);
  EXPECT_THAT(notices_, ElementsAre("unreadable KEY api.test 1"));
}

// It is searched as it is.
TEST_F(SecretFilterTest, PassesAnAnswerThatItCannotReadWhereNoSecretGoes) {
  for (const char* coding : {"unheard-of", "gzip", "gzip, br"}) {
    start("elsewhere.test");
    EXPECT_FALSE(head());
    EXPECT_FALSE(answer_head({{"Content-Encoding", coding}}));
    EXPECT_NE(http::find(answer_.headers, "Content-Encoding"), nullptr);
    EXPECT_EQ(answer_use_, BodyUse::Rewrite);
    EXPECT_EQ(answer("it is " + std::string(kKey), 3), "it is " + key());
    EXPECT_FALSE(verdict_);
  }
}

TEST_F(SecretFilterTest, PassesAnAnswerThatItCannotReadWhereTheRuleSaysSo) {
  key_rule_.on_unreadable = "pass";
  start();
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head({{"Content-Encoding", "unheard-of"}}));
  EXPECT_EQ(answer("it is " + std::string(kKey)), "it is " + key());
}

}
}
