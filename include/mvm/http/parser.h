#pragma once
// HTTP/1.1 messages taken apart, strictly: what two readers could read two ways is refused, because
// request smuggling lives on the difference. Pure state: bytes in, events out; no clock, no
// descriptor, no exception. What comes out does not depend on how the bytes were cut into pieces
// (only where body views begin and end does).
//
//   ByteView input = ...;
//   for (Event event = parser.next(input); event.kind != EventKind::More; ...)
//
// next() takes from the front of `input` and shrinks it by what it used. Bytes after End belong to
// the next message and are left in place.

#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/http/message.h"
#include "mvm/http/target.h"

namespace mvm::http {

inline constexpr size_t kMaxHead = 32 * 1024;  // start line and header section, with line ends
inline constexpr size_t kMaxHeaders = 100;
inline constexpr size_t kMaxMethod = 32;
inline constexpr size_t kMaxTarget = 8 * 1024;
inline constexpr size_t kMaxTrailers = 8 * 1024;
inline constexpr size_t kMaxChunkLine = 1024;  // a chunk's size and extensions
inline constexpr size_t kMaxChunkDigits = 16;  // hexadecimal, so that the size fits 64 bits
inline constexpr uint64_t kUnlimitedBody = ~uint64_t{0};

enum class Fault {
  None,
  HeadTooLarge,
  TooManyHeaders,
  BareLineEnd,  // CR without LF or LF without CR
  BadStartLine,
  BadMethod,
  BadTarget,
  TargetTooLong,
  BadVersion,
  BadStatus,
  BadHeaderName,   // also: white space before the colon, no colon
  BadHeaderValue,  // control characters
  FoldedHeader,    // obs-fold
  BadHost,         // none, two, or none that can be a host
  HostMismatch,    // the target names another host
  BadLength,
  RepeatedLength,
  LengthAndCoding,  // Content-Length and Transfer-Encoding
  BadCoding,        // a transfer coding other than chunked, or one in HTTP/1.0
  BadChunk,
  UnexpectedBody,  // with CONNECT or TRACE
  BodyTooLarge,
  Truncated,  // the input ended within a message
};
std::string_view fault_text(Fault fault) noexcept;  // for the peer and the log
unsigned fault_status(Fault fault) noexcept;        // the status a server answers with

enum class EventKind {
  More,     // all input is used up; feed more
  Interim,  // a 1xx response; the real one follows
  Head,
  Body,  // `body` views part of the input
  End,
  Bad,  // `fault`; the parser is dead
};
struct Event {
  EventKind kind = EventKind::More;
  ByteView body;
  Fault fault = Fault::None;
};

// Collects a section: lines ended by CRLF, up to an empty one.
class SectionReader {
 public:
  enum class Step { More, Done, Bad };
  explicit SectionReader(size_t limit) : limit_(limit) {}
  Step take(ByteView& input) noexcept;
  // After Done: the lines with their line ends, without the empty one.
  std::string_view lines() const noexcept { return {text_.data(), line_start_}; }
  Fault fault() const noexcept { return fault_; }
  bool empty() const noexcept { return text_.empty(); }
  void clear() noexcept;

 private:
  size_t limit_;
  std::string text_;
  size_t line_start_ = 0;
  Fault fault_ = Fault::None;
};

// Reads one body by its framing.
class BodyReader {
 public:
  explicit BodyReader(uint64_t limit) : limit_(limit) {}
  Fault begin(Framing framing) noexcept;  // BodyTooLarge at once when its length says so
  Event next(ByteView& input) noexcept;   // More, Body, End or Bad
  bool ends_at_close() const noexcept { return framing_.kind == BodyKind::UntilClose; }
  const Headers& trailers() const noexcept { return trailers_; }

 private:
  enum class Phase { Size, Data, DataEnd, Trailers, Done };
  Event next_chunked(ByteView& input) noexcept;
  Event data(ByteView& input) noexcept;
  Fault size_line(ByteView& input, bool& complete) noexcept;

  uint64_t limit_;
  Framing framing_;
  Phase phase_ = Phase::Done;
  uint64_t left_ = 0;   // of the body, or of the chunk
  uint64_t total_ = 0;  // of all chunks so far
  std::string line_;
  SectionReader section_{kMaxTrailers};
  Headers trailers_;
};

class RequestParser {
 public:
  explicit RequestParser(uint64_t body_limit = kUnlimitedBody) : body_(body_limit) {}
  Event next(ByteView& input) noexcept;
  // The input has ended: End between messages, Bad (Truncated) within one.
  Event end_of_input() noexcept;
  // Nothing of a next message has come.
  bool idle() const noexcept { return phase_ == Phase::Head && section_.empty(); }
  const RequestHead& head() const noexcept { return head_; }        // from Head to the next Head
  const RequestTarget& target() const noexcept { return target_; }  // as long as head()
  const Headers& trailers() const noexcept { return body_.trailers(); }

 private:
  enum class Phase { Head, Body, Dead };
  Event bad(Fault fault) noexcept;
  Fault parse_head(std::string_view lines) noexcept;

  Phase phase_ = Phase::Head;
  Fault fault_ = Fault::None;
  bool skipped_blank_ = false;
  SectionReader section_{kMaxHead};
  RequestHead head_;
  RequestTarget target_;
  BodyReader body_;
};

class ResponseParser {
 public:
  explicit ResponseParser(uint64_t body_limit = kUnlimitedBody) : body_(body_limit) {}
  // The method of the request that the next response answers: HEAD and CONNECT change its framing.
  void expect(std::string_view method) noexcept;
  Event next(ByteView& input) noexcept;
  // The input has ended: End where that is how the body ends, or between messages; else Bad.
  Event end_of_input() noexcept;
  bool idle() const noexcept { return phase_ == Phase::Head && section_.empty(); }
  const ResponseHead& head() const noexcept { return head_; }
  const Headers& trailers() const noexcept { return body_.trailers(); }

 private:
  enum class Phase { Head, Body, Dead };
  Event bad(Fault fault) noexcept;
  Fault parse_head(std::string_view lines) noexcept;

  Phase phase_ = Phase::Head;
  Fault fault_ = Fault::None;
  bool bodiless_ = false;  // the answer to HEAD
  bool tunnel_ = false;    // the answer to CONNECT
  SectionReader section_{kMaxHead};
  ResponseHead head_;
  BodyReader body_;
};

}
