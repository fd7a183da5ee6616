#pragma once
// HTTP/1.1 between the guest and one host, each request judged by itself. Bodies pass as they come;
// one request is under way at a time, and what the client sends ahead waits.
//
//   guest channel ─ RequestParser ─ judge ─ upstream channel
//   guest channel ─────────────── ResponseParser ─ upstream channel
//
// Upstream is connected to when the first admitted request is there, and kept for the next ones. A
// refused request is answered and ends the connection. After a WebSocket handshake that both sides
// agree on, bytes are passed on unread.
//
// Filters (Settings::filters) see each exchange. Where they rewrite a request's body, one that is
// known to be small is collected whole before it leaves, with its new length; others are sent in
// chunks.

#include <functional>
#include <memory>
#include <optional>

#include "mvm/http/parser.h"

#include "channel.h"
#include "connector.h"
#include "filters.h"
#include "http_judge.h"
#include "interception.h"
#include "meter.h"
#include "reporter.h"

namespace mvm::egress {

class Http1Flow {
 public:
  static constexpr size_t kMaxUnsent = 256 * 1024;     // to one side, before the other is read on
  static constexpr size_t kMaxCollected = 256 * 1024;  // of a request's body, as it came
  static constexpr std::chrono::seconds kHandshakePatience{15};
  static constexpr std::string_view kHttp1 = "http/1.1";  // in ALPN

  struct Parts {
    loop::Loop& loop;
    Judge& judge;
    Resolver& resolver;
    Reporter& reporter;
    Meter& meter;
    Interception* interception;
    const std::vector<std::shared_ptr<FilterSource>>& filters;
  };
  struct End {
    policy::Reason reason = policy::Reason::Allowed;
    std::string detail;
  };
  // `done` is called once, later than the constructor; it must not drop the flow before the next
  // turn.
  Http1Flow(Parts parts, uint64_t id, sys::Fd guest, HttpOrigin origin,
            std::function<void(End)> done);
  Http1Flow(const Http1Flow&) = delete;
  Http1Flow& operator=(const Http1Flow&) = delete;

  void start();
  void reset() noexcept;
  bool admitted() const noexcept { return admitted_; }  // some request was
  uint64_t sent() const noexcept { return guest_.taken(); }
  uint64_t received() const noexcept { return guest_.given(); }
  loop::Clock::time_point last_use() const noexcept { return last_use_; }

 private:
  enum class Stage : uint8_t {
    Handshake,   // TLS with the guest
    Idle,        // no request yet
    Collecting,  // one is judged, and its body wanted whole
    Connecting,  // one is judged, and upstream not there yet
    Active,      // it is on its way
    Upgraded,
    Closing,  // the last words are said
    Ended,
  };
  struct Upstream {
    explicit Upstream(Channel made) : channel(std::move(made)) {}
    Channel channel;
    http::ResponseParser parser;
    Bytes input;
    loop::Watch watch;
    uint32_t interest = 0;
    bool ended = false;     // says nothing more
    bool last = false;      // what it is answering now
    bool reused = false;    // has answered before
    bool answered = false;  // something of this answer has come
  };

  // Events of the sockets end here; turn() moves what can be moved.
  void turn();
  bool step();  // true: something moved
  bool read_guest();
  bool read_upstream();
  bool handshake();
  bool take_requests();
  void take_request();
  bool filter_request(http::RequestHead& forwarded);
  void send_request();
  bool take_body(const http::Event& event);
  bool collect(const http::Event& event);
  bool take_responses();
  bool take_response(const http::Event& event);
  void take_interim();
  void take_upgrade();
  void take_head();
  bool take_response_body(ByteView body, bool last);
  void finish_exchange();
  bool relay_upgraded();

  void connect();
  void connected(Dial::Result result);
  bool check_upstream();  // its handshake; false: failed
  void upstream_lost(Channel::State state);
  void refuse(const http::Refusal& refusal);
  void refuse(FilterRefusal refusal);
  void close_guest();
  void fail(policy::Reason reason, const std::string& detail);
  void end(policy::Reason reason = policy::Reason::Allowed, std::string detail = {});
  void update();
  void watch(Channel& channel, loop::Watch& watch, uint32_t& interest, uint32_t wanted);
  size_t allowance(Way way);

  Parts parts_;
  uint64_t id_;
  HttpOrigin origin_;
  std::function<void(End)> done_;
  Stage stage_;
  Channel guest_;
  loop::Watch guest_watch_;
  uint32_t guest_interest_ = 0;
  Bytes input_;  // of the guest, not yet parsed
  bool guest_ended_ = false;
  http::RequestParser requests_;
  std::unique_ptr<Upstream> upstream_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Connector> old_connector_;

  // The exchange under way.
  http::RequestHead request_;  // as it came; its body's framing and the handshake's key are in it
  Event judged_;               // how it was
  Filters filters_;
  http::RequestHead forwarded_;  // while its body is collected
  Bytes collected_;
  std::string request_text_;    // its head, as it goes upstream, and its body if that was collected
  http::Framing sent_framing_;  // of its body, towards upstream
  http::Framing given_framing_;  // of the response's, towards the guest
  bool websocket_ = false;
  bool body_sent_ = false;  // some of its body has left: it cannot be sent again
  bool request_done_ = false;
  bool response_begun_ = false;
  bool close_after_ = false;  // the guest's connection ends with this response
  uint64_t exchanges_ = 0;

  bool admitted_ = false;
  bool throttled_ = false;
  End how_;
  loop::Clock::time_point last_use_;
  loop::Watch deadline_;
  loop::Watch refill_;
  loop::Watch later_;
};

}
