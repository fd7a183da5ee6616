// The side of an inspected connection that leads to the server.
#include "mvm/sys/error.h"

#include "http1_flow.h"
#include "sockets.h"

namespace mvm::egress {
namespace {

using crypto::TlsPhase;
using policy::Reason;

}

// ---- upstream

void Http1Flow::connect() {
  stage_ = Stage::Connecting;
  upstream_.reset();
  old_connector_ = std::move(connector_);
  connector_ = std::make_unique<Connector>(
      Connector::Parts{parts_.loop, parts_.judge, parts_.resolver}, origin_.host, origin_.to,
      [this](Dial::Result result) { connected(std::move(result)); });
}

void Http1Flow::connected(Dial::Result result) {
  if (!result.socket) {
    fail(result.error == ETIMEDOUT ? Reason::TimedOut : Reason::UpstreamUnreachable,
         sys::errno_text(result.error));
    return turn();
  }
  prepare_stream(result.socket.get());
  if (!origin_.tls) {
    upstream_ = std::make_unique<Upstream>(Channel(std::move(result.socket)));
  } else {
    const crypto::TlsPeer peer{origin_.host->text(), origin_.to.port, {std::string(kHttp1)}, {}};
    upstream_ = std::make_unique<Upstream>(
        Channel(std::move(result.socket), crypto::TlsEngine(parts_.interception->servers(), peer)));
    deadline_ = parts_.loop.after(kHandshakePatience, [this] {
      fail(Reason::TimedOut, "its TLS handshake does not end");
      turn();
    });
  }
  turn();
}

bool Http1Flow::check_upstream() {
  if (!upstream_->channel.open()) return true;
  deadline_.reset();
  upstream_->parser.expect(request_.method);
  upstream_->channel.send(request_text_);
  stage_ = Stage::Active;
  return true;
}

// It has ended or failed, at a point that decides what that means.
void Http1Flow::upstream_lost(Channel::State state) {
  Upstream& up = *upstream_;
  crypto::TlsEngine* engine = up.channel.engine();
  const bool tls_failed = engine != nullptr && engine->phase() == TlsPhase::Failed;
  const std::string why = tls_failed ? engine->failure().text : "it closed the connection";
  if (stage_ == Stage::Connecting) {
    static_cast<void>(up.channel.flush());  // the alert that says so
    return fail(Reason::UpstreamTls, why);
  }
  if (stage_ == Stage::Upgraded) {
    if (state == Channel::State::Failed) return end(Reason::Allowed, "connection reset");
    return;
  }
  if (stage_ != Stage::Active) return upstream_.reset();
  // One that was kept may have been closed just as the request was on its way (RFC 9112 §9.3.1).
  if (up.reused && !up.answered && !body_sent_) return connect();
  const bool truncated = tls_failed || state == Channel::State::Failed;
  if (!truncated && up.parser.end_of_input().kind == http::EventKind::End && response_begun_) {
    up.ended = true;
    if (take_response_body({}, true)) finish_exchange();
    return;
  }
  fail(Reason::UpstreamUnreachable, why);
}

}
