// Requests to the explicit proxy. Each names its server (RFC 9112 §3.2.2), so that is judged and
// found before the request is judged as any other; one after another may go to different ones.
#include "http1_flow.h"

namespace mvm::egress {

using policy::Reason;

// Where bytes have come behind its head they are not on the socket any more, and it is refused:
// clients wait for the answer.
bool Http1Flow::hand_over_tunnel(ByteView rest) {
  if (!origin_.door || requests_.head().method != "CONNECT" || !rest.empty() || guest_ended_ ||
      guest_.unsent() > 0)
    return false;
  stage_ = Stage::Ended;
  guest_watch_.reset();
  later_.reset();
  drop_upstream();
  const auto done = std::move(done_);
  auto tunnel = std::make_shared<TunnelRequest>();
  tunnel->guest = guest_.take_socket();
  tunnel->to = *requests_.target().authority;
  done({Reason::Allowed, {}, std::move(tunnel)});
  return true;
}

// False: it is refused, or being looked for.
bool Http1Flow::find_server() {
  JudgedRequest judged = judge_proxy_request(parts_.judge, *origin_.door, request_);
  if (!judged.verdict.admitted && !judged.verdict.asks()) {
    judged_ = Judge::describe(EventKind::Http, judged.request, judged.verdict);
    judged_.flow = id_;
    parts_.reporter.refuse(judged_);
    http::Refusal refusal = refusal_of(judged);
    if (judged.verdict.decision.reason == Reason::ProtocolUnsupported)
      refusal.message =
          "this is an HTTP proxy: it takes \"GET http://host/path\", and CONNECT with nothing "
          "behind it before it is answered";
    refuse(refusal);
    return false;
  }
  http::Authority server = *requests_.target().authority;
  server.port = judged.request.port;
  if (server == server_) return true;
  server_ = server;
  drop_upstream();
  stage_ = Stage::Finding;
  destination_ = std::make_unique<Destination>(
      Destination::Parts{parts_.loop, parts_.judge, parts_.pins, parts_.resolver, parts_.names},
      server, *server.port, [this](Destination::Result where) { found(std::move(where)); });
  return false;
}

void Http1Flow::found(Destination::Result where) {
  destination_.reset();
  stage_ = Stage::Idle;
  origin_.host = where.request.host;
  if (where.to) {
    origin_.to = *where.to;
    judge_it();
    return turn();
  }
  server_.reset();
  JudgedRequest judged{std::move(where.request), std::move(where.verdict), {}};
  judged.request.method = request_.method;
  judged.request.target = policy::canonical_target(requests_.target().origin);
  judged_ = Judge::describe(EventKind::Http, judged.request, judged.verdict);
  judged_.flow = id_;
  if (where.failure.empty()) {
    parts_.reporter.refuse(judged_);
    refuse(refusal_of(judged));
  } else {
    judged_.reason = Reason::DnsFailed;
    judged_.detail = where.failure;
    parts_.reporter.refuse(judged_);
    refuse(failure_of(origin_, Reason::DnsFailed, where.failure));
  }
  turn();
}

}
