#include "flow.h"

#include <algorithm>
#include <cerrno>

#include "mvm/sys/error.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using policy::Reason;

bool client_speaks_first(uint16_t port) noexcept {
  constexpr uint16_t kPorts[] = {80, 443, 8000, 8080, 8443};
  return std::ranges::find(kPorts, port) != std::end(kPorts);
}

Verdict denied(Reason reason) { return {{Outcome::Deny, reason, {}, false}}; }

}

Flow::Flow(FlowParts& parts, uint64_t id, sys::Fd guest, const Endpoint& to,
           std::function<void()> ended)
    : parts_(parts),
      id_(id),
      guest_(std::move(guest)),
      to_(to),
      ended_(std::move(ended)),
      names_(parts.pins.names_of(to.address, parts.loop.now())),
      holds_pin_(parts.pins.hold(to.address)) {}

Flow::~Flow() {
  if (holds_pin_) parts_.pins.release(to_.address);
}

policy::Request Flow::request() const {
  policy::Request out;
  out.host = host_;
  out.address = to_.address;
  out.port = to_.port;
  return out;
}

// Where one address serves many names, the Host field says which is meant: by name, plain HTTP is
// looked into whatever the rules need, as the server name of TLS is.
bool Flow::is_plain_http() const noexcept {
  constexpr uint16_t kHttp = 80;
  return host_ && to_.port == kHttp;
}

// Several names may share the address: the connection may be meant for any of them that is
// admitted.
Verdict Flow::judge_connection() {
  Verdict first;
  std::optional<dns::Name> asking;
  for (const dns::Name& name : names_) {
    host_ = name;
    const Verdict verdict = parts_.judge.ask(request());
    if (verdict.admitted && !verdict.audited) return verdict;
    if (verdict.asks() && !asking) asking = name;
    if (name == names_.front()) first = verdict;
  }
  host_.reset();
  Verdict bare = parts_.judge.ask(request());
  if (names_.empty() || (bare.admitted && !bare.audited)) return bare;
  host_ = asking ? asking : names_.front();
  return asking ? parts_.judge.ask(request()) : first;
}

void Flow::start() {
  if (std::ranges::find(parts_.doors, to_) != parts_.doors.end()) return open_door();
  begin();
}

void Flow::begin() {
  const Verdict verdict = judge_connection();
  if (!verdict.admitted && !verdict.asks()) return refuse(EventKind::Connect, request(), verdict);
  prepare_stream(guest_.get());
  speaks_first_ = client_speaks_first(to_.port) || verdict.decision.inspect || verdict.watched;
  const bool asks = verdict.asks() && !(allowed_ && allowed_host_ == host_);
  if (!speaks_first_ && asks) return ask(EventKind::Connect, request(), verdict);
  if (!speaks_first_) return upstream_ ? proceed() : dial();
  stage_ = Stage::FirstBytes;
  deadline_ = parts_.loop.after(parts_.timeouts.first_bytes, [this] {
    Verdict late = denied(Reason::TimedOut);
    refuse(EventKind::Connect, request(), late);
  });
  wait_for_first_bytes();
}

void Flow::wait_for_first_bytes() {
  watch_.reset();  // a descriptor is watched once
  watch_ = parts_.loop.watch(guest_.get(), EPOLLIN | EPOLLRDHUP,
                             [this](uint32_t events) { look(events); });
}

void Flow::look(uint32_t events) {
  if ((events & EPOLLERR) != 0) return end();
  Peeked peeked = peek_first_bytes(guest_.get());
  // Half a hello, and no more to come.
  if (peeked.what == FirstBytes::None && (events & EPOLLRDHUP) != 0)
    peeked.what = FirstBytes::Broken;
  switch (peeked.what) {
    case FirstBytes::None:
      return;
    case FirstBytes::Closed:
    case FirstBytes::Other:
      return take_other();
    case FirstBytes::Connect:
      return take_connect(peeked);
    case FirstBytes::Failed:
      return end();
    case FirstBytes::Broken:
      return refuse(EventKind::Tls, request(), denied(Reason::ProtocolUnsupported));
    case FirstBytes::Tls:
      return take_hello(peeked.hello);
  }
}

