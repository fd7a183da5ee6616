#include "questions.h"

#include <algorithm>

#include "mvm/crypto/random.h"

namespace mvm::egress {
namespace {

using policy::Reason;

// Numbers begin anywhere: one that was seen of a sandbox that is gone should not mean something in
// the next one of its name.
uint64_t first_number() {
  uint16_t random = 0;
  crypto::random_bytes(std::as_writable_bytes(std::span(&random, 1)));
  return uint64_t{1000} + random;
}

// The same for questions with the same answer: what comes behind "?" decides nothing.
std::string key_of(const OpenQuestion& question) {
  return question.method + ' ' + question.host + ' ' +
         (question.host.empty() && question.address ? question.address->text() : "") + ' ' +
         std::to_string(question.port) + ' ' + question.path + ' ' + question.rule;
}

OpenQuestion question_about(const policy::Request& request, const policy::Decision& decision) {
  OpenQuestion question;
  if (request.host) question.host = request.host->text();
  question.address = request.address;
  question.port = request.port.value_or(0);
  question.method = request.method;
  question.path = request.target.substr(0, request.target.find('?'));
  question.rule = decision.rule;
  return question;
}

}

Questions::Ticket& Questions::Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    reset();
    questions_ = other.questions_;
    number_ = other.number_;
    waiting_ = std::move(other.waiting_);
  }
  return *this;
}

void Questions::Ticket::reset() noexcept {
  if (const auto waiting = std::exchange(waiting_, nullptr)) questions_->withdraw(number_, waiting);
}

Questions::Questions(loop::Loop& loop, std::chrono::milliseconds patience, QuestionSink sink)
    : loop_(loop), patience_(patience), sink_(std::move(sink)), next_(first_number()) {}

bool Questions::too_many_in_a_minute() {
  if (loop_.now() - minute_ >= std::chrono::minutes(1)) {
    minute_ = loop_.now();
    in_minute_ = 0;
  }
  return ++in_minute_ > kMaxPerMinute;
}

Expected<Questions::Ticket, Reason> Questions::put(const policy::Request& request,
                                                   const policy::Decision& decision, Done done) {
  OpenQuestion question = question_about(request, decision);
  std::string key = key_of(question);
  if (waiting_ >= kMaxWaiting) return Unexpected{Reason::ResourceExhausted};
  auto waiting = std::make_shared<Waiting>(Waiting{std::move(done), {}});
  if (take_kept(key)) {
    waiting->at_once = loop_.after(std::chrono::milliseconds(0), [waiting = waiting.get()] {
      if (const Done told = std::exchange(waiting->done, {})) told(Answered::Allowed);
    });
    return Ticket(this, 0, std::move(waiting));
  }
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.at(found->second).waiting.push_back(waiting);
    ++waiting_;
    return Ticket(this, found->second, std::move(waiting));
  }
  if (entries_.size() >= kMaxQuestions) return Unexpected{Reason::ResourceExhausted};
  if (too_many_in_a_minute()) return Unexpected{Reason::RateLimited};
  const uint64_t number = question.number = next_++;
  by_key_.emplace(key, number);
  Entry& entry = entries_[number];
  entry.request = request;
  entry.question = std::move(question);
  entry.key = std::move(key);
  entry.waiting.push_back(waiting);
  ++waiting_;
  entry.by = loop_.now() + patience_;
  entry.deadline = loop_.at(entry.by, [this, number] { close(number, Answered::TimedOut); });
  if (sink_) sink_(shown(entry));
  return Ticket(this, number, std::move(waiting));
}

void Questions::keep(const policy::Request& request, const policy::Decision& decision) {
  std::erase_if(kept_, [this](const auto& kept) { return kept.second < loop_.now(); });
  if (kept_.size() < kMaxQuestions)
    kept_[key_of(question_about(request, decision))] = loop_.now() + kKept;
}

bool Questions::take_kept(const std::string& key) {
  const auto kept = kept_.extract(key);
  return !kept.empty() && kept.mapped() >= loop_.now();
}

OpenQuestion Questions::shown(const Entry& entry) const {
  OpenQuestion out = entry.question;
  out.waiting = static_cast<uint32_t>(entry.waiting.size());
  out.left = std::max(std::chrono::milliseconds(0),
                      std::chrono::ceil<std::chrono::milliseconds>(entry.by - loop_.now()));
  return out;
}

std::vector<OpenQuestion> Questions::list() const {
  std::vector<OpenQuestion> out;
  for (const auto& [number, entry] : entries_) out.push_back(shown(entry));
  return out;
}

std::optional<OpenQuestion> Questions::answer(uint64_t number, bool allow) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return std::nullopt;
  OpenQuestion out = shown(found->second);
  close(number, allow ? Answered::Allowed : Answered::Denied);
  return out;
}

void Questions::settle(const Judge& judge) {
  std::vector<std::pair<uint64_t, bool>> decided;
  for (const auto& [number, entry] : entries_) {
    const Verdict verdict = judge.ask(entry.request);
    if (!verdict.asks()) decided.emplace_back(number, verdict.admitted);
  }
  for (const auto& [number, allowed] : decided)
    close(number, allowed ? Answered::Allowed : Answered::Denied);
}

// Those who are told may drop their tickets, and each other's.
void Questions::close(uint64_t number, Answered how) {
  auto node = entries_.extract(number);
  if (node.empty()) return;
  by_key_.erase(node.mapped().key);
  waiting_ -= node.mapped().waiting.size();
  for (const auto& waiting : node.mapped().waiting)
    if (const Done done = std::exchange(waiting->done, {})) done(how);
}

void Questions::withdraw(uint64_t number, const std::shared_ptr<Waiting>& waiting) noexcept {
  waiting->done = {};
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  waiting_ -= std::erase(found->second.waiting, waiting);
  if (!found->second.waiting.empty()) return;
  by_key_.erase(found->second.key);
  entries_.erase(found);
}

}
