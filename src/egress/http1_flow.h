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
// chunks. So is an answer's that is there as a whole: nothing waits for what is still to come.

#include <functional>
#include <memory>
#include <optional>

#include "mvm/http/parser.h"

#include "filters.h"
#include "http_flow.h"
#include "metered_reader.h"
#include "questions.h"
#include "server_opening.h"

namespace mvm::egress {

class Http1Flow final : public HttpFlow {
 public:
  static constexpr size_t kMaxUnsent = 256 * 1024;     // to one side, before the other is read on
  static constexpr size_t kMaxCollected = 256 * 1024;  // of a request's body, as it came
  using Done = std::function<void(HttpEnd)>;

  // `upstream`: a connection to the server that has not been used, if there is one already.
  Http1Flow(HttpParts parts, uint64_t id, OpenChannel guest, std::optional<OpenChannel> upstream,
            HttpOrigin origin, Done done);

  void start() override;
  void reset() noexcept override;
  bool admitted() const noexcept override { return admitted_; }
  uint64_t sent() const noexcept override { return guest_.taken(); }
  uint64_t received() const noexcept override { return guest_.given(); }
  loop::Clock::time_point last_use() const noexcept override { return last_use_; }
  size_t held() const noexcept override;
  SocketPair sockets() const noexcept override {
    return {guest_.fd(), upstream_ ? upstream_->channel.fd() : -1};
  }
  std::array<sys::Fd, 2> take_sockets() noexcept override {
    return {guest_.take_socket(), upstream_ ? upstream_->channel.take_socket() : sys::Fd()};
  }

 private:
  enum class Stage : uint8_t {
    Idle,        // no request yet
    Finding,     // where one goes that names its server
    Asking,      // a person about one
    Collecting,  // one is judged, and its body wanted whole
    Connecting,  // one is judged, and upstream not there yet
    Active,      // it is on its way
    Upgraded,
    Closing,  // the last words are said
    Ended,
  };
  struct Upstream {
    explicit Upstream(OpenChannel made)
        : channel(std::move(made.channel)), input(std::move(made.input)) {}
    Channel channel;
    Bytes input;
    http::ResponseParser parser;
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
  bool waits() const noexcept;
  void pass_on_end();
  bool read_guest();
  bool read_upstream();
  bool take_requests();
  void take_request();
  bool hand_over_tunnel(ByteView rest);
  bool find_server();
  void found(Destination::Result where);
  void judge_it();
  void ask(JudgedRequest judged);
  void take_answer();
  void forward(const JudgedRequest& judged);
  bool filter_request(http::RequestHead& forwarded);
  void send_request();
  bool take_body(const http::Event& event);
  bool collect(const http::Event& event);
  bool take_responses();
  bool take_response(const http::Event& event, size_t here);
  bool take_interim();
  void take_upgrade();
  void take_head(size_t here);
  void give_head(http::ResponseHead head);
  bool take_response_body(ByteView body, bool last);
  bool take_response_end();
  void finish_exchange();
  bool relay_upgraded();

  void connect();
  void connected(ServerOpening::Result result);
  void upstream_lost(Channel::State state);
  void refuse_malformed(const http::Refusal& refusal);
  void refuse_http2();
  void refuse(const http::Refusal& refusal);
  void refuse(FilterRefusal refusal);
  void close_guest();
  void drop_upstream();
  void fail(policy::Reason reason, const std::string& detail);
  void end(policy::Reason reason = policy::Reason::Allowed, std::string detail = {});
  void update();
  void watch(Channel& channel, loop::Watch& watch, uint32_t& interest, uint32_t wanted);

  HttpParts parts_;
  uint64_t id_;
  HttpOrigin origin_;
  Done done_;
  Stage stage_ = Stage::Idle;
  Channel guest_;
  loop::Watch guest_watch_;
  uint32_t guest_interest_ = 0;
  Bytes input_;                // of the guest, not yet parsed
  bool guest_leaves_ = false;  // its end is on the socket
  bool guest_ended_ = false;   // and has been read
  http::RequestParser requests_;
  std::unique_ptr<Upstream> upstream_;
  std::unique_ptr<ServerOpening> opening_;
  std::unique_ptr<Destination> destination_;
  std::optional<http::Authority> server_;  // of the last request that named one; with its port
  MeteredReader reader_;

  // The exchange under way.
  http::RequestHead request_;  // as it came; its body's framing and the handshake's key are in it
  Event judged_;               // how it was
  JudgedRequest asked_;        // while a person is asked about it
  Questions::Ticket question_;
  std::optional<Answered> answer_;
  Filters filters_;
  http::RequestHead forwarded_;  // while its body is collected
  Bytes collected_;
  std::optional<http::ResponseHead> answer_head_;  // while its body is, which is here
  Bytes given_;
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
  HttpEnd how_;
  loop::Clock::time_point last_use_;
  loop::Watch deadline_;
  loop::Watch later_;
};

}
