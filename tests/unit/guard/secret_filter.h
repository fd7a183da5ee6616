#pragma once
// The filter by itself, with heads and pieces as the proxy hands them over.

#include <algorithm>

#include <gmock/gmock.h>

#include "mvm/guard/secret_filter.h"
#include "mvm/secret/text.h"

namespace mvm::guard {

inline constexpr std::string_view kKey = "sk-real\"value/0123456789";
inline constexpr std::string_view kOther = "other-real-value-987654";
inline constexpr std::string_view kForm = "application/x-www-form-urlencoded";

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
    config.values = {{"KEY", key_value_}, {"OTHER", std::string(kOther)}};
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

  egress::FilterVerdict head(std::string_view type = "", bool chunked = false) {
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
  egress::FilterVerdict answer_head(http::Headers headers = {}) {
    answer_.headers = std::move(headers);
    answer_.framing = {http::BodyKind::Chunked, 0};
    return filter_->response_head(answer_, answer_use_);
  }

  proto::SecretRule key_rule_;
  proto::SecretRule other_rule_;
  std::string key_value_{kKey};
  std::shared_ptr<const secret::Secrets> secrets_;
  std::optional<SecretSource> source_;
  std::unique_ptr<egress::ExchangeFilter> filter_;
  http::RequestHead request_{"GET", "/", 1, {}, {}};
  http::ResponseHead answer_{200, "OK", 1, {}, {}};
  egress::BodyUse use_ = egress::BodyUse::Ignore;
  egress::BodyUse answer_use_ = egress::BodyUse::Ignore;
  egress::FilterVerdict verdict_;
  std::vector<std::string> notices_;
  std::vector<std::string> ends_;
  bool recordable_ = true;

 private:
  std::string pass(std::string_view text, size_t step,
                   egress::FilterVerdict (egress::ExchangeFilter::*piece)(ByteView, bool, Bytes&)) {
    Bytes out;
    for (size_t at = 0; at < text.size() && !verdict_; at += std::min(step, text.size() - at))
      verdict_ = (*filter_.*piece)(as_bytes(text.substr(at, step)), false, out);
    if (!verdict_) verdict_ = (*filter_.*piece)({}, true, out);
    return std::string(as_text(out));
  }
};

}
