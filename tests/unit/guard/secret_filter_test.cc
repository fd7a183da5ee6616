#include "secret_filter.h"

namespace mvm::guard {
namespace {

using egress::BodyUse;
using egress::FilterVerdict;
using policy::Reason;
using secret::Writing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(SecretFilterTest, RecordsAUseBeforeItHappens) {
  start("other.test");
  request_.headers.push_back({"Authorization", "Bearer " + other()});
  EXPECT_FALSE(head());
  EXPECT_THAT(notices_, ElementsAre("used OTHER other.test 1"));
  EXPECT_EQ(request_.headers[1].value, "Bearer " + std::string(kOther));
}

TEST_F(SecretFilterTest, UsesNothingThatCannotBeRecorded) {
  recordable_ = false;
  start("other.test");
  request_.headers.push_back({"Authorization", "Bearer " + other()});
  const auto refusal = head();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::NotRecorded);
  EXPECT_EQ(refusal->answer.status, 503U);
}

// A server may take a trailer for a field of the head, or show it around.
TEST_F(SecretFilterTest, NothingIsPutIntoTrailers) {
  start("other.test");
  ASSERT_FALSE(head(kForm, true));
  const auto trailer = [&](const std::string& name, const std::string& value) {
    http::Headers trailers{{"X-Sum", "7"}, {name, value}};
    const auto refusal = filter_->request_trailers(trailers);
    EXPECT_EQ(trailers[1].value, value);
    return refusal ? std::string(policy::reason_word(refusal->reason)) : "";
  };
  EXPECT_EQ(trailer("X-Note", "nothing"), "");
  EXPECT_EQ(trailer("X-Api-Key", other()), "secret_misuse");
  EXPECT_EQ(trailer("X-Api-Key", key()), "secret_misuse");
  EXPECT_EQ(trailer("Authorization", "Bearer " + other()), "secret_misuse");
  EXPECT_EQ(trailer("Authorization", "Basic " + secret::base64("u:" + other())), "secret_misuse");
  EXPECT_EQ(trailer("X-Note", "it is " + std::string(kKey)), "secret_leak");
  EXPECT_EQ(trailer("X-" + other(), "it"), "secret_misuse");
  EXPECT_THAT(notices_, ElementsAre("misused OTHER other.test 1", "misused KEY other.test 1",
                                    "misused OTHER other.test 1", "misused OTHER other.test 1",
                                    "leaked KEY other.test 1", "misused OTHER other.test 1"));
}

TEST_F(SecretFilterTest, MasksValuesInTrailersAndInterimAnswers) {
  start();
  ASSERT_FALSE(head());
  http::ResponseHead hint{103, "Early Hints", 1, {{"Link", "</" + std::string(kOther) + ">"}}, {}};
  EXPECT_FALSE(filter_->interim_head(hint));
  EXPECT_EQ(hint.headers[0].value, "</" + other() + ">");
  ASSERT_FALSE(answer_head());
  answer("text");
  http::Headers trailers{{"X-Behind", std::string(kOther)}};
  EXPECT_FALSE(filter_->response_trailers(trailers));
  EXPECT_EQ(trailers[0].value, other());
  recordable_ = false;
  trailers = {{"X-Behind", std::string(kOther)}};
  EXPECT_TRUE(filter_->response_trailers(trailers));
}

TEST_F(SecretFilterTest, RefusesAMisuseAndTellsWhy) {
  start();
  request_.headers.push_back({"Authorization", "Bearer " + other()});
  const auto refusal = head();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::SecretMisuse);
  EXPECT_EQ(refusal->rule, "secret:OTHER");
  EXPECT_EQ(refusal->answer.status, 403U);
  EXPECT_THAT(refusal->answer.message, HasSubstr("not for this host"));
  EXPECT_THAT(notices_, ElementsAre("misused OTHER api.test 1"));
  EXPECT_THAT(ends_, IsEmpty());
}

TEST_F(SecretFilterTest, EndsTheSandboxWhereTheRuleSaysSo) {
  other_rule_.on_misuse = "end";
  start();
  request_.target = "/?key=" + other();
  EXPECT_TRUE(head());
  EXPECT_THAT(ends_, ElementsAre("OTHER"));
}

TEST_F(SecretFilterTest, APlaceholderInABodyIsText) {
  start();
  EXPECT_FALSE(head("application/json"));
  EXPECT_EQ(use_, BodyUse::Read);
  const std::string text = "{\"history\":\"the key is " + key() + " or " + other() + "\"}";
  EXPECT_EQ(body(text, 7), text);
  EXPECT_FALSE(verdict_);
  EXPECT_THAT(notices_, ElementsAre("inert KEY api.test 1", "inert OTHER api.test 1"));
}

