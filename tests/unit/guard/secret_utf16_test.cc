// The filter on bodies in UTF-16.
#include "secret_filter.h"

namespace mvm::guard {
namespace {

using policy::Reason;
using secret::Writing;
using ::testing::ElementsAre;

TEST_F(SecretFilterTest, PutsValuesIntoUtf16AsItsLetters) {
  key_rule_.places = {"body"};
  for (const secret::Units units : {secret::Units::Little, secret::Units::Big}) {
    for (const size_t step : {size_t{1}, size_t{7}, SIZE_MAX}) {
      request_ = {"GET", "/", 1, {}, {}};
      notices_.clear();
      start();
      ASSERT_FALSE(head("application/json; charset=utf-16"));
      const std::string sent = "{\"a\":\"" + key() + "\",\"b\":\"" + other() + "\"}";
      const std::string left =
          "{\"a\":\"" + secret::written(kKey, Writing::Json) + "\",\"b\":\"" + other() + "\"}";
      EXPECT_EQ(body(secret::in_units(sent, units), step), secret::in_units(left, units));
      EXPECT_FALSE(verdict_);
      EXPECT_THAT(notices_, ElementsAre("used KEY api.test 1", "inert OTHER api.test 1"));
    }
  }
}

TEST_F(SecretFilterTest, PutsNoValueBeyondAsciiIntoUtf16) {
  key_rule_.places = {"body"};
  key_value_ = "p\xc3\xa4ssword-0123";
  start();
  ASSERT_FALSE(head("text/plain; charset=utf-16"));
  const std::string sent = secret::in_units("is " + key(), secret::Units::Little);
  EXPECT_EQ(body(sent), sent);
  EXPECT_THAT(notices_, ElementsAre("inert KEY api.test 1"));
}

TEST_F(SecretFilterTest, RefusesAValueInUtf16) {
  for (const secret::Units units : {secret::Units::Little, secret::Units::Big}) {
    for (const Writing writing : {Writing::Plain, Writing::Json, Writing::Percent}) {
      verdict_ = {};
      start();
      ASSERT_FALSE(head("text/plain"));
      body(secret::in_units("it is " + secret::written(kKey, writing), units), 5);
      ASSERT_TRUE(verdict_);
      EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
    }
  }
}

TEST_F(SecretFilterTest, APlaceholderInUtf16IsNoCredential) {
  start();
  request_.headers.push_back(
      {"Authorization",
       "Basic " + secret::base64(secret::in_units("user:" + key(), secret::Units::Little))});
  const auto refusal = head();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::SecretMisuse);
}

TEST_F(SecretFilterTest, MasksValuesInUtf16) {
  for (const secret::Units units : {secret::Units::Little, secret::Units::Big}) {
    for (const size_t step : {size_t{1}, size_t{3}, SIZE_MAX}) {
      notices_.clear();
      start();
      ASSERT_FALSE(head());
      ASSERT_FALSE(answer_head());
      const std::string mark = units == secret::Units::Big ? "\xfe\xff" : "\xff\xfe";
      const std::string text = "{\"echo\": \"" + secret::written(kKey, Writing::Json) + "\"}";
      EXPECT_EQ(answer(mark + secret::in_units(text, units), step),
                mark + secret::in_units("{\"echo\": \"" + key() + "\"}", units));
      EXPECT_THAT(notices_, ElementsAre("masked KEY api.test 1"));
    }
  }
}

}
}
