#pragma once
// One side of an HTTP/2 connection as pure state: bytes in, events out; requests and responses in,
// bytes out. RFC 9113, on nghttp2. No clock, no descriptor.
//
//   ByteView input = ...;
//   for (H2Event event = session.next(input); event.kind != H2EventKind::More; ...)
//   session.write(out, limit);      // after anything was read or sent
//
// Flow control is the consumer's: a window opens again only by consumed(), so that a slow reader
// at the far end of a proxy stops the writer at the other, stream by stream. Body bytes handed to
// send() are kept until the peer's window takes them; take_sent() tells of what has left, which is
// what to pass to the other session's consumed(). So a stream never keeps more than its window.
//
// A peer that breaks the protocol, or is merely expensive (resets, empty frames, PINGs, SETTINGS,
// CONTINUATIONs, header lists without end), ends the connection (Bad), with a GOAWAY to be written.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/http/message.h"

namespace mvm::http {

enum class H2Side { Server, Client };

struct H2Limits {
  uint32_t streams = 128;               // that the peer may have open
  uint32_t stream_window = 256 * 1024;  // bytes on their way to a consumer
  uint32_t connection_window = 1024 * 1024;
  size_t header_list = 32 * 1024;  // names, values and 32 bytes a field (RFC 9113 §6.5.2)
  size_t headers = 100;            // fields of one list
  // Frames in advance that cost us something and move nothing (h2_receive.cc); streams that end
  // well, body bytes and time_passed() make up for them.
  uint32_t idle_frames = 1000;
};

// RFC 9113 §7.
enum class H2Error : uint32_t {
  NoError = 0,
  Protocol = 1,
  Internal = 2,
  FlowControl = 3,
  SettingsTimeout = 4,
  StreamClosed = 5,
  FrameSize = 6,
  RefusedStream = 7,
  Cancel = 8,
  Compression = 9,
  Connect = 10,
  EnhanceYourCalm = 11,
  InadequateSecurity = 12,
  Http11Required = 13,
};
std::string_view h2_error_name(uint32_t code) noexcept;  // "enhance_your_calm"; "" when unknown

// A request's or a response's head. Names are in lower case, as on the wire.
struct H2Head {
  std::string method;
  std::string scheme;
  std::string authority;
  std::string path;             // origin form, or "*"; empty for a plain CONNECT
  std::string protocol;         // extended CONNECT (RFC 8441), which is not offered: always empty
  unsigned status = 0;          // a response's
  Headers headers;              // without pseudo-header fields
  bool path_sensitive = false;  // as Header::sensitive
  bool operator==(const H2Head&) const = default;
};

enum class H2EventKind {
  More,       // all input is used up; feed more
  Head,       // head() is valid until the next call of next()
  Interim,    // a 1xx response in head(); the real one follows
  Data,       // `data` views part of the input; give its size back by consumed()
  Trailers,   // trailers() is valid until the next call of next()
  End,        // the peer has finished the stream's body
  Reset,      // the stream is gone, by the peer or for a fault in its frames; `error`
  Malformed,  // a request that breaks HTTP's rules was reset before it became one; `reason`
  GoAway,     // the peer will not answer streams above `stream`; those have been Reset
  Bad,        // the connection is over; `error`, `reason`; what write() gives is still to be sent
};
struct H2Event {
  H2EventKind kind = H2EventKind::More;
  int32_t stream = 0;
  ByteView data;
  uint32_t error = 0;       // an H2Error, or what the peer made up
  bool fault = false;       // Reset: it was we who reset it, for what the peer sent
  std::string_view reason;  // one phrase for the log; static text
};

struct H2Sent {
  int32_t stream = 0;
  size_t length = 0;
};

class H2Session {
 public:
  explicit H2Session(H2Side side, const H2Limits& limits = {});
  ~H2Session();
  H2Session(H2Session&&) noexcept;
  H2Session& operator=(H2Session&&) noexcept;

  // ---- bytes in
  H2Event next(ByteView& input);
  const H2Head& head() const noexcept;
  const Headers& trailers() const noexcept;
  // The consumer is done with `length` bytes of a stream's Data. All of them must be given back,
  // also those of streams that have ended.
  void consumed(int32_t stream, size_t length);

  // ---- bytes out
  // Appends frames to `out` until it is `limit` long or nothing more may be sent now.
  void write(std::string& out, size_t limit);
  bool wants_write() const noexcept;
  // Frames that write() has yet to put out, other than of bodies: what no window holds back.
  size_t queued() const noexcept;
  // Body bytes that write() has put out since the last call, or that went down with their stream;
  // stream by stream; false when there are none.
  bool take_sent(H2Sent& sent);

  // ---- messages out. On a stream that has gone in the meantime these do nothing and are false.
  // Client: opens a stream and returns its number; 0 when the peer takes no more now (its limit of
  // streams, its GOAWAY, a dead connection). `end`: there is no body.
  // Throws Error{Invalid} for a head that could not be read back as itself, as encode() does.
  int32_t request(const H2Head& head, bool end);
  bool can_request() const noexcept;
  // Server: once a stream, after any number of interim().
  bool respond(int32_t stream, const H2Head& head, bool end);
  bool interim(int32_t stream, const H2Head& head);
  bool send(int32_t stream, ByteView data);
  bool finish(int32_t stream, const Headers& trailers = {});  // all is sent; ends our direction
  bool reset(int32_t stream, H2Error error);
  size_t unsent(int32_t stream) const noexcept;  // bytes of send() that have not been written
  // Our direction has ended, and all of it was written. Not of streams that have gone.
  bool written(int32_t stream) const noexcept;

  // ---- the connection
  // Lets the peer have some frames that move nothing for each second, as PINGs that keep an idle
  // connection alive are. For connections that last; without it they come out of the allowance.
  void time_passed(uint32_t seconds) noexcept;
  void ping();  // for keeping a connection alive; answers are not reported
  // GOAWAY: streams that are open may end, no new ones begin. Done when open_streams() is 0.
  void shut_down(H2Error error = H2Error::NoError);
  size_t open_streams() const noexcept;
  // Nothing more will come out of it: dead, or shut down with no stream left.
  bool over() const noexcept;

  struct Impl;  // this module's

 private:
  std::unique_ptr<Impl> impl_;
};

}
