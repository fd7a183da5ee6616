#pragma once
// The frames that carry everything between the host and the agent in a sandbox, and between a
// client and a sandbox's control socket. Both sides use this one codec; the far side's bytes are
// hostile on either.
//
// On the wire, little-endian:
//   u32 length of what follows (kFrameOverhead to kMaxFrame), u32 stream id, u8 type, payload
// Stream 0 belongs to the connection (Hello); every other stream is opened by a Request of the
// client and closed by an End of the server. Data, Stdout and Stderr are bulk frames: they spend
// credit (credit.h); all others are small and bounded in number by the conversation itself.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kAgentPort = 5252;  // vsock

inline constexpr size_t kFrameOverhead = 5;  // stream id and type
inline constexpr size_t kMaxPayload = 65536;
inline constexpr size_t kMaxFrame = kMaxPayload + kFrameOverhead;
inline constexpr size_t kFrameHeader = 4 + kFrameOverhead;
inline constexpr size_t kMaxStreams = 256;  // open at once on a connection
inline constexpr uint32_t kConnectionStream = 0;

enum class FrameType : uint8_t {
  Hello = 0,    // connection stream; CBOR Hello, the first frame each side sends
  Request = 1,  // client opens a stream; CBOR map with "verb"
  Data = 2,     // bulk: the command's stdin, or the content of a copy, either way
  Stdout = 3,   // bulk
  Stderr = 4,   // bulk
  Eof = 5,      // no more Data in this direction; empty
  Window = 6,   // u32: credit given back for bulk frames consumed
  Signal = 7,   // u8: signal number for the command
  Resize = 8,   // u16 rows, u16 columns
  Event = 9,    // server; CBOR map with "event"
  End = 10,     // server; CBOR, closes the stream: {"ok": ...} or {"error": {kind, message}}
  Cancel = 11,  // client gives up; empty; the server still answers with End
};
inline constexpr uint8_t kLastFrameType = 11;

constexpr bool is_bulk(FrameType type) noexcept {
  return type == FrameType::Data || type == FrameType::Stdout || type == FrameType::Stderr;
}

struct Frame {
  uint32_t stream = 0;
  FrameType type = FrameType::Hello;
  ByteView payload;  // into the decoder's buffer, until its next space() or feed()
};

// After a fault nothing more can be read from the connection: it is to be closed.
enum class FrameFault { BadLength, BadType };

// Cuts a byte stream into frames within one buffer of fixed size. Either read(2) straight into
// space() and commit() what came, or feed() bytes at hand. Take all frames with next() before
// asking for space again; then there is always room for the rest of the longest frame.
class FrameDecoder {
 public:
  FrameDecoder() : buffer_(kBuffer) {}

  std::span<std::byte> space() noexcept;  // never empty while next() is being drained
  void commit(size_t length) noexcept;
  // Copies as much as there is space for; returns how much. A faulted decoder swallows everything.
  size_t feed(ByteView data) noexcept;

  std::optional<Frame> next() noexcept;
  std::optional<FrameFault> fault() const noexcept { return fault_; }
  // Bytes of a frame not yet complete: an end of stream here is an end in mid-sentence.
  size_t pending() const noexcept { return end_ - begin_; }

 private:
  static constexpr size_t kBuffer = 2 * (4 + kMaxFrame);
  Bytes buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::optional<FrameFault> fault_;
};

// One frame. A payload above kMaxPayload is Error{Exhausted}: the message is too large to send, for
// instance an environment of megabytes.
using FrameHead = std::array<std::byte, kFrameHeader>;
FrameHead frame_head(uint32_t stream, FrameType type, size_t length);  // what comes before it
void append_frame(Bytes& out, uint32_t stream, FrameType type, ByteView payload = {});

// Payloads of the frames that are not CBOR.
struct TerminalSize {
  uint16_t rows = 0;
  uint16_t columns = 0;
  bool operator==(const TerminalSize&) const = default;
};
void append_window(Bytes& out, uint32_t stream, uint32_t credit);
void append_signal(Bytes& out, uint32_t stream, uint8_t number);
void append_resize(Bytes& out, uint32_t stream, TerminalSize size);
std::optional<uint32_t> decode_window(ByteView payload) noexcept;  // never 0
inline constexpr uint8_t kMaxSignal = 64;
std::optional<uint8_t> decode_signal(ByteView payload) noexcept;  // 1 to kMaxSignal
std::optional<TerminalSize> decode_resize(ByteView payload) noexcept;

}
