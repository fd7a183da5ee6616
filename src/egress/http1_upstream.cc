// The side of an inspected connection that leads to the server.
#include <algorithm>
#include <iterator>

#include "http1_flow.h"

namespace mvm::egress {
namespace {

using crypto::TlsPhase;
using policy::Reason;

// What comes of asking twice is what comes of asking once (RFC 9110 §9.2.2).
bool is_idempotent(std::string_view method) noexcept {
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"};
  return std::ranges::find(kMethods, method) != std::end(kMethods);
}

}

// ---- upstream

void Http1Flow::connect() {
  stage_ = Stage::Connecting;
  drop_upstream();
  opening_ = std::make_unique<ServerOpening>(
      parts_, origin_, std::vector{std::string(kHttp1)},
      [this](ServerOpening::Result result) { connected(std::move(result)); });
}

void Http1Flow::connected(ServerOpening::Result result) {
  if (!result.server) {
    fail(result.failure.reason, result.failure.detail);
    return turn();
  }
  upstream_ = std::make_unique<Upstream>(std::move(*result.server));
  upstream_->parser.expect(request_.method);
  upstream_->channel.send(request_text_);
  stage_ = Stage::Active;
  turn();
}

// It has ended or failed, at a point that decides what that means.
void Http1Flow::upstream_lost(Channel::State state) {
  Upstream& up = *upstream_;
  crypto::TlsEngine* engine = up.channel.engine();
  const bool tls_failed = engine != nullptr && engine->phase() == TlsPhase::Failed;
  auto [reason, why] = up.channel.how_lost();
  if (guest_ended_) why += ", as the client had";
  if (stage_ == Stage::Upgraded) {
    if (state == Channel::State::Failed) return end(Reason::Allowed, "connection reset");
    return;
  }
  if (stage_ != Stage::Active) return drop_upstream();
  // One that was kept may have been closed just as the request was on its way (RFC 9112 §9.3.1).
  const bool repeatable = !body_sent_ && is_idempotent(request_.method);
  if (up.reused && !up.answered && repeatable && !guest_ended_) return connect();
  const bool truncated = tls_failed || state == Channel::State::Failed;
  if (!truncated && up.parser.end_of_input().kind == http::EventKind::End && response_begun_) {
    up.ended = true;
    if (take_response_body({}, true)) finish_exchange();
    return;
  }
  fail(reason, why);
}

}