TEST_F(SecretFilterTest, PutsValuesIntoBodiesWhereTheRuleSaysSo) {
  key_rule_.places = {"body"};
  start();
  EXPECT_FALSE(head("application/json; charset=utf-8"));
  EXPECT_EQ(use_, BodyUse::Rewrite);
  for (const size_t step : {size_t{1}, size_t{5}, SIZE_MAX})
    EXPECT_EQ(body("{\"a\":\"" + key() + "\"}", step),
              "{\"a\":\"" + secret::written(kKey, Writing::Json) + "\"}");
  EXPECT_THAT(notices_, ElementsAre("used KEY api.test 1"));
}

// Which byte of a letter comes first cannot be told from ASCII, and matters beyond it.
TEST_F(SecretFilterTest, PutsValuesIntoFormsAlone) {
  key_rule_.places = {"form"};
  start();
  EXPECT_FALSE(head(kForm));
  EXPECT_EQ(body("grant=x&client_secret=" + key()),
            "grant=x&client_secret=" + secret::written(kKey, Writing::Percent));
  start();
  EXPECT_FALSE(head("text/plain"));
  EXPECT_EQ(body("client_secret=" + key()), "client_secret=" + key());
}

TEST_F(SecretFilterTest, RefusesAValueInABody) {
  for (const std::string& text :
       {std::string(kKey), secret::base64("{\"k\":\"" + std::string(kOther) + "\"}"),
        secret::written(kKey, Writing::Json), secret::written(kKey, Writing::Percent)}) {
    for (const size_t step : {size_t{1}, SIZE_MAX}) {
      verdict_.reset();
      start("elsewhere.test");
      EXPECT_FALSE(head("text/plain", true));
      EXPECT_EQ(use_, BodyUse::Rewrite);
      const std::string gone = body("before " + text + " behind", step);
      // Of base64, what is only of its neighbours.
      EXPECT_TRUE(std::string("before eyJrIjoi").starts_with(gone)) << gone;
      ASSERT_TRUE(verdict_) << text;
      EXPECT_EQ(verdict_->reason, Reason::SecretLeak);
    }
  }
}

TEST_F(SecretFilterTest, AsksForAnswersThatCanBeRead) {
  start();
  request_.headers.push_back({"accept-encoding", "gzip, br"});
  EXPECT_FALSE(head());
  EXPECT_EQ(http::count(request_.headers, "Accept-Encoding"), 1U);
  EXPECT_EQ(*http::find(request_.headers, "Accept-Encoding"), "identity");
  start("elsewhere.test");
  request_.headers.push_back({"accept-encoding", "gzip, br"});
  EXPECT_FALSE(head());
  EXPECT_EQ(*http::find(request_.headers, "Accept-Encoding"), "gzip, br");
}

TEST_F(SecretFilterTest, MasksValuesInAnswers) {
  start();
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head({{"X-Echo", std::string(kKey)}}));
  EXPECT_EQ(answer_.headers[0].value, key());
  EXPECT_EQ(answer_use_, BodyUse::Rewrite);
  const std::string echo = "one " + std::string(kKey) + " two " +
                           secret::written(kKey, Writing::Json) + " three " +
                           secret::base64("user:" + std::string(kKey)) + " four";
  const std::string shown = answer(echo, 1);
  EXPECT_THAT(shown, Not(HasSubstr("0123456789")));
  EXPECT_THAT(shown, HasSubstr("one " + key() + " two " + key() + " three "));
  EXPECT_THAT(notices_, ElementsAre("masked KEY api.test 1", "masked KEY api.test 3"));
}

TEST_F(SecretFilterTest, TellsWhatWasMaskedInAnAnswerThatBroke) {
  start();
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head());
  Bytes out;
  EXPECT_FALSE(filter_->response_body(as_bytes(kKey), false, out));
  EXPECT_FALSE(filter_->response_body(as_bytes(" "), false, out));
  filter_->ended(false);
  EXPECT_THAT(notices_, ElementsAre("masked KEY api.test 1"));
}

// Whatever is refused or told, no value is in it.
TEST_F(SecretFilterTest, SaysNoValue) {
  std::string said;
  const auto note = [&](const FilterVerdict& verdict) {
    if (!verdict) return;
    said += verdict->rule + verdict->detail + http::refusal_body(verdict->answer);
  };
  for (const std::string& text : {std::string(kKey), std::string(kOther), secret::base64(kKey)}) {
    for (const char* name : {"Authorization", "Cookie", "X-Any"}) {
      start();
      request_.headers.push_back({name, text});
      note(head());
      start();
      request_.headers.push_back({text, name});
      note(head());
    }
    start();
    request_.method = text;
    note(head());
    start();
    request_.target = "/" + text + "?" + text;
    note(head());
    start();
    note(head(text));
    verdict_.reset();
    body(text);
    note(verdict_);
  }
  for (const std::string& notice : notices_) said += notice;
  EXPECT_FALSE(said.empty());
  EXPECT_THAT(said, Not(HasSubstr(kKey)));
  EXPECT_THAT(said, Not(HasSubstr(kOther)));
  EXPECT_THAT(said, Not(HasSubstr(secret::base64(kKey))));
}

}
}
