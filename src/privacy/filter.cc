#include "mvm/privacy/filter.h"

#include "pii_filter.h"

namespace mvm::privacy {

PiiSource::PiiSource(Rules rules, NoteSink sink, Clock clock)
    : rules_(std::move(rules)), sink_(std::move(sink)), clock_(std::move(clock)) {}

std::unique_ptr<egress::ExchangeFilter> PiiSource::begin(const egress::Exchange& exchange) {
  Plan plan = rules_.plan(exchange.host, exchange.port);
  // Also where nothing is looked for, tokens of other flows are not to come back as they please.
  if (!plan.looks() && !issued_) return nullptr;
  return std::make_unique<PiiFilter>(*this, exchange, std::move(plan), tokens_for(exchange));
}

std::shared_ptr<FlowTokens> PiiSource::tokens_for(const egress::Exchange& exchange) {
  const auto make = [this] {
    protect::Vault::Limits limits;
    limits.lifetime = rules_.token_lifetime;
    limits.once = rules_.token_once;
    return std::make_shared<FlowTokens>(limits);
  };
  if (rules_.token_window.count() == 0) return make();
  const auto now = clock_();
  std::erase_if(windows_,
                [&](const Window& window) { return now - window.last_use > rules_.token_window; });
  const std::string destination = exchange.host + " " + std::to_string(exchange.port);
  for (auto at = windows_.begin(); at != windows_.end(); ++at) {
    if (at->destination != destination) continue;
    at->last_use = now;
    windows_.splice(windows_.begin(), windows_, at);
    return windows_.front().tokens;
  }
  if (windows_.size() == kMaxWindows) windows_.pop_back();
  windows_.push_front({destination, make(), now});
  return windows_.front().tokens;
}

// ---- what both ways share

PiiFilter::PiiFilter(PiiSource& source, const egress::Exchange& exchange, Plan plan,
                     std::shared_ptr<FlowTokens> tokens)
    : source_(source),
      exchange_(exchange),
      plan_(std::move(plan)),
      tokens_(std::move(tokens)),
      scanner_({plan_.looked_for(), source.rules_.patterns}) {}

PiiFilter::Coded PiiFilter::coded(const std::vector<http::Coding>& codings) const {
  Coded out;
  if (codings.empty()) return out;
  http::DecodeLimits limits;
  limits.ratio = source_.rules_.max_growth;
  out.decoder.emplace(codings, limits);
  out.encoder.emplace(codings);
  return out;
}

PiiFilter::Passed PiiFilter::pass(Coded& coded, ByteView in, const Use& use, bool flush,
                                  Bytes& out) {
  coded.any = coded.any || !in.empty();
  const auto give = [&](const std::string& text) {
    const ByteView bytes = as_bytes(text);
    if (!coded.encoder)
      out.insert(out.end(), bytes.begin(), bytes.end());
    else if (!bytes.empty())
      coded.encoder->write(bytes, flush, out);
  };
  if (!coded.decoder) {
    std::string text;
    text.reserve(in.size() + in.size() / 4);  // tokens are longer than most values
    if (!use(as_text(in), text)) return Passed::Refused;
    give(text);
    return Passed::Fine;
  }
  while (true) {
    Bytes plain;
    const auto step = coded.decoder->next(in, plain, kMaxPiece);
    std::string text;
    if (!plain.empty() && !use(as_text(plain), text)) return Passed::Refused;
    give(text);
    if (step == http::Decoder::Step::Bad) return Passed::Damaged;
    if (step == http::Decoder::Step::More) return Passed::Fine;
  }
}

void PiiFilter::end(Coded& coded, const std::string& rest, Bytes& out) {
  const ByteView bytes = as_bytes(rest);
  if (!coded.encoder) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return;
  }
  // A body that is empty stays it, whatever its coding.
  if (!coded.any) return;
  coded.encoder->write(bytes, false, out);
  coded.encoder->finish(out);
}

void PiiFilter::note(Note::Kind kind, std::string_view name, std::string_view place, uint64_t count,
                     std::string_view change) {
  if (count > 0) notes_[{kind, std::string(name), place, change}] += count;
}

void PiiFilter::tell() {
  for (const auto& [what, count] : std::exchange(notes_, {})) {
    const auto& [kind, name, place, change] = what;
    source_.sink_(
        {kind, exchange_.flow, exchange_.host, exchange_.port, name, place, count, change});
  }
}

void PiiFilter::ended(bool) noexcept {
  count_body();
  tell();
}

}
