#include "destination.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using policy::Outcome;
using policy::Reason;

Verdict denied(Reason reason) { return {{Outcome::Deny, reason, {}, false}}; }

}

Destination::Destination(Parts parts, const http::Authority& authority, uint16_t port, Done done)
    : parts_(parts), done_(std::move(done)) {
  result_.request.port = port;
  result_.request.address = IpAddress::parse(authority.host);
  if (!result_.request.address) result_.request.host = dns::Name::parse(authority.host);
  later_ = parts_.loop.after(0ms, [this] { judge_name(); });
}

void Destination::judge_name() {
  result_.verdict = parts_.judge.ask(result_.request);
  if (!result_.verdict.admitted && !result_.verdict.asks()) return finish();
  if (result_.request.address) {
    result_.to = {*result_.request.address, *result_.request.port};
    return finish();
  }
  if (auto rule = parts_.names.holds(parts_.judge, *result_.request.host)) {
    result_.verdict = {{Outcome::Deny, Reason::SecretLeak, std::move(*rule), false}};
    return finish();
  }
  const auto now = parts_.loop.now();
  if (!parts_.names.take_query(now) ||
      !parts_.names.admits(parts_.judge, *result_.request.host, now)) {
    result_.verdict = denied(Reason::RateLimited);
    return finish();
  }
  resolve(dns::RecordType::A);
}

void Destination::resolve(dns::RecordType type) {
  parts_.resolver.resolve({*result_.request.host, type},
                          [weak = std::weak_ptr(self_), type](const Answer& answer) {
                            if (const auto self = weak.lock()) (*self)->take(type, answer);
                          });
}

// IPv6 where there is no IPv4: the Connector tries what else the name has when this does not
// answer.
void Destination::take(dns::RecordType type, const Answer& answer) {
  if (answer.status == Answer::Status::Busy) {
    result_.verdict = denied(Reason::ResourceExhausted);
    return finish();
  }
  for (const dns::Record& record : answer.records)
    if (record.address() && take_address(record)) return finish();
  if (type == dns::RecordType::A && answer.status != Answer::Status::NoSuchName)
    return resolve(dns::RecordType::Aaaa);
  if (shut_) {
    result_.request.address = shut_address_;
    result_.verdict = *shut_;
  } else {
    result_.failure = answer.status == Answer::Status::Failed       ? "no resolver answered"
                      : answer.status == Answer::Status::NoSuchName ? "there is no such name"
                                                                    : "the name has no address";
  }
  finish();
}

bool Destination::take_address(const dns::Record& record) {
  policy::Request request = result_.request;
  request.address = record.address();
  Verdict verdict = parts_.judge.ask(request);
  const bool admitted = verdict.admitted || verdict.asks();
  if (admitted && pin_answer(parts_.pins, parts_.judge, *request.host, record, parts_.loop.now())) {
    result_.to = {*request.address, *request.port};
    result_.request = std::move(request);
    result_.verdict = std::move(verdict);
    return true;
  }
  if (shut_) return false;
  shut_ = admitted ? denied(Reason::ResourceExhausted) : std::move(verdict);
  shut_address_ = request.address;
  return false;
}

void Destination::finish() {
  const Done done = std::move(done_);
  done(std::move(result_));
}

}
