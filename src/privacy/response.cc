// What comes back.

#include <algorithm>
#include <array>

#include "pii_filter.h"

namespace mvm::privacy {
namespace {

using egress::BodyUse;
using egress::FilterVerdict;
using protect::Escaping;
using protect::OnMismatch;

constexpr std::array<std::string_view, protect::kMismatches> kMismatchWords = {
    "case_changed", "truncated", "expired", "replayed", "unknown", "reencoded"};

// Bytes in which nobody reads a token.
bool is_binary(std::string_view type) {
  static constexpr std::array kTypes = std::to_array<std::string_view>(
      {"application/zip", "application/gzip", "application/x-gzip", "application/x-tar",
       "application/pdf", "application/wasm", "application/zstd", "application/x-xz",
       "application/vnd.docker.image.rootfs.diff.tar.gzip",
       "application/vnd.oci.image.layer.v1.tar+gzip", "application/x-git-upload-pack-result",
       // Frames that say their length, and checksums of it: a value is longer than its token.
       "application/vnd.amazon.eventstream", "application/grpc", "application/grpc+proto",
       "application/protobuf", "application/x-protobuf"});
  for (const std::string_view family : {"image/", "audio/", "video/", "font/"})
    if (type.starts_with(family) && !type.ends_with("+xml")) return true;
  return std::ranges::find(kTypes, type) != kTypes.end();
}

Escaping escaping_of(const protect::MediaType& type) {
  switch (protect::body_form(type)) {
    case protect::BodyForm::Json:
      return Escaping::JsonString;
    case protect::BodyForm::Fields:
      return Escaping::Url;
    case protect::BodyForm::Xml:
      return Escaping::Html;
    default:
      return type.type == "text/html" ? Escaping::Html : Escaping::Plain;
  }
}

bool is_lines(std::string_view type) {
  return type == "application/x-ndjson" || type == "application/ndjson" ||
         type == "application/jsonl" || type == "application/stream+json" ||
         type == "application/x-json-stream";
}

}

std::string PiiFilter::restored(std::string_view text, protect::Restorer& restorer) {
  std::string out;
  if (!restorer.whole(text, source_.clock_(), out)) mismatch_ = true;
  return out;
}

void PiiFilter::restore_fields(http::Headers& headers) {
  const auto on_mismatch = source_.rules_.on_mismatch;
  // Addresses in fields are percent-encoded, the rest is not: what is no token in one writing is
  // judged in the other.
  std::optional<protect::Restorer> in_url;
  protect::Restorer plain(tokens_->vault, Escaping::Plain, on_mismatch, &source_.past_);
  TokenWatch watch(tokens_->index, Escaping::Plain, on_mismatch, TokenWatch::Lines::No);
  for (http::Header& header : headers) {
    if (!watch.may_find(header.value) && !plain.may_change(header.value) &&
        header.value.find('%') == std::string::npos)
      continue;
    std::string value = header.value;
    if (value.find('%') != std::string::npos) {
      if (!in_url) in_url.emplace(tokens_->vault, Escaping::Url, OnMismatch::Keep);
      value = restored(value, *in_url);
    }
    std::string watched;
    if (!watch.feed(value, watched) || !watch.finish(watched)) mismatch_ = true;
    value = restored(watched, plain);
    // A value may be none that can stand in a field.
    if (http::is_field_value(value)) header.value = std::move(value);
  }
  if (in_url) note(Note::Kind::Restored, "", "header", in_url->counts().restored);
  count(watch.counts(), "header");
  count(plain.counts(), "header");
}

// Where no token is, none can be put back, nor be out of place.
bool PiiFilter::has_tokens() const {
  return source_.issued_ || (!request_done_ && plan_.has(Action::Tokenize));
}

FilterVerdict PiiFilter::response_trailers(http::Headers& trailers) {
  if (!has_tokens()) return {};
  restore_fields(trailers);
  return mismatch_ ? mismatched() : FilterVerdict{};
}

FilterVerdict PiiFilter::response_head(http::ResponseHead& head, BodyUse& body) {
  if (!has_tokens()) return {};
  restore_fields(head.headers);
  if (mismatch_) return mismatched();
  if (head.status == 101 || head.framing.kind == http::BodyKind::None) return {};
  if (!make_restorer(head)) return {};
  // They are of what came, not of what is given.
  if (!tokens_->vault.entries().empty())
    std::erase_if(head.headers, [](const http::Header& header) {
      for (const std::string_view name : {"content-md5", "digest", "content-digest", "repr-digest"})
        if (http::same_name(header.name, name)) return true;
      return false;
    });
  body = BodyUse::Rewrite;
  return {};
}

// An answer's text, as UTF-8.
class PiiFilter::Restoring final : public protect::BodyRewriter {
 public:
  explicit Restoring(PiiFilter& filter) : filter_(filter) {}
  bool feed(std::string_view text, std::string& out) override {
    return filter_.restore(text, false, out);
  }
  bool finish(std::string& out) override { return filter_.restore({}, true, out); }

