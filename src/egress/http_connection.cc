#include "http_connection.h"

#include <algorithm>

#include "http1_flow.h"
#include "http2_flow.h"
#include "sockets.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using crypto::TlsPhase;
using policy::Reason;

}

HttpConnection::HttpConnection(HttpParts parts, uint64_t id, sys::Fd guest, HttpOrigin origin,
                               Done done)
    : parts_(parts),
      id_(id),
      origin_(std::move(origin)),
      done_(std::move(done)),
      guest_(origin_.tls
                 ? Channel(std::move(guest), crypto::TlsEngine(parts_.interception->guests()))
                 : Channel(std::move(guest))),
      reader_(parts.loop, parts.meter, [this] { turn(); }),
      last_use_(parts.loop.now()) {}

void HttpConnection::start() {
  if (!origin_.tls) return begin_flow();
  deadline_ = parts_.loop.after(parts_.timeouts.handshake, [this] { end(Reason::TimedOut, {}); });
  update();
}

// ---- the guest's TLS

void HttpConnection::turn() {
  if (stage_ == Stage::Flow || stage_ == Stage::Ended) return;
  last_use_ = parts_.loop.now();
  if (!read_guest()) return;
  if (stage_ == Stage::Hello && guest_->engine()->phase() == TlsPhase::Hello) take_hello();
  if (stage_ == Stage::Ended) return;
  if (!guest_->flush()) return end(Reason::Allowed, "connection reset");
  if (stage_ == Stage::Handshake && guest_->open()) return begin_flow();
  update();
}

bool HttpConnection::read_guest() {
  if (stage_ == Stage::Opening) return true;
  const auto read = reader_.receive(Way::Send, *guest_, input_);
  if (read.used_up) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return false;
  }
  if (read.state == Channel::State::Open) return true;
  static_cast<void>(guest_->flush());  // an alert says why
  const crypto::TlsEngine& engine = *guest_->engine();
  end(Reason::Allowed,
      engine.phase() == TlsPhase::Failed ? engine.failure().text : "connection reset");
  return false;
}

// What the guest wants a certificate for. One that names no server wants the address it connects
// to, where there is no name for it.
std::string HttpConnection::wanted() {
  const std::string& named = guest_->engine()->hello().server_name;
  if (origin_.host) return named;
  return named.empty() ? origin_.name() : std::string();
}

void HttpConnection::take_hello() {
  const crypto::TlsHello& hello = guest_->engine()->hello();
  const auto offers = [&hello](std::string_view protocol) {
    return std::ranges::find(hello.protocols, protocol) != hello.protocols.end();
  };
  if (!parts_.interception->leaf(wanted())) return refuse(crypto::TlsAlert::UnrecognizedName);
  if (offers(kHttp2)) {
    std::vector<std::string> protocols{std::string(kHttp2)};
    if (offers(kHttp1)) protocols.emplace_back(kHttp1);
    stage_ = Stage::Opening;
    // Dialling and the server's handshake have time-outs of their own.
    deadline_.reset();
    opening_ = std::make_unique<ServerOpening>(
        parts_, origin_, std::move(protocols),
        [this](ServerOpening::Result result) { opened(std::move(result)); });
    return;
  }
  for (const std::string_view version : {kHttp1, kHttp10})
    if (offers(version)) return answer(version);
  if (!hello.protocols.empty()) return refuse(crypto::TlsAlert::NoApplicationProtocol);
  answer({});
}

void HttpConnection::opened(ServerOpening::Result result) {
  server_ = std::move(result);
  const auto& offered = guest_->engine()->hello().protocols;
  if (server_.no_common_protocol) {
    refuse(crypto::TlsAlert::NoApplicationProtocol);
  } else if (!server_.server || server_.server->channel.engine()->protocol() == kHttp2) {
    answer(kHttp2);
  } else if (std::ranges::find(offered, kHttp1) != offered.end()) {
    answer(kHttp1);  // also of a server that knows no ALPN
  } else {
    server_.server.reset();
    refuse(crypto::TlsAlert::NoApplicationProtocol);
  }
  turn();
}

void HttpConnection::answer(std::string_view protocol) {
  stage_ = Stage::Handshake;
  deadline_ = parts_.loop.after(parts_.timeouts.handshake, [this] { end(Reason::TimedOut, {}); });
  crypto::TlsEngine& engine = *guest_->engine();
  engine.accept(parts_.interception->leaf(wanted()), protocol);
  // What came behind the hello has waited, and no socket tells of it.
  later_ = parts_.loop.after(0ms, [this] { turn(); });
}

void HttpConnection::refuse(crypto::TlsAlert alert) {
  guest_->engine()->refuse(alert);
  static_cast<void>(guest_->flush());
  end(Reason::Allowed, alert == crypto::TlsAlert::NoApplicationProtocol
                           ? "guest and server have no version of HTTP in common"
                           : guest_->engine()->failure().text);
}

// ---- what follows

void HttpConnection::begin_flow() {
  watch_.reset();
  deadline_.reset();
  later_.reset();
  const bool http2 = origin_.tls && guest_->engine()->protocol() == kHttp2;
  OpenChannel guest{std::move(*guest_), std::move(input_)};
  auto done = [this](HttpEnd how) {
    stage_ = Stage::Ended;
    done_(std::move(how));
  };
  stage_ = Stage::Flow;
  if (http2)
    flow_ = std::make_unique<Http2Flow>(parts_, id_, std::move(guest), std::move(server_),
                                        std::move(origin_), std::move(done));
  else
    flow_ = std::make_unique<Http1Flow>(parts_, id_, std::move(guest), std::move(server_.server),
                                        std::move(origin_), std::move(done));
  flow_->start();
}

void HttpConnection::reset() noexcept {
  if (flow_) return flow_->reset();
  watch_.reset();
  opening_.reset();
  server_ = {};
  reset_connection(guest_->take_socket());
}

void HttpConnection::end(Reason reason, std::string detail) {
  if (stage_ == Stage::Ended) return;
  stage_ = Stage::Ended;
  const bool told = guest_->unsent() == 0;  // by an alert
  watch_.reset();
  deadline_.reset();
  later_.reset();
  opening_.reset();
  if (!told) reset();
  const auto done = std::move(done_);
  done({reason, std::move(detail)});
}

void HttpConnection::update() {
  const bool reads = stage_ != Stage::Opening && !reader_.waits();
  watch_.reset();
  watch_ = parts_.loop.watch(
      guest_->fd(), (reads ? EPOLLIN : 0U) | (guest_->wants_write() ? EPOLLOUT : 0U),
      [this](uint32_t events) {
        const bool lost = (events & EPOLLERR) != 0 ||
                          ((events & EPOLLHUP) != 0 && (events & (EPOLLIN | EPOLLOUT)) == 0);
        // An alert that came before a reset is still there to be read.
        if (lost && (stage_ == Stage::Opening || reader_.waits()))
          return end(Reason::Allowed, "connection reset");
        turn();
      });
  if (reads && guest_->holds_input()) later_ = parts_.loop.after(0ms, [this] { turn(); });
}

}
