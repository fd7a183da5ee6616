#pragma once
// HTTP/2 between the guest and one host, each stream judged by itself.
//
//   guest channel ─ H2Session (server) ─ judge ─ filters ─ H2Session (client) ─ server channel
//                            └──────── an Exchange for each stream ────────┘
//
// A stream of the guest becomes a stream of the one connection to the server. Windows open on one
// side as bytes leave on the other, so a reader that is slow stops its own stream's writer and no
// other. Resets and their reasons are passed on; a GOAWAY, or the end, of the server's connection
// becomes a GOAWAY to the guest, whose client then makes a new connection. A refused stream is
// answered, and the others go on.
//
// A stream that a rule leaves to a person waits for the answer, and the others go on; it outlives
// the server's connection.
//
// When there is no server to speak to, each admitted request is told why, and the connection ends.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "mvm/http/h2.h"

#include "filters.h"
#include "http_flow.h"
#include "metered_reader.h"
#include "questions.h"
#include "server_opening.h"

namespace mvm::egress {

class Http2Flow final : public HttpFlow {
 public:
  // Written ahead of a socket. Less than a TLS engine keeps, for one that is full takes no input
  // either, and WINDOW_UPDATEs have to come through.
  static constexpr size_t kMaxUnsent = 48 * 1024;
  static constexpr size_t kMaxCollected = 256 * 1024;        // of a request's body, as it came
  static constexpr size_t kMaxCollectedInAll = 1024 * 1024;  // of a connection
  // Of bodies whose streams the server does not take yet: half of the connection's window.
  static constexpr size_t kMaxWaiting = 512 * 1024;
  // Frames without a window (heads, interim answers, resets) that the far side of a connection has
  // not taken: with more, nothing is read that could lead to others. More than all streams' heads.
  static constexpr size_t kMaxQueued = 256;
  using Done = std::function<void(HttpEnd)>;

  Http2Flow(HttpParts parts, uint64_t id, OpenChannel guest, ServerOpening::Result server,
            HttpOrigin origin, Done done);

  void start() override;
  void reset() noexcept override;
  bool admitted() const noexcept override { return admitted_; }
  uint64_t sent() const noexcept override { return guest_.channel.taken(); }
  uint64_t received() const noexcept override { return guest_.channel.given(); }
  loop::Clock::time_point last_use() const noexcept override { return last_use_; }
  size_t held() const noexcept override;
  SocketPair sockets() const noexcept override {
    return {guest_.channel.fd(), server_ ? server_->channel.fd() : -1};
  }
  std::array<sys::Fd, 2> take_sockets() noexcept override {
    return {guest_.channel.take_socket(), server_ ? server_->channel.take_socket() : sys::Fd()};
  }

 private:
  struct Side {
    Side(OpenChannel made, http::H2Side side)
        : channel(std::move(made.channel)), input(std::move(made.input)), session(side) {}
    Channel channel;
    Bytes input;
    http::H2Session session;
    loop::Watch watch;
    uint32_t interest = 0;
    bool ended = false;  // says nothing more
    bool lost = false;   // hears nothing more
    size_t held() const noexcept { return channel.unsent() + input.size() + session.queued(); }
  };
  // A request that waits for a person.
  struct Asked {
    Asked(JudgedRequest request, http::H2Head its_head, Questions::Ticket ticket)
        : judged(std::move(request)), head(std::move(its_head)), question(std::move(ticket)) {}
    JudgedRequest judged;
    http::H2Head head;
    Questions::Ticket question;
    std::optional<Answered> answer;
  };
  // A request and its answer. Of one that is refused only the answer is left.
  struct Stream {
    int32_t guest = 0;
    int32_t server = 0;  // 0: not opened
    Event judged;
    std::unique_ptr<Asked> asked;  // while it is
    Filters filters;
    std::string method;
    http::H2Head head;  // as it goes to the server, until it does
    Bytes body;         // likewise; of one that waits for a person, as it came
    http::Headers trailers;
    size_t collected = 0;  // length of a body that is wanted whole; 0: of one that is not
    bool deaf = false;     // what else comes of the request is thrown away
    bool request_ended = false;
    bool response_begun = false;
    bool response_has_body = false;
    bool response_ended = false;
    bool reset_when_sent = false;  // the server reset it after its answer
    http::Headers response_trailers;
    size_t owed_guest = 0;  // bytes that came, and whose window is still closed
    size_t owed_server = 0;
  };
  // Whether a message ends with its head is known by the next event.
  struct Begun {
    int32_t stream;
    http::H2Head head;
  };