 private:
  PiiFilter& filter_;
};

// False: its body passes as it is.
bool PiiFilter::make_restorer(const http::ResponseHead& head) {
  const auto codings = http::content_codings(head.headers);
  const std::string* field = http::find(head.headers, "content-type");
  const auto type = protect::parse_media_type(field == nullptr ? "" : *field);
  if (!codings || (type && is_binary(type->type))) return false;
  const OnMismatch on_mismatch = source_.rules_.on_mismatch;
  using Kind = protect::EventRestorer::Kind;
  using Lines = TokenWatch::Lines;
  const bool events = type && (type->type == "text/event-stream" || is_lines(type->type));
  const Escaping escaping = type ? escaping_of(*type) : Escaping::Plain;
  watch_.emplace(tokens_->index, escaping, on_mismatch, events ? Lines::Yes : Lines::No);
  if (events)
    events_ = std::make_unique<protect::EventRestorer>(
        tokens_->vault, is_lines(type->type) ? Kind::Lines : Kind::ServerSent, on_mismatch,
        &source_.past_);
  else
    restorer_ =
        std::make_unique<protect::Restorer>(tokens_->vault, escaping, on_mismatch, &source_.past_);
  answer_ = std::make_unique<Restoring>(*this);
  if (type && protect::body_form(*type) != protect::BodyForm::Opaque)
    answer_ = protect::unicode_rewriter(type->charset, std::move(answer_));
  response_ = coded(*codings);
  return true;
}

bool PiiFilter::restore(std::string_view text, bool last, std::string& out) {
  const auto now = source_.clock_();
  std::string watched;
  bool fine = watch_->feed(text, watched) && (!last || watch_->finish(watched));
  const auto through = [&](auto& restorer) {
    return restorer.feed(watched, now, out) && (!last || restorer.finish(now, out));
  };
  fine = fine && (events_ ? through(*events_) : through(*restorer_));
  mismatch_ = mismatch_ || !fine;
  return fine;
}

FilterVerdict PiiFilter::response_body(ByteView in, bool last, Bytes& out) {
  const auto restore = [&](std::string_view text, std::string& made) {
    return answer_->feed(text, made);
  };
  const Passed passed = pass(response_, in, restore, true, out);
  if (mismatch_) return mismatched();
  const auto damaged = [&](std::string_view why) -> FilterVerdict {
    egress::FilterRefusal refusal;
    refusal.reason = policy::Reason::Unreadable;
    refusal.rule = "pii";
    refusal.detail = why;
    refusal.answer.status = 502;
    refusal.answer.reason = policy::reason_word(refusal.reason);
    refusal.answer.message = "the answer cannot be decoded: " + std::string(why);
    return refusal;
  };
  constexpr std::string_view kNoText = "it is not text of the charset that it is said to be";
  if (passed == Passed::Damaged) return damaged(response_.decoder->problem());
  if (passed == Passed::Refused) return damaged(kNoText);
  if (!last) return {};
  if (response_.decoder && !response_.decoder->whole())
    return damaged("its content coding ends too early");
  std::string rest;
  const bool whole = answer_->finish(rest);
  if (mismatch_) return mismatched();
  if (!whole) return damaged(kNoText);
  end(response_, rest, out);
  return {};
}

FilterVerdict PiiFilter::mismatched() {
  count_body();
  answer_.reset();
  watch_.reset();
  restorer_.reset();
  events_.reset();
  tell();
  egress::FilterRefusal refusal;
  refusal.reason = policy::Reason::PersonalData;
  refusal.rule = "pii.on_mismatch";
  refusal.answer.status = 502;
  refusal.answer.reason = policy::reason_word(refusal.reason);
  refusal.answer.message =
      "the answer holds a token of personal data that was changed, or is of another request";
  return refusal;
}

void PiiFilter::count(const protect::Restorer::Counts& counts, std::string_view place) {
  note(Note::Kind::Restored, "", place, counts.restored);
  for (const auto& [kind, of, times] : counts.mismatches)
    note(Note::Kind::Mismatched, of ? class_name(*of) : "", place, times,
         kMismatchWords.at(static_cast<size_t>(kind)));
}

void PiiFilter::count_body() {
  if (watch_) count(watch_->counts(), "body");
  if (restorer_) count(restorer_->counts(), "body");
  if (events_) count(events_->counts(), "body");
}

}
