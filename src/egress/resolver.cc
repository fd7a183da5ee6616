// A lookup is a row of attempts. Each resolver is asked over UDP in turn, with random letter case;
// then once more in plain letters and with more patience, for resolvers that do not keep case. A
// truncated answer is asked for again over TCP. Time in all: under five seconds, which is when the
// C library gives up on us.
#include "resolver.h"

#include <algorithm>

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using Status = Answer::Status;

constexpr auto kFirstPatience = 800ms;
constexpr auto kSecondPatience = 1600ms;
constexpr auto kTcpPatience = 2s;
constexpr size_t kMaxAttempts = 4;

}

class Resolver::Lookup {
 public:
  Lookup(Resolver& resolver, Question question)
      : resolver_(resolver), question_(std::move(question)) {}

  std::vector<Done> waiting;

  void start() {
    const auto& servers = resolver_.resolvers_;
    while (attempt_ < std::min(2 * servers.size(), kMaxAttempts)) {
      const bool second_round = attempt_ >= servers.size();
      server_ = servers[attempt_++ % servers.size()];
      exchange_ =
          ask_over_udp(resolver_.loop_, server_, question_,
                       second_round ? LetterCase::Plain : LetterCase::Random,
                       second_round ? kSecondPatience : kFirstPatience,
                       [this](const std::optional<dns::Reply>& reply) { heard(reply, true); });
      if (exchange_) return;
    }
    // Not at once: who asked is not to be called back before it knows that it has to wait.
    exchange_.reset();
    retry_ = resolver_.loop_.after(0ms, [this] { end({Status::Failed}); });
  }

 private:
  void heard(const std::optional<dns::Reply>& reply, bool udp) {
    if (reply && reply->truncated && udp) return ask_again_over_tcp();
    if (reply && (reply->rcode == dns::Rcode::NoError || reply->rcode == dns::Rcode::NxDomain))
      return end(pick_answer(question_, *reply));
    next();
  }
  void ask_again_over_tcp() {
    auto exchange = ask_over_tcp(resolver_.loop_, server_, question_, kTcpPatience,
                                 [this](std::optional<dns::Reply> reply) { heard(reply, false); });
    if (!exchange) return next();
    old_ = std::move(exchange_);
    exchange_ = std::move(exchange);
  }
  // The exchange that just ended is on the call stack: it goes with the next turn.
  void next() {
    old_ = std::move(exchange_);
    retry_ = resolver_.loop_.after(0ms, [this] {
      old_.reset();
      start();
    });
  }
  void end(const Answer& answer) { resolver_.finish(Question(question_), Answer(answer)); }

  Resolver& resolver_;
  Question question_;
  Endpoint server_;
  size_t attempt_ = 0;
  std::unique_ptr<DnsExchange> exchange_;
  std::unique_ptr<DnsExchange> old_;
  loop::Watch retry_;
};

Resolver::Resolver(loop::Loop& loop, std::vector<Endpoint> resolvers)
    : loop_(loop), resolvers_(std::move(resolvers)) {
  MVM_ASSERT(!resolvers_.empty());
}
Resolver::~Resolver() = default;

void Resolver::resolve(const Question& question, Done done) {
  if (const auto answer = recall(question)) return done(*answer);
  const auto found = lookups_.find(question);
  if (found != lookups_.end()) {
    if (found->second->waiting.size() >= kMaxWaiting) return done({Status::Busy});
    found->second->waiting.push_back(std::move(done));
    return;
  }
  if (lookups_.size() >= kMaxLookups) return done({Status::Busy});
  auto lookup = std::make_unique<Lookup>(*this, question);
  lookup->waiting.push_back(std::move(done));
  Lookup& started = *lookup;
  lookups_.emplace(question, std::move(lookup));
  started.start();
}

void Resolver::finish(const Question& question, const Answer& answer) {
  keep(question, answer);
  // Kept until all have been told: the lookup is on the call stack.
  const auto lookup = lookups_.extract(question);
  for (const Done& done : lookup.mapped()->waiting) done(answer);
}

std::optional<Answer> Resolver::recall(const Question& question) {
  const auto found = kept_.find(question);
  if (found == kept_.end()) return std::nullopt;
  Kept& kept = found->second;
  if (kept.until <= loop_.now()) {
    uses_.erase(kept.use);
    kept_.erase(found);
    return std::nullopt;
  }
  uses_.splice(uses_.end(), uses_, kept.use);
  Answer answer = kept.answer;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(loop_.now() - kept.since);
  for (dns::Record& record : answer.records)
    record.ttl -= std::min(record.ttl, static_cast<uint32_t>(age.count()));
  return answer;
}

void Resolver::keep(const Question& question, const Answer& answer) {
  if (answer.status != Status::Found && answer.status != Status::NoSuchName) return;
  // The shortest of them all; the negative one counts when it is what the answer says in the end.
  auto ttl = answer.records.empty() ? answer.negative_ttl : answer.records.front().ttl;
  for (const dns::Record& record : answer.records) ttl = std::min(ttl, record.ttl);
  if (answer.negative_ttl > 0) ttl = std::min(ttl, answer.negative_ttl);
  if (ttl == 0 || answer.records.size() > kMaxKeptRecords) return;
  if (kept_.size() >= kMaxKept) {
    kept_.erase(uses_.front());
    uses_.pop_front();
  }
  const auto use = uses_.insert(uses_.end(), question);
  const auto now = loop_.now();
  const auto [at, fresh] =
      kept_.try_emplace(question, Kept{answer, now, now + std::chrono::seconds(ttl), use});
  // Nobody asks for what is kept; but a lookup may have been under way while it was.
  if (!fresh) uses_.erase(use);
}

void Resolver::forget() {
  kept_.clear();
  uses_.clear();
}

}
