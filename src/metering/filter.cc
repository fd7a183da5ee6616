#include "mvm/metering/filter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mvm/http/coding.h"
#include "mvm/meter/journal.h"
#include "mvm/meter/reader.h"
#include "mvm/meter/stream_usage.h"
#include "mvm/policy/compile.h"

namespace mvm::metering {
namespace {

using egress::BodyUse;
using egress::FilterRefusal;
using egress::FilterVerdict;

void append(Bytes& out, std::string_view text) {
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Or may be: nothing says what it is.
bool is_event_stream(const http::Headers& headers) {
  const std::string* type = http::find(headers, "content-type");
  constexpr std::string_view kType = "text/event-stream";
  return type == nullptr || http::same_name(std::string_view(*type).substr(0, kType.size()), kType);
}

// Google's providers speak it too; its messages are no JSON.
bool is_grpc(const http::Headers& headers) {
  const std::string* type = http::find(headers, "content-type");
  constexpr std::string_view kType = "application/grpc";
  return type != nullptr && http::same_name(std::string_view(*type).substr(0, kType.size()), kType);
}

// A copy of a body, decoded as it passes; the original goes on.
class Plain {
 public:
  // False: its codings are not known.
  bool begin(const http::Headers& headers) {
    const auto codings = http::content_codings(headers);
    if (!codings) return false;
    if (!codings->empty()) decoder_.emplace(*codings);
    return true;
  }
  template <typename Take>
  void feed(ByteView in, Take take) {
    if (!decoder_) return take(as_text(in));
    constexpr size_t kRoom = 64 * 1024;
    using Step = http::Decoder::Step;
    for (Step step = Step::Full; step == Step::Full && !broken_;) {
      Bytes out;
      step = decoder_->next(in, out, kRoom);
      take(as_text(out));
      broken_ = step == Step::Bad;
    }
  }
  bool encoded() const { return decoder_.has_value(); }
  bool broken() const { return broken_; }
  // All of it was read.
  bool whole() const { return !broken_ && (!decoder_ || decoder_->whole()); }

 private:
  std::optional<http::Decoder> decoder_;
  bool broken_ = false;
};

// In the shape that OpenAI's clients read ("type", "code"), with what the others' look for.
FilterRefusal refusal_of(const meter::Denial& denial, const meter::Call& call) {
  FilterRefusal out;
  out.reason = policy::Reason::AiBudget;
  out.rule = denial.of.empty() ? "ai.budget." + denial.budget
                               : "ai.budgets." + denial.of + "." + denial.budget;
  out.detail = denial.message;
  const std::string code = denial.reserved ? "ai_budget_reserved" : "ai_budget_exhausted";
  http::Refusal& answer = out.answer;
  answer.status = 429;
  // What others have reserved may come free at any time; what is used up stays so.
  answer.passing = denial.reserved || denial.budget == "journal";
  answer.reason = policy::reason_word(out.reason);
  answer.message = denial.message;
  std::string type = code;
  switch (call.dialect) {
    case meter::Dialect::Anthropic:
    case meter::Dialect::AnthropicBatch:
      answer.beside = {{"type", "error"}};
      type = "rate_limit_error";
      break;
    case meter::Dialect::Gemini:
      answer.code = answer.status;
      answer.details.emplace_back("status", "RESOURCE_EXHAUSTED");
      break;
    case meter::Dialect::BedrockInvoke:
    case meter::Dialect::BedrockConverse:
      answer.beside = {{"__type", "ServiceQuotaExceededException"}, {"message", denial.message}};
      break;
    case meter::Dialect::Cohere:
      answer.beside = {{"message", denial.message}};
      break;
    case meter::Dialect::OpenAi:
      break;
  }
  answer.details.emplace_back("type", type);
  if (!answer.code) answer.details.emplace_back("code", code);
  answer.details.emplace_back("budget", denial.budget);
  answer.details.emplace_back("limit", std::to_string(denial.limit));
  answer.details.emplace_back("used", std::to_string(denial.used));
  answer.details.emplace_back("provider", meter::provider_word(call.provider));
  if (!denial.of.empty()) answer.details.emplace_back("of", denial.of);
  return out;
}

// Of a request under a budget, whose bounds nobody can tell.
FilterRefusal unreadable() {
  FilterRefusal out;
  out.reason = policy::Reason::ProtocolUnsupported;
  out.rule = "ai.budget";
  out.answer.status = 415;
  out.answer.reason = policy::reason_word(out.reason);
  out.answer.message =
      "the sandbox has an AI budget, and this Content-Encoding cannot be read; gzip, deflate, br "
      "and zstd can";
  return out;
}

class MeterFilter : public egress::ExchangeFilter {
 public:
  MeterFilter(const meter::Catalogue& catalogue, bool inject, meter::Ledger& ledger,
              const MeterSource::Watcher& watcher, const egress::Exchange& exchange)
      : catalogue_(&catalogue),
        ledger_(&ledger),
        inject_(inject),
        watcher_(watcher),
        flow_(exchange.flow),
        host_(exchange.host),
        port_(exchange.port) {}

  FilterVerdict request_head(http::RequestHead& head, BodyUse& body) override;
  FilterVerdict request_body(ByteView in, bool last, Bytes& out) override;
  void request_left() noexcept override {
    if (id_ != 0) ledger_->keep_bounds(id_);
  }
  FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) override;
  FilterVerdict response_body(ByteView in, bool last, Bytes& out) override;
  void ended(bool whole) noexcept override;

 private:
  FilterVerdict end_request();
  FilterVerdict refuse(const meter::Denial& denial) const { return refusal_of(denial, call_); }
  // Whether what nobody can count would get around something.
  bool under_budget() const { return ledger_->must_know(call_.provider); }

  const meter::Catalogue* catalogue_;
  meter::Ledger* ledger_;
  bool inject_;
  const MeterSource::Watcher& watcher_;
  uint64_t flow_;
  std::string host_;
  uint16_t port_;
  meter::Call call_;
  uint64_t id_ = 0;  // 0: nothing is metered, or not any more
  Plain request_copy_;
  meter::RequestReader request_;
  std::unique_ptr<meter::UsageAsker> asker_;
  bool watches_ = false;
  bool request_done_ = false;
  Plain response_copy_;
  std::unique_ptr<meter::ResponseReader> response_;
  std::unique_ptr<meter::UsageHider> hider_;
  std::optional<http::Encoder> encoder_;  // of what it gives
  bool response_done_ = false;
};

FilterVerdict MeterFilter::request_head(http::RequestHead& head, BodyUse& body) {
  const bool upgrade = http::has_token(head.headers, "upgrade", "websocket");
  auto call = catalogue_->recognise(host_, port_, upgrade ? "POST" : head.method, head.target);
  if (!call) return {};
  call_ = std::move(*call);
  if (upgrade || is_grpc(head.headers)) {
    call_.operation = upgrade ? meter::Operation::Realtime : meter::Operation::Chat;
    if (under_budget())
      return refuse({"realtime",
                     0,
                     0,
                     false,
                     std::string("what ") + (upgrade ? "a WebSocket to" : "gRPC with") +
                         " an AI provider uses cannot be counted, and the sandbox has a budget",
                     {}});
  }
  if (!request_copy_.begin(head.headers) && under_budget()) return unreadable();
  meter::Bounds bounds;
  if (head.framing.kind == http::BodyKind::Length) bounds.input = head.framing.length;
  if (const auto denial = ledger_->admit(call_.provider, bounds, id_)) return refuse(*denial);
  // What nobody can read here nobody could count.
  http::restrict_accept_encoding(head.headers);
  if (head.framing.kind == http::BodyKind::None) return end_request();
  // It has nothing that would be refused, or that has to be on record before it leaves.
  watches_ = !ledger_->bounds_matter() && !(request_copy_.encoded() && under_budget());
  body = watches_ ? BodyUse::Watch : BodyUse::Read;
  if (inject_ && call_.asks_for_stream_usage && !request_copy_.encoded()) {
    body = BodyUse::Rewrite;
    asker_ = std::make_unique<meter::UsageAsker>();
  }
  return {};
}

FilterVerdict MeterFilter::end_request() {
  if (id_ != 0 && !watches_ && under_budget() && !request_copy_.whole()) return unreadable();
  request_done_ = true;
  request_.finish();
  if (id_ == 0) return {};
  meter::Bounds bounds = meter::bounds_of(request_.facts());
  // Of these nothing comes out that is counted in tokens, or it was asked for before.
  if (call_.operation == meter::Operation::Embeddings ||
      call_.operation == meter::Operation::Rerank || call_.operation == meter::Operation::Batch ||
      !call_.once.empty())
    bounds.output = 0;
  const auto denial = ledger_->bound(id_, bounds);
  if (!denial) return {};
  id_ = 0;
  return refuse(*denial);
}

FilterVerdict MeterFilter::request_body(ByteView in, bool last, Bytes& out) {
  request_copy_.feed(in, [this](std::string_view text) { request_.feed(text); });
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
  // Unread it is unknown.
  if (!response_copy_.begin(head.headers) || head.status == 101) return {};
  body = BodyUse::Watch;
  if (asker_ && asker_->asked() && is_event_stream(head.headers)) {
    body = BodyUse::Rewrite;
    hider_ = std::make_unique<meter::UsageHider>();
    if (response_copy_.encoded()) encoder_.emplace(http::content_codings(head.headers).value());
  }
  return {};
}

FilterVerdict MeterFilter::response_body(ByteView in, bool last, Bytes& out) {
  std::string text;
  // Piece by piece, so that little data that becomes much is never there at once.
  const auto give = [&] {
    if (encoder_ && !text.empty())
      encoder_->write(as_bytes(text), true, out);  // an event does not wait for the next
    else
      append(out, text);
    text.clear();
  };
  response_copy_.feed(in, [&](std::string_view plain) {
    response_->feed(plain);
    if (!hider_) return;
    hider_->feed(plain, text);
    give();
  });
  response_done_ = response_done_ || last;
  if (!hider_) return {};
  if (response_copy_.broken() || (last && !response_copy_.whole())) {
    FilterRefusal refusal;
    refusal.reason = policy::Reason::Unreadable;
    refusal.rule = "ai.inject_stream_usage";
    refusal.answer.status = 502;
    refusal.answer.reason = policy::reason_word(refusal.reason);
    refusal.answer.message = "the answer's content coding is damaged or ends too early";
    return refusal;
  }
  if (!last) return {};
  hider_->finish(text);
  give();
  if (encoder_) encoder_->finish(out);
  return {};
}

void MeterFilter::ended(bool whole) noexcept {
  const uint64_t id = std::exchange(id_, 0);
  if (id == 0) return;
  meter::ResponseReader::Result result;
  result.once = call_.once;
  if (response_) {
    response_->finish((whole || response_done_) && response_copy_.whole());
    result = response_->result();
  } else if (!request_done_) {
    // No provider does anything for part of a request.
    result.verdict = meter::ResponseReader::Verdict::Nothing;
  }
  if (result.model.empty()) result.model = request_.facts().model;
  if (result.model.empty()) result.model = call_.model;
  if (watcher_.withhold && watcher_.withhold(result.model)) result.model = "other";
  meter::Record used = ledger_->settle(
      id, result, result.once.empty() ? 0 : meter::once_key(call_.provider, result.once),
      call_.operation);
  if (watcher_.record) watcher_.record({flow_, host_, port_, std::move(used)});
}

}

std::vector<policy::InspectRule> inspections(const meter::Catalogue& catalogue) {
  std::vector<policy::InspectRule> out;
  for (const policy::HostRule& rule : catalogue.hosts())
    out.push_back(
        {rule.host, rule.ports.empty() ? std::vector<uint16_t>{80, 443} : rule.ports, true});
  return out;
}

std::vector<policy::InspectRule> inspections(const meter::Catalogue& catalogue,
                                             const proto::NetworkConfig& network) {
  if (network.audit) return inspections(catalogue);
  const policy::Policy rules = policy::compile(network);
  std::vector<policy::HostPattern> admitted;
  for (const policy::Route& route : rules.routes) admitted.push_back(route.host);
  for (const policy::HostRule& rule : rules.hosts) admitted.push_back(rule.host);
  // The name itself, or one that stands for all below it.
  const auto some_name = [](const policy::HostPattern& pattern) {
    const std::string text = pattern.text();
    return dns::Name::parse(text.starts_with("*.") ? "x" + text.substr(1) : text);
  };
  const auto meet = [&](const policy::HostPattern& a, const policy::HostPattern& b) {
    const auto in_a = some_name(a);
    const auto in_b = some_name(b);
    return (in_a && b.matches(*in_a)) || (in_b && a.matches(*in_b));
  };
  std::vector<policy::InspectRule> out;
  for (policy::InspectRule& rule : inspections(catalogue))
    if (std::ranges::any_of(admitted,
                            [&](const auto& pattern) { return meet(*rule.host, pattern); }))
      out.push_back(std::move(rule));
  return out;
}

std::unique_ptr<egress::ExchangeFilter> MeterSource::begin(const egress::Exchange& exchange) {
  if (!catalogue_.provider_of(exchange.host, exchange.port)) return nullptr;
  return std::make_unique<MeterFilter>(catalogue_, inject_, *ledger_, watcher_, exchange);
}

}
