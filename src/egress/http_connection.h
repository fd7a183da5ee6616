#pragma once
// One inspected connection of the guest: the TLS handshake with it, and then the flow of the HTTP
// that both sides speak.
//
//   plain ──────────────────────────────────────────────────────────────────▶ HTTP/1.1
//   ClientHello without h2 ─ handshake ─────────────────────────────────────▶ HTTP/1.1
//   ClientHello with h2 ─ connect to the server ┬ it chose h2 ─ handshake ──▶ HTTP/2
//                                               ├ it chose HTTP/1.1 ────────▶ HTTP/1.1, or an alert
//                                               └ failed ─ handshake ───────▶ HTTP/2 that says why
//
// The guest is offered what the server speaks, so nothing is translated from one version into the
// other: most of what is known as request smuggling in proxies has come of that. A server without
// HTTP/2 gives a client that wants nothing else an alert, and so do we (RFC 7301 §3.2).

#include <memory>

#include "http_flow.h"
#include "metered_reader.h"
#include "server_opening.h"

namespace mvm::egress {

class HttpConnection {
 public:
  using Done = std::function<void(HttpEnd)>;

  // `done` is called once, later than the constructor; it must not drop the connection before the
  // next turn.
  HttpConnection(HttpParts parts, uint64_t id, sys::Fd guest, HttpOrigin origin, Done done);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void start();
  void reset() noexcept;
  bool admitted() const noexcept { return flow_ && flow_->admitted(); }
  uint64_t sent() const noexcept { return flow_ ? flow_->sent() : guest_->taken(); }
  uint64_t received() const noexcept { return flow_ ? flow_->received() : guest_->given(); }
  loop::Clock::time_point last_use() const noexcept {
    return flow_ ? flow_->last_use() : last_use_;
  }
  size_t held() const noexcept { return flow_ ? flow_->held() : 0; }
  SocketPair sockets() const noexcept {
    return flow_ ? flow_->sockets() : SocketPair{guest_ ? guest_->fd() : -1, -1};
  }
  std::array<sys::Fd, 2> take_sockets() noexcept {
    if (flow_) return flow_->take_sockets();
    return {guest_ ? guest_->take_socket() : sys::Fd(), sys::Fd()};
  }

 private:
  enum class Stage : uint8_t {
    Hello,      // of the guest
    Opening,    // the server's side
    Handshake,  // with the guest, which has been answered
    Flow,
    Ended,
  };

  void turn();
  bool read_guest();  // false: the connection has ended
  std::string wanted();
  void take_hello();
  void opened(ServerOpening::Result result);
  void answer(std::string_view protocol);
  void refuse(crypto::TlsAlert alert);
  void begin_flow();
  void end(policy::Reason reason, std::string detail);
  void update();

  HttpParts parts_;
  uint64_t id_;
  HttpOrigin origin_;
  Done done_;
  Stage stage_ = Stage::Hello;
  std::optional<Channel> guest_;
  Bytes input_;
  MeteredReader reader_;
  loop::Clock::time_point last_use_;
  loop::Watch watch_;
  loop::Watch deadline_;
  loop::Watch later_;
  std::unique_ptr<ServerOpening> opening_;
  ServerOpening::Result server_;
  std::unique_ptr<HttpFlow> flow_;
};

}
