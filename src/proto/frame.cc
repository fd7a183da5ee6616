#include "mvm/proto/frame.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "mvm/base/error.h"

namespace mvm::proto {

std::span<std::byte> FrameDecoder::space() noexcept {
  if (fault_) begin_ = end_ = 0;
  // Moving the rest of a frame costs at most one copy of it; frames that end with the buffer cost
  // nothing.
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void FrameDecoder::commit(size_t length) noexcept {
  MVM_ASSERT(length <= buffer_.size() - end_);
  end_ += length;
}

size_t FrameDecoder::feed(ByteView data) noexcept {
  if (fault_) return data.size();
  const auto room = space();
  const size_t length = std::min(room.size(), data.size());
  if (length > 0) std::memcpy(room.data(), data.data(), length);
  commit(length);
  return length;
}

std::optional<Frame> FrameDecoder::next() noexcept {
  if (fault_ || end_ - begin_ < 4) return std::nullopt;
  Reader in(ByteView(buffer_).subspan(begin_, end_ - begin_));
  const uint32_t length = in.u32();
  // Judged as soon as it is known: a wrong length is not waited for.
  if (length < kFrameOverhead || length > kMaxFrame) {
    fault_ = FrameFault::BadLength;
    return std::nullopt;
  }
  if (in.remaining() < kFrameOverhead) return std::nullopt;
  Frame frame;
  frame.stream = in.u32();
  const uint8_t type = in.u8();
  if (type > kLastFrameType) {
    fault_ = FrameFault::BadType;
    return std::nullopt;
  }
  frame.type = static_cast<FrameType>(type);
  frame.payload = in.bytes(length - kFrameOverhead);
  if (!in) return std::nullopt;
  begin_ += 4 + size_t{length};
  return frame;
}

FrameHead frame_head(uint32_t stream, FrameType type, size_t length) {
  if (length > kMaxPayload)
    throw Error(Kind::Exhausted, "a message of " + std::to_string(length) +
                                     " bytes is larger than the protocol's limit of " +
                                     std::to_string(kMaxPayload));
  FrameHead head;
  const std::array<uint32_t, 2> words{static_cast<uint32_t>(kFrameOverhead + length), stream};
  std::memcpy(head.data(), words.data(), sizeof words);
  head.back() = static_cast<std::byte>(type);
  return head;
}

void append_frame(Bytes& out, uint32_t stream, FrameType type, ByteView payload) {
  const FrameHead head = frame_head(stream, type, payload.size());
  Writer writer(out);
  writer.bytes(head);
  writer.bytes(payload);
}

void append_window(Bytes& out, uint32_t stream, uint32_t credit) {
  append_frame(out, stream, FrameType::Window, std::as_bytes(std::span(&credit, 1)));
}

void append_signal(Bytes& out, uint32_t stream, uint8_t number) {
  append_frame(out, stream, FrameType::Signal, std::as_bytes(std::span(&number, 1)));
}

void append_resize(Bytes& out, uint32_t stream, TerminalSize size) {
  const std::array<uint16_t, 2> payload{size.rows, size.columns};
  append_frame(out, stream, FrameType::Resize, std::as_bytes(std::span(payload)));
}

std::optional<uint32_t> decode_window(ByteView payload) noexcept {
  Reader in(payload);
  const uint32_t credit = in.u32();
  if (!in || in.remaining() > 0 || credit == 0) return std::nullopt;
  return credit;
}

std::optional<uint8_t> decode_signal(ByteView payload) noexcept {
  Reader in(payload);
  const uint8_t number = in.u8();
  if (!in || in.remaining() > 0 || number == 0 || number > kMaxSignal) return std::nullopt;
  return number;
}

std::optional<TerminalSize> decode_resize(ByteView payload) noexcept {
  Reader in(payload);
  TerminalSize size;
  size.rows = in.u16();
  size.columns = in.u16();
  if (!in || in.remaining() > 0) return std::nullopt;
  return size;
}

}
