// Connections to the explicit proxy, until they are like others. A CONNECT becomes a flow to the
// server that it names, at an address that is judged and pinned as DNS would have pinned it; what
// comes through the tunnel is looked at as in any flow. Until it is answered, a refusal is a 403
// that says why. Other requests are HTTP from their first byte.
#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "mvm/http/forward.h"
#include "mvm/http/parser.h"
#include "mvm/sys/error.h"

#include "flow.h"
#include "scratch.h"
#include "sockets.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using policy::Reason;

constexpr std::string_view kEstablished = "HTTP/1.1 200 Connection established\r\n\r\n";

}

void Flow::open_door() {
  stage_ = Stage::Door;
  prepare_stream(guest_.get());
  door_ =
      std::make_unique<ProxyDoor>(parts_.loop, std::move(guest_), parts_.timeouts.first_bytes,
                                  [this](ProxyDoor::Result result) { enter(std::move(result)); });
}

void Flow::enter(ProxyDoor::Result result) {
  guest_ = std::move(result.socket);
  door_.reset();
  const auto refuse_as = [&](EventKind kind, Reason reason) {
    refuse(kind, request(), {{Outcome::Deny, reason, {}, false}},
           http::encode_refusal(result.refusal, "CONNECT"));
  };
  switch (result.what) {
    case ProxyDoor::What::Lost:
      return end();
    case ProxyDoor::What::Requests:
      return carry_http({{}, to_, false, {}, to_});
    case ProxyDoor::What::Malformed:
      return refuse_as(EventKind::Http, Reason::ProtocolUnsupported);
    case ProxyDoor::What::TimedOut:
      return refuse_as(EventKind::Connect, Reason::TimedOut);
    case ProxyDoor::What::Tunnel:
      return find_server(result.to);
  }
}

// A tunnel through somebody else's proxy, which a rule names. What goes through it would be
// relayed unread, whatever the rules say of where it leads: so that is judged, as if our proxy had
// been asked, and what they want looked into is refused. What follows is passed on when the other
// proxy has agreed; its no ends the connection, for it might be asked again on it, for anything.
void Flow::take_connect(const Peeked& peeked) {
  const std::optional<http::Authority>& to = peeked.to;
  const Verdict through = parts_.judge.ask(request());
  if (is_plain_http() || through.decision.inspect || through.watched) return take_other();
  policy::Request asked;
  if (to) {
    asked.port = to->port;
    asked.address = IpAddress::parse(to->host);
    if (!asked.address) asked.host = dns::Name::parse(to->host);
  }
  Verdict verdict = parts_.judge.ask(asked);
  const bool read = verdict.decision.inspect || verdict.watched || verdict.asks();
  if (read || (!asked.address && !asked.host))
    verdict = {{Outcome::Deny, Reason::ProtocolUnsupported, verdict.decision.rule, false}};
  if (verdict.admitted) {
    connect_ = peeked.length;
    return take_other();
  }
  refuse(EventKind::Connect, asked, verdict,
         http::encode_refusal(refusal_of({asked, verdict, {}}), "CONNECT"));
}

// The head, and nothing behind it.
void Flow::send_connect() {
  MVM_UNCLEARED std::array<std::byte, kMaxPeeked> head;
  const ssize_t got = ::recv(guest_.get(), head.data(), std::min(connect_, head.size()), 0);
  connect_ = 0;
  // Into a buffer that is empty.
  if (got <= 0 ||
      ::send(upstream_.get(), head.data(), static_cast<size_t>(got), MSG_NOSIGNAL) != got)
    return end(Reason::UpstreamUnreachable, "it did not take the request for a tunnel");
  stage_ = Stage::OtherProxy;
  watch_.reset();
  watch_ = parts_.loop.watch(guest_.get(), 0, [this](uint32_t) { end(); });
  server_watch_.reset();
  server_watch_ = parts_.loop.watch(upstream_.get(), EPOLLIN | EPOLLRDHUP,
                                    [this](uint32_t) { take_proxys_answer(); });
  deadline_ = parts_.loop.after(parts_.timeouts.handshake, [this] {
    end(Reason::TimedOut, "it does not answer the request for a tunnel");
  });
}

