// Bodies of HTTP/2 streams: what a rule puts a secret into, in pieces of any size, and what passes
// byte for byte with one on. The server says what it got by its sum, because what it says in clear
// is masked.
#include <random>

#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/guard/secret_filter.h"
#include "mvm/http/coding.h"
#include "mvm/secret/text.h"

#include "../egress/http2_rig.h"

namespace mvm::egress {
namespace {

using guard::SecretNotice;
using guard::SecretSource;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kValue = "sk-real\"value&0123456789";

class SecretBodies : public Http2 {
 protected:
  void start(const std::vector<std::string>& places) {
    proto::SecretsConfig config;
    config.rules.resize(1);
    config.rules[0].name = "KEY";
    config.rules[0].hosts = {"api.example"};
    config.rules[0].places = places;
    config.values = {{"KEY", kValue}};
    secrets_ = std::make_shared<secret::Secrets>(config);
    settings_.filters.push_back(std::make_shared<SecretSource>(
        secrets_, SecretSource::Watcher{[](const SecretNotice&) { return true; },
                                        [](const SecretNotice&) {}}));
    allow_host("api.example");
    settings_.policy.inspect = policy::inspected_for({secrets_->all()[0].binding});
    serve_http2();
    start_proxy();
  }
  std::string key() const { return secrets_->all()[0].placeholder; }
  // What the server answers to a body of this type.
  std::string post(const std::string& path, const std::string& type, const std::string& body,
                   std::vector<std::string> words = {}) {
    words.insert(words.end(), {"-m", "30", "-H", "Content-Type: " + type, "--data-binary",
                               "@" + file("body", body), "https://api.example" + path});
    const auto exit = curl(std::move(words));
    EXPECT_EQ(exit.err, "");
    return exit.out;
  }
  static std::string sum(std::string_view text) { return hex(crypto::sha256(as_bytes(text))); }

  std::shared_ptr<const secret::Secrets> secrets_;
};

constexpr const char* kForm = "application/x-www-form-urlencoded";

TEST_F(SecretBodies, AValueGoesIntoJsonAndIsMaskedInTheAnswer) {
  start({"body"});
  const std::string written = secret::written(kValue, secret::Writing::Json);
  const std::string sent = "{\"key\":\"" + key() + "\",\"n\":1}";
  const std::string got = "{\"key\":\"" + written + "\",\"n\":1}";
  EXPECT_EQ(post("/sum", "application/json", sent), sum(got));
  EXPECT_EQ(post("/echo", "application/json", sent),
            std::to_string(got.size()) + "|undefined|" + sent);
}

TEST_F(SecretBodies, AValueGoesIntoAFormAndNothingElse) {
  start({"form"});
  const std::string written = secret::written(kValue, secret::Writing::Percent);
  EXPECT_EQ(post("/sum", kForm, "grant=x&secret=" + key()), sum("grant=x&secret=" + written));
  EXPECT_EQ(post("/sum", "text/plain", "secret=" + key()), sum("secret=" + key()));
}

// Too much to be collected: it streams.
TEST_F(SecretBodies, LargeFormsAreRewritten) {
  start({"form"});
  const std::string filler = "&filler=" + std::string(1 << 20, 'f') + "&again=";
  const std::string written = secret::written(kValue, secret::Writing::Percent);
  EXPECT_EQ(post("/sum", kForm, "secret=" + key() + filler + key()),
            sum("secret=" + written + filler + written));
}

TEST_F(SecretBodies, AValueGoesIntoAFieldOfAMultipartFormAndNotIntoAFile) {
  start({"form"});
  const std::string filler(1 << 20, 'f');
  const auto form = [&](const std::string& in_field) {
    return "--XX\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n" + filler + key() +
           "\r\n--XX\r\nContent-Disposition: form-data; name=secret\r\n\r\n" + in_field +
           "\r\n--XX--\r\n";
  };
  EXPECT_EQ(post("/sum", "multipart/form-data; boundary=XX", form(key())), sum(form(kValue)));
}

TEST_F(SecretBodies, AValueGoesInAcrossFrames) {
  start({"body"});
  const auto exit = python("KEY = b'" + key() + R"('
c = Client()
n = c.ask('/sum', 'POST', end=False, more=[('content-type', 'text/plain')])
for byte in b'the key is ' + KEY + b' indeed': c.c.send_data(n, bytes([byte])); c.flush()
c.c.end_stream(n); c.flush()
print(c.answer(n)['body'].decode())
)");
  EXPECT_EQ(exit.out, sum("the key is " + std::string(kValue) + " indeed") + "\n") << exit.err;
}

TEST_F(SecretBodies, WhatHoldsNoneOfItPassesByteForByte) {
  start({"header", "body", "form"});
  std::mt19937 random(15);
  std::string bytes(300'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  http::Encoder encoder({http::Coding::Gzip});
  Bytes coded;
  encoder.write(as_bytes("{\"a\":\"" + std::string(100'000, 'b') + bytes.substr(0, 1000) + "\"}"),
                false, coded);
  encoder.finish(coded);
  const std::string gzip(as_text(coded));
  for (const char* type : {"application/octet-stream", "application/json", kForm}) {
    EXPECT_EQ(post("/sum", type, bytes), sum(bytes)) << type;
    EXPECT_EQ(post("/sum", type, gzip, {"-H", "Content-Encoding: gzip"}), sum(gzip)) << type;
  }
}

TEST_F(SecretBodies, AValueThatSaysItIsCodedDoesNotLeave) {
  start({"header"});
  for (const char* coding : {"gzip", "x-unknown"})
    EXPECT_THAT(post("/echo", "text/plain", "it is " + std::string(kValue),
                     {"-H", std::string("Content-Encoding: ") + coding}),
                AllOf(HasSubstr("secret_leak"), Not(HasSubstr("undefined"))));
}

}
}
