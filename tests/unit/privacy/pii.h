#pragma once
// One exchange's filter by itself: requests are sent through it and answers come back.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/http/coding.h"
#include "mvm/privacy/filter.h"

namespace mvm::privacy {

using egress::BodyUse;

inline constexpr std::string_view kMail = "jane.doe@example.com";

inline http::RequestHead request(std::string target, http::Headers headers = {},
                                 uint64_t length = 1) {
  http::RequestHead head;
  head.method = "POST";
  head.target = std::move(target);
  head.headers = std::move(headers);
  head.framing = {http::BodyKind::Length, length};
  return head;
}

inline http::ResponseHead response(http::Headers headers = {}) {
  http::ResponseHead head;
  head.status = 200;
  head.headers = std::move(headers);
  head.framing = {http::BodyKind::Chunked, 0};
  return head;
}

inline std::string encoded(http::Coding coding, std::string_view text) {
  http::Encoder encoder({coding});
  Bytes out;
  encoder.write(as_bytes(text), false, out);
  encoder.finish(out);
  return std::string(as_text(out));
}
inline std::string decoded(http::Coding coding, std::string_view data) {
  http::Decoder decoder({coding});
  Bytes out;
  ByteView input = as_bytes(data);
  EXPECT_EQ(decoder.next(input, out, 1 << 20), http::Decoder::Step::More);
  EXPECT_TRUE(decoder.whole());
  return std::string(as_text(out));
}

class Pii : public ::testing::Test {
 protected:
  void make(proto::PiiConfig config) {
    source_ = std::make_unique<PiiSource>(
        compile(config), [this](const Note& note) { notes_.push_back(note); },
        [this] { return now_; });
  }
  void make(std::string mode) {
    proto::PiiConfig config;
    config.mode = std::move(mode);
    make(config);
  }
  std::unique_ptr<egress::ExchangeFilter> begin() {
    return source_->begin({1, index_++, "api.example", 443, true});
  }

  struct Sent {
    http::RequestHead head;
    std::string body;
    std::string refusal;
    BodyUse use = BodyUse::Ignore;
  };
  static Sent send(egress::ExchangeFilter& filter, http::RequestHead head, std::string_view body,
                   size_t step = 1 << 20) {
    Sent sent;
    sent.head = std::move(head);
    if (auto verdict = filter.request_head(sent.head, sent.use)) {
      sent.refusal = verdict->answer.reason + ": " + verdict->answer.message;
      return sent;
    }
    if (sent.use == BodyUse::Ignore) {
      sent.body = body;
      return sent;
    }
    Bytes out;
    for (size_t at = 0; at < body.size() + 1; at += step) {
      const bool last = at + step > body.size();
      const auto piece = at < body.size() ? body.substr(at, step) : std::string_view();
      if (auto verdict = filter.request_body(as_bytes(piece), last, out)) {
        sent.refusal = verdict->answer.reason + ": " + verdict->answer.message;
        break;
      }
      if (last) break;
    }
    sent.body = as_text(out);
    return sent;
  }
  struct Got {
    http::ResponseHead head;
    std::string body;
    std::string refusal;
  };
  static Got receive(egress::ExchangeFilter& filter, http::ResponseHead head, std::string_view body,
                     size_t step = 1 << 20) {
    Got got;
    got.head = std::move(head);
    BodyUse use = BodyUse::Ignore;
    if (auto verdict = filter.response_head(got.head, use)) {
      got.refusal = verdict->answer.message;
      return got;
    }
    if (use == BodyUse::Ignore) {
      got.body = body;
      return got;
    }
    Bytes out;
    for (size_t at = 0;; at += step) {
      const bool last = at + step >= body.size();
      if (auto verdict = filter.response_body(as_bytes(body.substr(at, step)), last, out)) {
        got.refusal = verdict->answer.message;
        break;
      }
      if (last) break;
    }
    got.body = as_text(out);
    return got;
  }
  std::vector<std::string> told() const {
    static constexpr std::array kKinds = {"detected", "tokenized",  "redacted",   "denied",
                                          "restored", "mismatched", "undecodable"};
    std::vector<std::string> out;
    for (const Note& note : notes_)
      out.push_back(std::string(kKinds.at(static_cast<size_t>(note.kind))) + " " +
                    std::string(note.change) + (note.change.empty() ? "" : " ") + note.name + " " +
                    std::string(note.place) + " " + std::to_string(note.count));
    return out;
  }

  protect::Vault::Time now_{};
  std::vector<Note> notes_;
  std::unique_ptr<PiiSource> source_;
  uint64_t index_ = 0;
};

}
