#include "mvm/metering/filter.h"

#include <utility>

#include "mvm/meter/journal.h"
#include "mvm/meter/reader.h"
#include "mvm/meter/stream_usage.h"

namespace mvm::metering {
namespace {

using egress::BodyUse;
using egress::FilterRefusal;
using egress::FilterVerdict;

void append(Bytes& out, std::string_view text) {
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

bool is_event_stream(const http::Headers& headers) {
  const std::string* type = http::find(headers, "content-type");
  constexpr std::string_view kType = "text/event-stream";
  return type != nullptr && http::same_name(std::string_view(*type).substr(0, kType.size()), kType);
}

bool is_encoded(const http::Headers& headers) {
  const std::string* coding = http::find(headers, "content-encoding");
  return coding != nullptr && !coding->empty() && !http::same_name(*coding, "identity");
}

// In the shape that OpenAI's clients read ("type", "code"), which the others' read too.
FilterRefusal refusal_of(const meter::Denial& denial, meter::Provider provider) {
  FilterRefusal out;
  out.reason = policy::Reason::AiBudget;
  out.rule = "ai.budget." + denial.budget;
  out.detail = denial.message;
  const std::string code = denial.reserved ? "ai_budget_reserved" : "ai_budget_exhausted";
  out.answer.status = 429;
  out.answer.reason = policy::reason_word(out.reason);
  out.answer.message = denial.message;
  out.answer.details = {{"type", code},
                        {"code", code},
                        {"budget", denial.budget},
                        {"limit", std::to_string(denial.limit)},
                        {"used", std::to_string(denial.used)},
                        {"provider", std::string(meter::provider_word(provider))}};
  return out;
}

class MeterFilter : public egress::ExchangeFilter {
 public:
  MeterFilter(const meter::Catalogue& catalogue, bool inject, meter::Ledger& ledger,
              const egress::Exchange& exchange)
      : catalogue_(&catalogue),
        ledger_(&ledger),
        inject_(inject),
        host_(exchange.host),
        port_(exchange.port) {}

  FilterVerdict request_head(http::RequestHead& head, BodyUse& body) override;
  FilterVerdict request_body(ByteView in, bool last, Bytes& out) override;
  FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) override;
  FilterVerdict response_body(ByteView in, bool last, Bytes& out) override;
  void ended(bool whole) noexcept override;

 private:
  FilterVerdict end_request();
  FilterVerdict refuse(const meter::Denial& denial) const {
    return refusal_of(denial, call_.provider);
  }
  bool under_budget() const;

  const meter::Catalogue* catalogue_;
  meter::Ledger* ledger_;
  bool inject_;
  std::string host_;
  uint16_t port_;
  meter::Call call_;
  uint64_t id_ = 0;  // 0: nothing is metered, or not any more
  meter::RequestReader request_;
  std::unique_ptr<meter::UsageAsker> asker_;
  bool request_done_ = false;
  bool unreadable_ = false;  // the answer is encoded
  std::unique_ptr<meter::ResponseReader> response_;
  std::unique_ptr<meter::UsageEventRemover> remover_;
  bool response_done_ = false;
};

// Whether a WebSocket, whose use nobody can count, would get around something.
bool MeterFilter::under_budget() const {
  const meter::Budget& budget = ledger_->budget();
  return budget.total_tokens || budget.input_tokens || budget.output_tokens || budget.cost ||
         ledger_->terms().on_unknown == meter::OnUnknown::Refuse;
}

FilterVerdict MeterFilter::request_head(http::RequestHead& head, BodyUse& body) {
  const bool upgrade = http::has_token(head.headers, "upgrade", "websocket");
  auto call = catalogue_->recognise(host_, port_, upgrade ? "POST" : head.method, head.target);
  if (!call) return {};
  call_ = std::move(*call);
  if (upgrade) {
    call_.operation = meter::Operation::Realtime;
    if (under_budget())
      return refuse({"realtime", 0, 0, false,
                     "what a WebSocket to an AI provider uses cannot be counted, and the sandbox "
                     "has a budget"});
  }
  meter::Bounds bounds;
  if (head.framing.kind == http::BodyKind::Length) bounds.input = head.framing.length;
  if (const auto denial = ledger_->admit(call_.provider, bounds, id_)) return refuse(*denial);
  // What nobody can read here nobody could count.
  for (http::Header& header : head.headers)
    if (http::same_name(header.name, "accept-encoding")) header.value = "identity";
  if (head.framing.kind == http::BodyKind::None) return end_request();
  body = BodyUse::Read;
  if (inject_ && call_.asks_for_stream_usage && !is_encoded(head.headers)) {
    body = BodyUse::Rewrite;
    asker_ = std::make_unique<meter::UsageAsker>();
  }
  return {};
}

FilterVerdict MeterFilter::end_request() {
  request_done_ = true;
  request_.finish();
  if (id_ == 0) return {};
  const auto denial = ledger_->bound(id_, meter::bounds_of(request_.facts()));
  if (!denial) return {};
  id_ = 0;
  return refuse(*denial);
}

FilterVerdict MeterFilter::request_body(ByteView in, bool last, Bytes& out) {
  request_.feed(as_text(in));
  if (asker_) {
    std::string text;
    asker_->feed(as_text(in), text);
    if (last) asker_->finish(text);
    append(out, text);
  }
  return last ? end_request() : FilterVerdict{};
}

FilterVerdict MeterFilter::response_head(http::ResponseHead& head, BodyUse& body) {
  if (id_ == 0) return {};
  response_ = std::make_unique<meter::ResponseReader>(call_);
  response_->head(head);
  unreadable_ = is_encoded(head.headers);
  if (unreadable_ || head.status == 101) return {};
  body = BodyUse::Read;
  if (asker_ && asker_->asked() && is_event_stream(head.headers)) {
    body = BodyUse::Rewrite;
    remover_ = std::make_unique<meter::UsageEventRemover>();
  }
  return {};
}

FilterVerdict MeterFilter::response_body(ByteView in, bool last, Bytes& out) {
  response_->feed(as_text(in));
  response_done_ = response_done_ || last;
  if (remover_) {
    std::string text;
    remover_->feed(as_text(in), text);
    if (last) remover_->finish(text);
    append(out, text);
  }
  return {};
}

void MeterFilter::ended(bool whole) noexcept {
  const uint64_t id = std::exchange(id_, 0);
  if (id == 0) return;
  meter::ResponseReader::Result result;
  if (response_) {
    response_->finish(whole || response_done_);
    result = response_->result();
  } else if (!request_done_) {
    // No provider does anything for part of a request.
    result.verdict = meter::ResponseReader::Verdict::Nothing;
  }
  if (result.model.empty()) result.model = request_.facts().model;
  if (result.model.empty()) result.model = call_.model;
  ledger_->settle(id, result, call_.once.empty() ? 0 : meter::once_key(call_.provider, call_.once));
}

}

std::vector<policy::InspectRule> inspections(const meter::Catalogue& catalogue) {
  std::vector<policy::InspectRule> out;
  for (const policy::HostRule& rule : catalogue.hosts())
    out.push_back(
        {rule.host, rule.ports.empty() ? std::vector<uint16_t>{80, 443} : rule.ports, true});
  return out;
}

std::unique_ptr<egress::ExchangeFilter> MeterSource::begin(const egress::Exchange& exchange) {
  if (!catalogue_.provider_of(exchange.host, exchange.port)) return nullptr;
  return std::make_unique<MeterFilter>(catalogue_, inject_, *ledger_, exchange);
}

}
