// Fields of multipart/form-data: a secret goes into them where its rule names the place `form`, and
// not into files or what is about the parts.
#include "secret_filter.h"

namespace mvm::guard {
namespace {

using egress::BodyUse;
using secret::Writing;
using ::testing::ElementsAre;

constexpr std::string_view kMultipart = "multipart/form-data; boundary=\"--a b\"";

std::string part(const std::string& head, const std::string& content) {
  return "----a b\r\n" + head + "\r\n\r\n" + content + "\r\n";
}
std::string field(const std::string& content, const std::string& more = "") {
  return part("Content-Disposition: form-data; name=\"f\"" + more, content);
}
const std::string kEnd = "----a b--\r\n";

class SecretForms : public SecretFilterTest {
 protected:
  void begin(std::string_view type = kMultipart) {
    start();
    notices_.clear();
    ASSERT_FALSE(head(type));
  }
  // What goes on of a body, which is the same in pieces of any size.
  std::string sent(const std::string& text, std::string_view type = kMultipart) {
    std::string out;
    for (const size_t step : {SIZE_MAX, size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}}) {
      std::string with_key = text;
      begin(type);
      for (size_t at = 0; (at = with_key.find('@', at)) != std::string::npos;)
        with_key.replace(at, 1, key());
      std::string gone = body(with_key, step);
      EXPECT_FALSE(verdict_);
      for (size_t at = 0; (at = gone.find(key(), at)) != std::string::npos;)
        gone.replace(at, key().size(), "@");
      EXPECT_TRUE(step == SIZE_MAX || gone == out) << step << "\n" << gone;
      out = gone;
    }
    return out;
  }

  const std::string key_text_{kKey};
};

TEST_F(SecretForms, AValueGoesIntoFieldsAndNotIntoFiles) {
  key_rule_.places = {"form"};
  EXPECT_EQ(sent(field("@") + field("x @\r\n--\r\n----a @ y@") +
                 field("the @ itself", "; filename=\"a;@\"") + field("@", "; FileName*=UTF-8''a") +
                 field("") + kEnd),
            field(key_text_) +
                field("x " + key_text_ + "\r\n--\r\n----a " + key_text_ + " y" + key_text_) +
                field("the @ itself", "; filename=\"a;@\"") + field("@", "; FileName*=UTF-8''a") +
                field("") + kEnd);
  EXPECT_EQ(use_, BodyUse::Rewrite);
  EXPECT_THAT(notices_, ElementsAre("used KEY api.test 1", "inert KEY api.test 1"));
}

TEST_F(SecretForms, AFieldIsWrittenAsItsTypeIs) {
  const std::string json = "; x=y\r\nContent-Type: application/json; charset=utf-8";
  for (const char* place : {"form", "body"}) {
    key_rule_.places = {place};
    EXPECT_EQ(sent(field("{\"k\":\"@\"}", json) + field("@") + kEnd),
              field("{\"k\":\"" + secret::written(kKey, Writing::Json) + "\"}", json) +
                  field(key_text_) + kEnd);
  }
}

TEST_F(SecretForms, WhatIsNoFieldStaysText) {
  key_rule_.places = {"form"};
  const std::string transfer = "\r\nContent-Transfer-Encoding: base64";
  for (const std::string& text : std::vector<std::string>{
           field("@", transfer) + kEnd, part("X-Other: 1", "@") + kEnd,
           part("Content-Disposition: form-data; name=\"@\"", "x") + kEnd, "@",
           "before @\r\n" + field("@") + kEnd, part("a folded:\r\n head", "@") + kEnd,
           field("") + kEnd + "@", "----a b\n\n@\n----a b--", "----a b"})
    EXPECT_EQ(sent(text), text);
  const std::string text = field("@") + kEnd;
  for (const char* type : {"multipart/mixed; boundary=\"--a b\"", "multipart/form-data",
                           "multipart/form-data; boundary=\"--a b", "text/plain"})
    EXPECT_EQ(sent(text, type), text) << type;
}

TEST_F(SecretForms, WhatTheRuleDoesNotSayStaysText) {
  key_rule_.places = {"header", "basic", "query"};
  EXPECT_EQ(sent(field("@") + kEnd), field("@") + kEnd);
  EXPECT_EQ(use_, BodyUse::Read);
}

// `body` is everywhere, files and heads of parts too.
TEST_F(SecretForms, ABodyIsMoreThanAForm) {
  key_rule_.places = {"body"};
  EXPECT_EQ(sent(field("@", "; filename=x") + part("X: @", "") + kEnd + "behind @"),
            field(key_text_, "; filename=x") + part("X: " + key_text_, "") + kEnd + "behind " +
                key_text_);
}

TEST_F(SecretForms, AFieldThatDoesNotEndHasItTooAndAValueIsRefusedAnywhere) {
  key_rule_.places = {"form"};
  EXPECT_EQ(sent("----a b\r\nContent-Disposition: form-data; name=f\r\n\r\n@"),
            "----a b\r\nContent-Disposition: form-data; name=f\r\n\r\n" + key_text_);
  const std::string other(kOther);
  for (const std::string& text :
       {field(other), part("X: " + other, ""), field("", "; filename=" + other),
        field(other, "; filename=x"), field("") + kEnd + other}) {
    for (const size_t step : {size_t{1}, SIZE_MAX}) {
      begin();
      verdict_.reset();
      EXPECT_EQ(body(text + kEnd, step).find(other), std::string::npos);
      ASSERT_TRUE(verdict_) << text;
      EXPECT_EQ(verdict_->reason, policy::Reason::SecretLeak);
    }
  }
}

// Nothing is put into what the guest has compressed, or says it has.
TEST_F(SecretForms, ACodedOneIsRead) {
  key_rule_.places = {"form"};
  start();
  request_.headers.push_back({"Content-Encoding", "gzip"});
  ASSERT_FALSE(head(kMultipart));
  EXPECT_EQ(use_, BodyUse::Read);
  const std::string text = field(key()) + kEnd;
  EXPECT_EQ(body(text), text);
}

}
}
