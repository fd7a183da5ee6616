#include "reporter.h"

namespace mvm::egress {
namespace {

constexpr std::chrono::seconds kTogether{1};

std::string identity(const Event& event) {
  std::string text = std::string(event_word(event.kind)) + ' ' + event.host + ' ' +
                     std::to_string(event.port) + ' ' + event.method + ' ' + event.path + ' ' +
                     std::string(policy::reason_word(event.reason)) +
                     (event.outcome == policy::Outcome::Ask ? " ask" : "") +
                     (event.transport == net::Transport::Udp ? " udp " : " ");
  if (event.address) text += event.address->text();
  return text;
}

}

Reporter::~Reporter() { flush(); }

void Reporter::refuse(Event event) {
  // Recorded or not, it is refused.
  if (refusals_ == Refusals::Each) return static_cast<void>(sink_(event));
  has_refused(std::move(event));
}

void Reporter::has_refused(Event event) {
  auto key = identity(event);
  if (const auto found = recent_.find(key); found != recent_.end()) {
    found->second.count += event.count;
    return;
  }
  if (recent_.size() >= kMaxKinds) {
    Event one;
    one.kind = event.kind;
    one.outcome = event.outcome;
    one.reason = event.reason;
    one.transport = event.transport;
    one.count = 0;
    rest_.try_emplace({one.kind, one.outcome, one.reason, one.transport}, one)
        .first->second.count += event.count;
    return;
  }
  static_cast<void>(sink_(event));
  event.count = 0;
  recent_.emplace(std::move(key), std::move(event));
  if (!end_of_second_) end_of_second_ = loop_.after(kTogether, [this] { flush(); });
}

void Reporter::flush() {
  end_of_second_.reset();
  const auto tell_count = [this](Event& event) {
    if (event.count == 0) return;
    event.time = std::chrono::system_clock::now();
    static_cast<void>(sink_(event));
  };
  for (auto& [key, event] : recent_) tell_count(event);
  for (auto& [key, event] : rest_) tell_count(event);
  recent_.clear();
  rest_.clear();
}

}
