// The filter by itself, with heads and pieces as the proxy hands them over.
#include "mvm/guard/secret_filter.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "mvm/http/coding.h"
#include "mvm/secret/text.h"

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

constexpr std::string_view kKey = "sk-real\"value/0123456789";
constexpr std::string_view kOther = "other-real-value-987654";
constexpr std::string_view kForm = "application/x-www-form-urlencoded";

class SecretFilterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    key_rule_.name = "KEY";
    key_rule_.hosts = {"api.test"};
    key_rule_.places = {"basic"};
    other_rule_.name = "OTHER";
    other_rule_.hosts = {"other.test"};
  }

  // With the rules as they are.
  void start(const std::string& host = "api.test", bool tls = true) {
    proto::SecretsConfig config;
    config.rules = {key_rule_, other_rule_};
    config.values = {{"KEY", std::string(kKey)}, {"OTHER", std::string(kOther)}};
    secrets_ = std::make_shared<secret::Secrets>(config);
    source_.emplace(secrets_, SecretSource::Watcher{[this](const SecretNotice& notice) {
                                                      if (recordable_)
                                                        notices_.push_back(told(notice));
                                                      return recordable_;
                                                    },
                                                    [this](const SecretNotice& notice) {
                                                      ends_.push_back(notice.secret);
                                                    }});
    filter_ = source_->begin({1, 0, host, static_cast<uint16_t>(tls ? 443 : 80), tls});
    request_.headers = {{"Host", host}};
  }
  static std::string told(const SecretNotice& notice) {
    constexpr std::array<const char*, 6> kWords{"used",   "inert",  "misused",
                                                "leaked", "masked", "unreadable"};
    return std::string(kWords.at(static_cast<size_t>(notice.what))) + " " + notice.secret + " " +
           notice.host + " " + std::to_string(notice.count);
  }
  std::string key() const { return secrets_->all()[0].placeholder; }
  std::string other() const { return secrets_->all()[1].placeholder; }

  FilterVerdict head(std::string_view type = "", bool chunked = false) {
    if (!type.empty()) {
      request_.method = "POST";
      request_.headers.push_back({"Content-Type", std::string(type)});
      request_.framing = {chunked ? http::BodyKind::Chunked : http::BodyKind::Length, 100};
    }
    return filter_->request_head(request_, use_);
  }
  // What goes on of a body that comes in pieces of `step` bytes; what the filter says is in
  // verdict_.
  std::string body(std::string_view text, size_t step = SIZE_MAX) {
    return pass(text, step, &egress::ExchangeFilter::request_body);
  }
  std::string answer(std::string_view text, size_t step = SIZE_MAX) {
    return pass(text, step, &egress::ExchangeFilter::response_body);
  }
  FilterVerdict answer_head(http::Headers headers = {}) {
    answer_.headers = std::move(headers);
    answer_.framing = {http::BodyKind::Chunked, 0};
    return filter_->response_head(answer_, answer_use_);
  }

  proto::SecretRule key_rule_;
  proto::SecretRule other_rule_;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::optional<SecretSource> source_;
  std::unique_ptr<egress::ExchangeFilter> filter_;
  http::RequestHead request_{"GET", "/", 1, {}, {}};
  http::ResponseHead answer_{200, "OK", 1, {}, {}};
  BodyUse use_ = BodyUse::Ignore;
  BodyUse answer_use_ = BodyUse::Ignore;
  FilterVerdict verdict_;
  std::vector<std::string> notices_;
  std::vector<std::string> ends_;
  bool recordable_ = true;

 private:
  std::string pass(std::string_view text, size_t step,
                   FilterVerdict (egress::ExchangeFilter::*piece)(ByteView, bool, Bytes&)) {
    Bytes out;
    for (size_t at = 0; at < text.size() && !verdict_; at += std::min(step, text.size() - at))
      verdict_ = (*filter_.*piece)(as_bytes(text.substr(at, step)), false, out);
    if (!verdict_) verdict_ = (*filter_.*piece)({}, true, out);
    return std::string(as_text(out));
  }
};

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

TEST_F(SecretFilterTest, TrailersAreLookedIntoAsFieldsOfTheHead) {
  start("other.test");
  ASSERT_FALSE(head(kForm, true));
  http::Headers trailers{{"X-Api-Key", other()}, {"X-Sum", "7"}};
  ASSERT_FALSE(filter_->request_trailers(trailers));
  EXPECT_EQ(trailers[0].value, kOther);
  EXPECT_TRUE(trailers[0].sensitive);
  EXPECT_FALSE(trailers[1].sensitive);
  trailers = {{"X-Note", "it is " + std::string(kKey)}};
  const auto leak = filter_->request_trailers(trailers);
  ASSERT_TRUE(leak);
  EXPECT_EQ(leak->reason, Reason::SecretLeak);
  trailers = {{"X-Api-Key", key()}};
  const auto misuse = filter_->request_trailers(trailers);
  ASSERT_TRUE(misuse);
  EXPECT_EQ(misuse->reason, Reason::SecretMisuse);
  EXPECT_THAT(notices_, ElementsAre("used OTHER other.test 1", "leaked KEY other.test 1",
                                    "misused KEY other.test 1"));
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

TEST_F(SecretFilterTest, PassesARequestWhoseCodingIsNone) {
  start();
  request_.headers.push_back({"Content-Encoding", "gzip"});
  EXPECT_FALSE(head("application/json"));
  body("this is no gzip");
  EXPECT_FALSE(verdict_);
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

TEST_F(SecretFilterTest, RefusesAnAnswerThatItCannotRead) {
  start();
  EXPECT_FALSE(head());
  const auto refusal = answer_head({{"Content-Encoding", "unheard-of"}});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Reason::Unreadable);
  EXPECT_THAT(notices_, ElementsAre("unreadable KEY api.test 1"));
}

TEST_F(SecretFilterTest, PassesAnAnswerThatItCannotReadWhereNoSecretGoes) {
  start("elsewhere.test");
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head({{"Content-Encoding", "unheard-of"}}));
  EXPECT_EQ(answer_use_, BodyUse::Ignore);
}

TEST_F(SecretFilterTest, PassesAnAnswerThatItCannotReadWhereTheRuleSaysSo) {
  key_rule_.on_unreadable = "pass";
  start();
  EXPECT_FALSE(head());
  EXPECT_FALSE(answer_head({{"Content-Encoding", "unheard-of"}}));
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