  // ---- bytes (http2_flow.cc)
  void turn();
  bool step();
  bool read(Way way, Side& side);
  bool wants_input(Side& side);
  bool take_events(Side& side);
  bool write(Side& side);
  void write_last(Side& side);
  void take_sent();
  bool stop_requests();
  void count_time();

  void server_lost(Channel::Lost how);
  void leave();  // no new streams
  void close_guest();
  void drop_server();
  void end(policy::Reason reason = policy::Reason::Allowed, std::string detail = {});
  void update();
  void watch(Side& side, bool reads);

  // ---- streams (http2_streams.cc)
  void begin(Side& side, const Begun& begun, bool whole);
  void take_event(Side& side, const http::H2Event& event);
  void begin_request(int32_t id, const http::H2Head& head, bool whole);
  void describe(Stream& stream, const JudgedRequest& judged);
  void forward(Stream& stream, const JudgedRequest& judged, const http::H2Head& head, bool whole);
  bool filter_request(Stream& stream, http::RequestHead& head);
  void take_request_body(Stream& stream, ByteView body);
  void end_request(Stream& stream);
  void pass_request(Stream& stream, ByteView body);
  bool hold_back(Stream& stream);
  void open_waiting();
  void open(Stream& stream);
  void take_interim(Stream& stream, const http::H2Head& head);
  void begin_response(Stream& stream, const http::H2Head& head, bool whole);
  void take_response_body(Stream& stream, ByteView body);
  void end_response(Stream& stream);
  Stream* of_guest(int32_t id);
  Stream* of_server(int32_t id);

  // ---- ends of streams (http2_endings.cc)
  void guest_reset(Stream& stream, const http::H2Event& event);
  void server_reset(Stream& stream, const http::H2Event& event);
  void tell_stop(Stream& stream, policy::Reason reason, std::string rule, std::string detail);
  void deny(Stream& stream, const JudgedRequest& judged);
  void refuse(Stream& stream, const http::Refusal& refusal);
  void refuse(Stream& stream, FilterRefusal refusal);
  void fail(Stream& stream, policy::Reason reason, const std::string& detail);

  void settle(Stream& stream);  // opens windows for what has left; drops the stream when it is over
  void drop(Stream& stream);

  // ---- streams that wait for a person (http2_asking.cc)
  void ask(Stream& stream, JudgedRequest judged, const http::H2Head& head);
  bool take_answers();
  void take_answer(Stream& stream);
  size_t asking() const noexcept;
  void part();

  HttpParts parts_;
  uint64_t id_;
  HttpOrigin origin_;
  Done done_;
  Side guest_;
  std::unique_ptr<Side> server_;
  HttpEnd failure_;  // why there is no server
  MeteredReader reader_;
  std::unordered_map<int32_t, Stream> streams_;     // by the guest's number
  std::unordered_map<int32_t, int32_t> by_server_;  // the guest's number by the server's
  std::deque<int32_t> waiting_;                     // to be opened
  std::vector<int32_t> answered_;                   // by a person
  std::vector<int32_t> to_stop_;                    // answered before their requests had ended
  std::vector<int32_t> to_tell_;                    // whose requests leave with the next write
  size_t collected_ = 0;                            // by all streams
  uint64_t exchanges_ = 0;
  std::string scratch_;

  bool admitted_ = false;
  bool lost_ = false;     // there is no server, and somebody missed it
  bool parting_ = false;  // the guest is to be told to make a new connection, when nobody asks
  bool leaving_ = false;  // it was told
  bool closing_ = false;
  bool over_ = false;
  HttpEnd how_;
  loop::Clock::time_point last_use_;
  loop::Clock::time_point counted_;  // time_passed() was told until then
  loop::Watch deadline_;
  loop::Watch later_;
};

}
