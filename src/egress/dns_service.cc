#include "dns_service.h"

#include <algorithm>

#include <netinet/in.h>

#include "dns_connection.h"
#include "dns_datagram.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using policy::Reason;

constexpr int kDatagramsPerTurn = 64;

std::string type_text(dns::RecordType type) {
  switch (type) {
    case dns::RecordType::A:
      return "A";
    case dns::RecordType::Aaaa:
      return "AAAA";
    case dns::RecordType::Cname:
      return "CNAME";
    case dns::RecordType::Https:
      return "HTTPS";
    case dns::RecordType::Svcb:
      return "SVCB";
    default:
      return "TYPE" + std::to_string(static_cast<unsigned>(type));
  }
}

// What is sent upstream at all. Other types carry text of anybody's choice, and nothing that a
// connection through this proxy needs.
bool is_served(dns::RecordType type) {
  return type == dns::RecordType::A || type == dns::RecordType::Aaaa ||
         type == dns::RecordType::Cname || type == dns::RecordType::Https ||
         type == dns::RecordType::Svcb;
}

std::string why_text(const Event& event, const std::string& near_miss = {}) {
  std::string text = "mvm: " + std::string(policy::reason_word(event.reason));
  if (!near_miss.empty()) text += "; " + near_miss;
  if (!event.suggestion.empty()) text += "; " + event.suggestion;
  return text;
}

}

struct DnsService::Pending {
  dns::Query query;
  size_t limit = 0;
  Reply reply;
  Verdict verdict;  // of the name

  policy::Request request() const {
    policy::Request out;
    out.host = query.name;
    return out;
  }
  Event event(const Verdict& of) const {
    Event out = Judge::describe(EventKind::Dns, request(), of);
    out.method = type_text(query.type);
    return out;
  }
};

DnsService::DnsService(Parts parts, sys::Fd udp, sys::Fd tcp)
    : parts_(parts),
      udp_(std::move(udp)),
      datagrams_(parts.loop.watch(udp_.get(), EPOLLIN, [this](uint32_t) { receive(); })),
      connecting_(parts.loop, std::move(tcp),
                  [this](sys::Fd socket) { accept(std::move(socket)); }) {}

DnsService::~DnsService() = default;

void DnsService::stop() {
  datagrams_.reset();
  connecting_.stop();
  connections_.clear();
}

void DnsService::receive() {
  for (int i = 0; i < kDatagramsPerTurn; ++i) {
    const auto datagram = receive_datagram(udp_.get());
    if (!datagram) return;
    serve(datagram->message(), dns::kUdpSize, [this, back = datagram->back](const Bytes& reply) {
      send_datagram(udp_.get(), back, reply);
    });
  }
}

void DnsService::accept(sys::Fd socket) {
  if (connections_.size() >= kMaxConnections) return reset_connection(std::move(socket));
  const uint64_t id = next_connection_++;
  auto connection = std::make_unique<Connection>(
      parts_.loop, std::move(socket),
      [this, id](ByteView message) {
        serve(message, dns::kMaxTcpMessage, [this, id](const Bytes& reply) {
          if (const auto found = connections_.find(id); found != connections_.end())
            found->second->send(reply);
        });
      },
      [this, id] { connections_.erase(id); });
  connections_.emplace(id, std::move(connection));
}

void DnsService::serve(ByteView message, size_t limit, Reply reply) {
  ++parts_.counters.queries;
  auto query = dns::parse_query(message);
  if (!query) {
    if (query.error().id) reply(dns::encode_error(*query.error().id, query.error().rcode));
    return;
  }
  Pending pending{std::move(*query), limit, std::move(reply), {}};
  if (limit != dns::kMaxTcpMessage)
    pending.limit = std::min<size_t>(limit, pending.query.edns_size.value_or(dns::kPlainUdpSize));
  pending.verdict = parts_.judge.ask(pending.request());
  const bool too_fast = !parts_.names.take_query(parts_.loop.now());
  if (too_fast || pending_ >= kMaxPending)
    pending.verdict = {
        {Outcome::Deny, too_fast ? Reason::RateLimited : Reason::ResourceExhausted, {}, false}};
  // The name may be known; the connection to it is what a person is asked about.
  if (pending.verdict.asks()) pending.verdict.admitted = true;
  if (!pending.verdict.admitted) return refuse(pending, pending.event(pending.verdict));
  if (auto rule = parts_.names.holds(parts_.judge, pending.query.name)) {
    pending.verdict = {{Outcome::Deny, Reason::SecretLeak, std::move(*rule), false}};
    return refuse(pending, pending.event(pending.verdict));
  }
  if (!is_served(pending.query.type)) return answer(pending, {Answer::Status::Found});
  if (!parts_.names.admits(parts_.judge, pending.query.name, parts_.loop.now())) {
    pending.verdict = {{Outcome::Deny, Reason::RateLimited, pending.verdict.decision.rule, false}};
    return refuse(pending, pending.event(pending.verdict));
  }
  ++pending_;
  const Question question{pending.query.name, pending.query.type};
  parts_.resolver.resolve(question, [this, pending = std::move(pending)](const Answer& found) {
    --pending_;
    answer(pending, found);
  });
}