// By the name that the client says it wants, if that is one that we gave this address for;
// otherwise by the address, which a range may open whatever is there.
Verdict Flow::judge_hello(const ClientHello& hello, policy::Request& request) const {
  request.server_name = hello.server_name;
  if (hello.server_name && std::ranges::find(names_, *hello.server_name) != names_.end()) {
    request.host = hello.server_name;
    return parts_.judge.ask(request);
  }
  policy::Request bare = request;
  bare.host.reset();
  Verdict by_address = parts_.judge.ask(bare);
  if (by_address.admitted && !by_address.audited) {
    request.host = hello.server_name;  // only told
    return by_address;
  }
  // Audited: nothing is known of the address.
  if (!request.host) request.host = hello.server_name;
  const Verdict verdict = parts_.judge.ask(request);
  const bool by_rule = verdict.asks() || (verdict.admitted && !verdict.audited);
  const bool needs_name = by_rule && !hello.server_name;
  return needs_name ? denied(Reason::SniMismatch) : verdict;
}

void Flow::take_hello(const ClientHello& hello) {
  policy::Request asked = request();
  const Verdict verdict = judge_hello(hello, asked);
  if (!verdict.admitted && !verdict.asks()) {
    const bool name = verdict.decision.reason == Reason::SniMismatch;
    return refuse(EventKind::Tls, asked, verdict,
                  tls_alert(name ? Alert::UnrecognizedName : Alert::AccessDenied));
  }
  host_ = asked.host;
  admit(EventKind::Tls, asked, verdict);
}

void Flow::take_other() {
  const Verdict verdict = parts_.judge.ask(request());
  // What asks a person asks for each request then.
  const bool by_rule = verdict.asks() || (verdict.admitted && !verdict.audited);
  if (by_rule && is_plain_http()) {
    deadline_.reset();
    return inspect(false);
  }
  admit(EventKind::Connect, request(), verdict);
}

void Flow::admit(EventKind kind, const policy::Request& asked, const Verdict& verdict) {
  if (verdict.asks()) {
    if (!allowed_ || allowed_host_ != asked.host) return ask(kind, asked, verdict);
    return admit(kind, asked, verdict.granted());
  }
  // Judged again: the policy may have changed since the connection was.
  if (!verdict.admitted) return refuse(kind, asked, verdict);
  deadline_.reset();
  const bool looked_into = verdict.audited ? verdict.watched : verdict.decision.inspect;
  if (looked_into) return inspect(kind == EventKind::Tls);
  Event event = Judge::describe(kind, asked, verdict);
  event.flow = id_;
  if (!parts_.reporter.tell(event))
    return refuse(kind, asked, {{Outcome::Deny, Reason::NotRecorded, {}, false}});
  judged_ = true;
  ++parts_.counters.flows;
  told_ = true;
  if (upstream_) return relay();
  dial();
}

void Flow::refuse(EventKind kind, const policy::Request& asked, const Verdict& verdict,
                  std::string message) {
  ++parts_.counters.flows_refused;
  Event event = Judge::describe(kind, asked, verdict);
  event.flow = id_;
  parts_.reporter.refuse(std::move(event));
  if (unanswered_) message = http::encode_refusal(refusal_of({asked, verdict, {}}), "CONNECT");
  if (message.empty()) {
    reset_connection(std::move(guest_));
    return finish();
  }
  say_last(std::move(message));
}

void Flow::say_last(std::string message) {
  stage_ = Stage::LastWords;
  watch_.reset();
  server_watch_.reset();
  deadline_.reset();
  upstream_.reset();
  last_words_ = std::make_unique<LastWords>(parts_.loop, std::move(guest_), std::move(message),
                                            [this] { finish(); });
}

void Flow::ask(EventKind kind, const policy::Request& asked, const Verdict& verdict) {
  auto ticket = parts_.questions.put(
      asked, verdict.decision, [this, kind, asked](Answered how) { answered(kind, asked, how); });
  if (!ticket) return refuse(kind, asked, denied(ticket.error()));
  Event event = Judge::describe(kind, asked, verdict);
  event.flow = id_;
  parts_.reporter.refuse(std::move(event));  // as refusals are: many equal ones become one
  question_ = std::move(*ticket);
  stage_ = Stage::Asking;
  deadline_.reset();
  server_watch_.reset();
  watch_.reset();
  // A client of TLS that has said its last word is gone; others may wait for an answer behind it.
  watch_ = parts_.loop.watch(guest_.get(), kind == EventKind::Tls ? EPOLLRDHUP : 0U,
                             [this](uint32_t) { end(); });
}