void Flow::take_proxys_answer() {
  MVM_UNCLEARED std::array<std::byte, kMaxPeeked> buffer;
  const ssize_t got = ::recv(upstream_.get(), buffer.data(), buffer.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const ByteView data = ByteView(buffer).first(got > 0 ? static_cast<size_t>(got) : 0);
  http::ResponseParser parser;
  parser.expect("CONNECT");
  ByteView rest = data;
  auto event = parser.next(rest);
  while (event.kind == http::EventKind::Interim) event = parser.next(rest);
  // The end of what has come is seen when it does not grow any more.
  if (event.kind == http::EventKind::More && data.size() >= seen_of_answer_ + 1 &&
      data.size() < buffer.size()) {
    seen_of_answer_ = data.size();
    return wake_at(upstream_.get(), data.size() + 1);
  }
  wake_at_once(upstream_.get());
  deadline_.reset();
  if (event.kind != http::EventKind::Head)
    return end(Reason::UpstreamUnreachable, "its answer to the request for a tunnel is no HTTP");
  http::ResponseHead answer = parser.head();
  if (answer.status / 100 == 2) return relay();
  tell_end(Reason::Allowed, "the other proxy answered " + std::to_string(answer.status));
  told_ = false;
  // As it came but for its body, and with what it wants of the client: that is said to the client.
  std::erase_if(answer.headers, [](const http::Header& field) {
    constexpr std::string_view kOfConnection[] = {"connection", "proxy-connection", "keep-alive"};
    return std::ranges::any_of(kOfConnection,
                               [&](auto name) { return http::same_name(field.name, name); });
  });
  answer.headers.push_back({"Connection", "close"});
  answer.framing = {http::BodyKind::Length, 0};
  std::string text;
  http::append_forwarded(text, answer, "CONNECT");
  say_last(std::move(text));
}

// The requests before it have come to their end; the tunnel is told of by itself.
void Flow::leave_http(TunnelRequest tunnel) {
  if (told_) tell_end(Reason::Allowed, {});
  told_ = false;
  guest_ = std::move(tunnel.guest);
  left_http_ = std::move(http_);
  find_server(tunnel.to);
}

void Flow::find_server(const http::Authority& to) {
  unanswered_ = true;
  if (const auto address = IpAddress::parse(to.host)) return reach({*address, *to.port}, {});
  stage_ = Stage::Finding;
  watch_ = parts_.loop.watch(guest_.get(), 0, [this](uint32_t) { end(); });
  destination_ = std::make_unique<Destination>(
      Destination::Parts{parts_.loop, parts_.judge, parts_.pins, parts_.resolver, parts_.names}, to,
      *to.port, [this](Destination::Result where) { found(std::move(where)); });
}

void Flow::found(Destination::Result where) {
  watch_.reset();
  destination_.reset();
  const policy::Request& asked = where.request;
  if (!where.failure.empty()) {
    Event event = Judge::describe(EventKind::Connect, asked, where.verdict);
    event.flow = id_;
    event.reason = Reason::DnsFailed;
    event.detail = where.failure;
    parts_.reporter.refuse(event);
    const HttpOrigin origin{asked.host, {}, false, {}, {}};
    return say_last(
        http::encode_refusal(failure_of(origin, Reason::DnsFailed, where.failure), "CONNECT"));
  }
  if (!where.to) return refuse(EventKind::Connect, asked, where.verdict);
  reach(*where.to, asked.host);
}

// As if it had been connected to: an address without a name may have been given for one.
void Flow::reach(const Endpoint& to, const std::optional<dns::Name>& host) {
  if (holds_pin_) parts_.pins.release(to_.address);  // of the gateway: a rule may open its range
  to_ = to;
  holds_pin_ = parts_.pins.hold(to_.address);
  names_ = host ? std::vector{*host} : parts_.pins.names_of(to_.address, parts_.loop.now());
  const Verdict verdict = judge_connection();
  if (verdict.admitted) return answer_connect(verdict);
  if (verdict.asks()) return ask(EventKind::Connect, request(), verdict);
  refuse(EventKind::Connect, request(), verdict);
}

// A tunnel is there when its server is, so that the client hears of one that is not. Where requests
// are looked into they are answered so, and what a client says first may change where they go.
void Flow::answer_connect(const Verdict& verdict) {
  if (verdict.decision.inspect || verdict.watched || is_plain_http()) return open_tunnel();
  dial();
}

void Flow::lose_tunnel(int error) {
  const Reason reason = error == ETIMEDOUT ? Reason::TimedOut : Reason::UpstreamUnreachable;
  const std::string detail = sys::errno_text(error);
  tell_opened();
  tell_end(reason, detail);
  say_last(
      http::encode_refusal(failure_of({host_, to_, false, {}, {}}, reason, detail), "CONNECT"));
}

void Flow::open_tunnel() {
  unanswered_ = false;
  // Into a buffer that is empty; where it fails the connection is lost, which shows next.
  static_cast<void>(::send(guest_.get(), kEstablished.data(), kEstablished.size(), MSG_NOSIGNAL));
  begin();
}

}
