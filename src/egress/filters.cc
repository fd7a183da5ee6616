#include "filters.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace mvm::egress {
namespace {

// What a filter has put in may have come from anywhere.
bool can_be_sent(const http::Headers& headers) {
  return std::ranges::all_of(headers, [](const http::Header& header) {
    return http::is_token(header.name) && http::is_field_value(header.value);
  });
}

FilterVerdict not_sendable() {
  FilterRefusal refusal;
  refusal.reason = policy::Reason::ProtocolUnsupported;
  refusal.detail = "a value put into a head cannot stand there";
  refusal.answer.status = 502;
  refusal.answer.reason = policy::reason_word(refusal.reason);
  refusal.answer.message = "the sandbox's proxy could not put a value into this message";
  return refusal;
}

}

FilterRefusal not_recorded() {
  FilterRefusal refusal;
  refusal.reason = policy::Reason::NotRecorded;
  refusal.answer.status = 503;
  refusal.answer.reason = policy::reason_word(refusal.reason);
  refusal.answer.message = "the sandbox's audit log takes no records, so no request is let out";
  return refusal;
}

Filters::Filters(std::span<const std::shared_ptr<FilterSource>> sources, const Exchange& exchange,
                 Commit& commit)
    : commit_(&commit) {
  stages_.reserve(sources.size());
  for (const auto& source : sources)
    if (auto filter = source->begin(exchange)) stages_.push_back({std::move(filter)});
}

Filters& Filters::operator=(Filters&& other) noexcept {
  end(false);
  stages_.swap(other.stages_);
  commit_ = other.commit_;
  collecting_ = other.collecting_;
  left_ = other.left_;
  return *this;
}

BodyUse Filters::request_use() const noexcept {
  BodyUse most = BodyUse::Ignore;
  for (const Stage& stage : stages_) most = std::max(most, stage.request);
  return most;
}

BodyUse Filters::response_use() const noexcept {
  BodyUse most = BodyUse::Ignore;
  for (const Stage& stage : stages_) most = std::max(most, stage.response);
  return most;
}

FilterVerdict Filters::request_head(http::RequestHead& head) {
  if (stages_.empty()) return {};
  for (Stage& stage : stages_)
    if (auto refusal = stage.filter->request_head(head, stage.request)) return refusal;
  if (!can_be_sent(head.headers) || !http::is_target(head.target)) return not_sendable();
  return {};
}

FilterVerdict Filters::commit() const {
  if (stages_.empty() || commit_->before()) return {};
  return not_recorded();
}

void Filters::request_left() noexcept {
  if (std::exchange(left_, true)) return;
  show_request();
  for (const Stage& stage : stages_) stage.filter->request_left();
}

FilterVerdict Filters::interim_head(http::ResponseHead& head) {
  for (Stage& stage : std::views::reverse(stages_)) {
    if (auto refusal = stage.filter->interim_head(head)) return refusal;
    if (!can_be_sent(head.headers)) return not_sendable();
  }
  return commit();
}

FilterVerdict Filters::response_head(http::ResponseHead& head) {
  if (stages_.empty()) return {};
  show_request();
  for (Stage& stage : std::views::reverse(stages_))
    if (auto refusal = stage.filter->response_head(head, stage.response)) return refusal;
  if (!can_be_sent(head.headers)) return not_sendable();
  return commit();
}

// The end goes with the last piece.
FilterVerdict Filters::feed(ExchangeFilter& filter, Piece piece, ByteView in, bool last,
                            Bytes& out) {
  do {
    const size_t length = std::min(in.size(), ExchangeFilter::kMaxPiece);
    const ByteView part = in.first(length);
    in = in.subspan(length);
    if (auto refusal = (filter.*piece)(part, last && in.empty(), out)) return refusal;
  } while (!in.empty());
  return {};
}

// For a filter that watches: what has passed is shown to it later, when nobody waits for it.
void Filters::keep(ExchangeFilter& filter, Piece piece, Stage::Passed& passed, ByteView in,
                   bool last) {
  if (passed.bytes.size() + in.size() > ExchangeFilter::kMaxPiece) show(filter, piece, passed);
  passed.bytes.insert(passed.bytes.end(), in.begin(), in.end());
  passed.last = last;
}

void Filters::show(ExchangeFilter& filter, Piece piece, Stage::Passed& passed) {
  if (passed.bytes.empty() && !passed.last) return;
  const auto now = std::exchange(passed, {});
  Bytes unused;
  static_cast<void>(feed(filter, piece, now.bytes, now.last, unused));
}

void Filters::show_request() {
  for (Stage& stage : stages_)
    show(*stage.filter, &ExchangeFilter::request_body, stage.request_passed);
}

template <typename Order>
FilterVerdict Filters::pass(Order&& order, Piece piece, BodyUse Stage::* use,
                            Stage::Passed Stage::* passed, ByteView in, bool last, Bytes& out) {
  Bytes held;
  for (Stage& stage : order) {
    if (stage.*use == BodyUse::Ignore || (in.empty() && !last)) continue;
    if (stage.*use == BodyUse::Watch) {
      keep(*stage.filter, piece, stage.*passed, in, last);
      continue;
    }
    Bytes made;
    if (auto refusal = feed(*stage.filter, piece, in, last, made)) return refusal;
    if (stage.*use != BodyUse::Rewrite) continue;
    held = std::move(made);
    in = held;
  }
  out.insert(out.end(), in.begin(), in.end());
  return {};
}

FilterVerdict Filters::request_body(ByteView in, bool last, Bytes& out) {
  if (auto refusal = pass(stages_, &ExchangeFilter::request_body, &Stage::request,
                          &Stage::request_passed, in, last, out))
    return refusal;
  return collecting_ && !last ? FilterVerdict() : commit();
}

FilterVerdict Filters::response_body(ByteView in, bool last, Bytes& out) {
  if (auto refusal = pass(std::views::reverse(stages_), &ExchangeFilter::response_body,
                          &Stage::response, &Stage::response_passed, in, last, out))
    return refusal;
  return commit();
}

FilterVerdict Filters::request_trailers(http::Headers& trailers) {
  if (trailers.empty()) return {};
  for (Stage& stage : stages_) {
    if (auto refusal = stage.filter->request_trailers(trailers)) return refusal;
    if (!can_be_sent(trailers)) return not_sendable();
  }
  return commit();
}

FilterVerdict Filters::response_trailers(http::Headers& trailers) {
  if (trailers.empty()) return {};
  for (Stage& stage : std::views::reverse(stages_)) {
    if (auto refusal = stage.filter->response_trailers(trailers)) return refusal;
    if (!can_be_sent(trailers)) return not_sendable();
  }
  return commit();
}

void Filters::end(bool whole) noexcept {
  if (stages_.empty()) return;
  show_request();
  for (Stage& stage : std::exchange(stages_, {})) {
    show(*stage.filter, &ExchangeFilter::response_body, stage.response_passed);
    stage.filter->ended(whole);
  }
  commit_->end();
}

}