void Flow::answered(EventKind kind, const policy::Request& asked, Answered how) {
  question_.reset();
  watch_.reset();
  stage_ = Stage::FirstBytes;
  if (how != Answered::Allowed) {
    Verdict verdict = denied(Reason::AskUser);
    verdict.decision.rule = parts_.judge.ask(asked).decision.rule;
    return refuse(kind, asked, verdict,
                  kind == EventKind::Tls ? tls_alert(Alert::AccessDenied) : std::string());
  }
  allowed_ = true;
  allowed_host_ = asked.host;
  const Verdict verdict = parts_.judge.ask(asked);
  // By its first bytes it is judged when upstream is there, so that the server may speak first.
  const bool goes_on = verdict.admitted || verdict.asks();
  if (unanswered_ && goes_on) return answer_connect(verdict);
  if (goes_on && !speaks_first_ && !upstream_) return dial();
  admit(kind, asked, verdict);
}

void Flow::dial() {
  stage_ = Stage::Dialing;
  // What the client sends meanwhile waits in its socket; only that it is gone is told.
  watch_.reset();
  watch_ = parts_.loop.watch(guest_.get(), 0, [this](uint32_t) { end(); });
  dial_ = std::make_unique<Connector>(
      Connector::Parts{parts_.loop, parts_.judge, parts_.resolver, parts_.timeouts.connect}, host_,
      to_, [this](Dial::Result result) { dialed(std::move(result)); });
}

void Flow::dialed(Dial::Result result) {
  // It is on the call stack; it goes with the flow, or the next stage.
  if (!result.socket && unanswered_) return lose_tunnel(result.error);
  if (!result.socket) return end(Reason::UpstreamUnreachable, sys::errno_text(result.error));
  upstream_ = std::move(result.socket);
  prepare_stream(upstream_.get());
  if (unanswered_) return open_tunnel();
  proceed();
}

void Flow::proceed() {
  if (judged_) return relay();
  stage_ = Stage::WaitForEither;
  wait_for_first_bytes();
  server_watch_ = parts_.loop.watch(upstream_.get(), EPOLLIN, [this](uint32_t) { take_other(); });
}

void Flow::relay() {
  if (connect_ > 0) return send_connect();
  stage_ = Stage::Relaying;
  watch_.reset();
  server_watch_.reset();
  dial_.reset();
  wake_at_once(guest_.get());
  relay_ = std::make_unique<Relay>(Relay::Parts{parts_.loop, parts_.pipes, parts_.meter},
                                   std::move(guest_), std::move(upstream_), [this](Relay::End how) {
                                     switch (how) {
                                       case Relay::End::Closed:
                                         return end();
                                       case Relay::End::Reset:
                                         return end(Reason::Allowed, "connection reset");
                                       case Relay::End::Exhausted:
                                         return end(Reason::ResourceExhausted,
                                                    "the sandbox has used up its bytes");
                                     }
                                   });
  relay_->start();
}

// Each request is judged, and told of, by itself.
void Flow::inspect(bool tls) {
  const HttpOrigin origin{host_, to_, tls, tls ? std::vector<dns::Name>() : names_, {}};
  // Names that a route admits and ranges that a rule opens since the authority was made cannot be
  // certified.
  if (tls && (parts_.interception == nullptr || !parts_.interception->leaf(origin.name())))
    return refuse(EventKind::Tls, request(), denied(Reason::ProtocolUnsupported),
                  tls_alert(Alert::AccessDenied));
  carry_http(origin);
}

void Flow::carry_http(const HttpOrigin& origin) {
  stage_ = Stage::Http;
  watch_.reset();
  server_watch_.reset();
  upstream_.reset();
  http_ = std::make_unique<HttpConnection>(
      HttpParts{parts_.loop, parts_.judge, parts_.resolver, parts_.reporter, parts_.meter,
                parts_.interception, parts_.filters, parts_.commit, parts_.questions, parts_.pins,
                parts_.names, parts_.partings, parts_.timeouts},
      id_, std::move(guest_), origin, [this](const HttpEnd& how) { inspected(how); });
  http_->start();
}

void Flow::inspected(const HttpEnd& how) {
  if (http_->admitted()) ++parts_.counters.flows;
  // A connection whose every request was refused has been told of by them.
  told_ = http_->admitted() || !how.detail.empty();
  if (how.tunnel) return leave_http(std::move(*how.tunnel));
  if (!told_) return finish();
  end(how.reason, how.detail);
}

}