void DnsService::refuse(const Pending& pending, const Event& event) {
  ++parts_.counters.queries_refused;
  parts_.reporter.refuse(event);
  const bool limit =
      event.reason == Reason::RateLimited || event.reason == Reason::ResourceExhausted;
  const dns::ExtendedError why{limit ? dns::kErrorOther : dns::kErrorBlocked,
                               why_text(event, pending.verdict.near_miss)};
  pending.reply(dns::encode_reply(pending.query, dns::Rcode::NxDomain, {}, pending.limit, &why));
}

void DnsService::answer(const Pending& pending, const Answer& answer) {
  const auto reply = [&](dns::Rcode rcode, const std::vector<dns::Record>& records,
                         const dns::ExtendedError* why = nullptr) {
    pending.reply(dns::encode_reply(pending.query, rcode, records, pending.limit, why));
  };
  Event event = pending.event(pending.verdict);
  if (answer.status == Answer::Status::Failed || answer.status == Answer::Status::Busy) {
    const bool busy = answer.status == Answer::Status::Busy;
    event.reason = busy ? Reason::ResourceExhausted : Reason::DnsFailed;
    event.outcome = busy ? Outcome::Deny : event.outcome;
    event.detail = busy ? "too many queries at a time" : "no resolver answered";
    parts_.reporter.refuse(event);
    const dns::ExtendedError why{dns::kErrorNoReachableAuthority, "mvm: " + event.detail};
    return reply(dns::Rcode::ServFail, {}, &why);
  }
  Verdict first_shut;
  std::optional<IpAddress> shut;
  const auto records = admit(pending, answer.records, first_shut, shut);
  if (shut) {
    policy::Request request = pending.request();
    request.address = shut;
    Event refused = Judge::describe(EventKind::Dns, request, first_shut);
    refused.method = event.method;
    parts_.reporter.refuse(refused);
    const bool nothing_left = std::ranges::none_of(
        records, [](const dns::Record& record) { return record.address().has_value(); });
    if (nothing_left) {
      ++parts_.counters.queries_refused;
      const dns::ExtendedError why{dns::kErrorBlocked, why_text(refused)};
      return reply(dns::Rcode::NoError, {}, &why);
    }
  }
  if (!parts_.reporter.tell(event)) {
    const dns::ExtendedError why{dns::kErrorOther, "mvm: the audit log takes no records"};
    return reply(dns::Rcode::ServFail, {}, &why);
  }
  reply(answer.status == Answer::Status::NoSuchName ? dns::Rcode::NxDomain : dns::Rcode::NoError,
        records);
}

std::vector<dns::Record> DnsService::admit(const Pending& pending,
                                           const std::vector<dns::Record>& records,
                                           Verdict& first_shut, std::optional<IpAddress>& shut) {
  std::vector<dns::Record> kept;
  for (const dns::Record& record : records) {
    if (const auto address = record.address()) {
      policy::Request request = pending.request();
      request.address = address;
      const Verdict verdict = parts_.judge.ask(request);
      const bool fits = verdict.admitted || verdict.decision.outcome == Outcome::Ask;
      if (!fits ||
          !pin_answer(parts_.pins, parts_.judge, pending.query.name, record, parts_.loop.now())) {
        if (!shut) {
          first_shut =
              fits ? Verdict{{Outcome::Deny, Reason::ResourceExhausted, {}, false}} : verdict;
          shut = address;
        }
        continue;
      }
    }
    kept.push_back(record);
  }
  return kept;
}

}
