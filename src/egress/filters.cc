#include "filters.h"

#include <algorithm>
#include <ranges>

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

Filters::Filters(std::span<const std::shared_ptr<FilterSource>> sources, const Exchange& exchange) {
  for (const auto& source : sources)
    if (auto filter = source->begin(exchange)) stages_.push_back({std::move(filter)});
}

Filters& Filters::operator=(Filters&& other) noexcept {
  end(false);
  stages_.swap(other.stages_);
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
  for (Stage& stage : stages_) {
    if (auto refusal = stage.filter->request_head(head, stage.request)) return refusal;
    if (!can_be_sent(head.headers) || !http::is_target(head.target)) return not_sendable();
  }
  return {};
}

FilterVerdict Filters::interim_head(http::ResponseHead& head) {
  for (Stage& stage : std::views::reverse(stages_)) {
    if (auto refusal = stage.filter->interim_head(head)) return refusal;
    if (!can_be_sent(head.headers)) return not_sendable();
  }
  return {};
}

FilterVerdict Filters::response_head(http::ResponseHead& head) {
  for (Stage& stage : std::views::reverse(stages_)) {
    if (auto refusal = stage.filter->response_head(head, stage.response)) return refusal;
    if (!can_be_sent(head.headers)) return not_sendable();
  }
  return {};
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

FilterVerdict Filters::pass(std::span<Stage* const> order, Piece piece, BodyUse Stage::* use,
                            ByteView in, bool last, Bytes& out) {
  Bytes held;
  for (Stage* stage : order) {
    if (stage->*use == BodyUse::Ignore || (in.empty() && !last)) continue;
    Bytes made;
    if (auto refusal = feed(*stage->filter, piece, in, last, made)) return refusal;
    if (stage->*use == BodyUse::Read) continue;
    held = std::move(made);
    in = held;
  }
  out.insert(out.end(), in.begin(), in.end());
  return {};
}

FilterVerdict Filters::request_body(ByteView in, bool last, Bytes& out) {
  std::vector<Stage*> order;
  for (Stage& stage : stages_) order.push_back(&stage);
  return pass(order, &ExchangeFilter::request_body, &Stage::request, in, last, out);
}

FilterVerdict Filters::response_body(ByteView in, bool last, Bytes& out) {
  std::vector<Stage*> order;
  for (Stage& stage : std::views::reverse(stages_)) order.push_back(&stage);
  return pass(order, &ExchangeFilter::response_body, &Stage::response, in, last, out);
}

FilterVerdict Filters::request_trailers(http::Headers& trailers) {
  if (trailers.empty()) return {};
  for (Stage& stage : stages_) {
    if (auto refusal = stage.filter->request_trailers(trailers)) return refusal;
    if (!can_be_sent(trailers)) return not_sendable();
  }
  return {};
}

FilterVerdict Filters::response_trailers(http::Headers& trailers) {
  if (trailers.empty()) return {};
  for (Stage& stage : std::views::reverse(stages_)) {
    if (auto refusal = stage.filter->response_trailers(trailers)) return refusal;
    if (!can_be_sent(trailers)) return not_sendable();
  }
  return {};
}

void Filters::end(bool whole) noexcept {
  for (Stage& stage : std::exchange(stages_, {})) stage.filter->ended(whole);
}

}
