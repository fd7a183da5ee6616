#pragma once
// What the two files behind h2.h share; the only place that sees nghttp2.

#include <array>
#include <deque>
#include <memory>
#include <nghttp2/nghttp2.h>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "mvm/http/h2.h"

namespace mvm::http {

// What fills the allowance for idle frames up again.
inline constexpr size_t kStreamCredit = 8;
inline constexpr size_t kDataCredit = 4;  // a peer may answer a DATA frame with two WINDOW_UPDATEs
inline constexpr size_t kCreditASecond = 10;

struct FreeSession {
  void operator()(nghttp2_session* session) const noexcept { nghttp2_session_del(session); }
};

// One direction each of a stream; what is read of it is not kept here.
struct H2Stream {
  bool known = false;    // the caller has heard of it
  bool dropped = false;  // reset, by us or with the caller told: no more events
  bool peer_ended = false;
  bool final_head = false;  // of the two sides: the request's, or a response that is not 1xx
  bool answered = false;    // server: respond() was called
  bool waiting = false;     // nghttp2 has asked for data when there was none
  bool finished = false;
  std::string body;  // to be sent from `offset` on
  size_t offset = 0;
  Headers trailers;  // to be sent
};

// Cuts the input so that nghttp2 is given at most one frame at a time: then a call of it makes a
// bounded number of events.
class FrameCutter {
 public:
  explicit FrameCutter(size_t preface) : left_(preface) {}
  size_t next(ByteView input) noexcept;  // how much of `input` to give; not 0 unless it is empty
  // The frame whose header was last taken is of a kind that nghttp2 takes without a word. Once
  // each.
  bool began_silent_frame() noexcept { return std::exchange(silent_, false); }

 private:
  size_t left_;  // of the preface or of a payload
  std::array<std::byte, 9> header_{};
  size_t got_ = 0;
  bool silent_ = false;
};

struct H2Session::Impl {
  struct Queued {
    H2Event event;
    H2Head head;       // Head, Interim
    Headers trailers;  // Trailers
  };

  Impl(H2Side which, const H2Limits& bounds);

  // ---- receiving: nghttp2's callbacks
  void begin_headers();
  void add_header(std::string_view name, std::string_view value, bool sensitive);
  void end_headers(const nghttp2_frame& frame);
  void end_request(int32_t id);
  void end_response(int32_t id);
  void add_data(int32_t id, ByteView data);
  void frame_received(const nghttp2_frame& frame);
  void invalid_frame(const nghttp2_frame& frame);
  void reset_sent(int32_t id, uint32_t error);
  void stream_closed(int32_t id, uint32_t error);
  void charge();                      // for a frame that moves nothing
  void credit(size_t much) noexcept;  // for one that does
  void push(H2EventKind kind, int32_t id, uint32_t error = 0, std::string_view reason = {});
  void malformed(int32_t id, std::string_view reason);
  void end_by_peer(int32_t id);
  void give_up(uint32_t error, std::string_view reason);
  void feed(ByteView& input);

  // ---- sending
  ssize_t read_body(int32_t id, std::span<uint8_t> to, uint32_t* flags);
  void note_sent(int32_t id, size_t length);
  H2Stream* sending(int32_t id);

  H2Side side;
  H2Limits limits;
  std::unique_ptr<nghttp2_session, FreeSession> session;
  FrameCutter cutter;
  std::unordered_map<int32_t, H2Stream> streams;
  std::deque<Queued> events;
  Queued current;  // what head() and trailers() show
  std::deque<H2Sent> sent;

  H2Head incoming;  // the header list being received
  bool has_host = false;
  std::string host;
  size_t incoming_size = 0;
  size_t incoming_count = 0;

  uint32_t allowance;
  bool over = false;
  bool bad_told = false;
  uint32_t bad_error = 0;
  std::string_view bad_reason;
};

}
