#include "mvm/proto/frame.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::proto {

struct Seen {
  uint32_t stream;
  FrameType type;
  std::string payload;
  bool operator==(const Seen&) const = default;
};

// Feeds `wire` in pieces of `step` bytes.
static std::vector<Seen> decode(FrameDecoder& decoder, ByteView wire, size_t step) {
  std::vector<Seen> seen;
  while (!wire.empty()) {
    ByteView piece = wire.first(std::min(step, wire.size()));
    wire = wire.subspan(piece.size());
    while (!piece.empty()) {
      piece = piece.subspan(decoder.feed(piece));
      while (const auto frame = decoder.next())
        seen.push_back({frame->stream, frame->type, std::string(as_text(frame->payload))});
    }
  }
  return seen;
}

TEST(FrameDecoder, FindsTheSameFramesHoweverTheBytesAreCut) {
  Bytes wire;
  append_frame(wire, 0, FrameType::Hello, as_bytes("hi"));
  append_frame(wire, 7, FrameType::Eof);
  append_frame(wire, 0xFFFFFFFF, FrameType::Cancel);
  append_frame(wire, 7, FrameType::Data, as_bytes(std::string(kMaxPayload, 'x')));
  append_frame(wire, 8, FrameType::Stdout, as_bytes("end"));
  const std::vector<Seen> expected{{0, FrameType::Hello, "hi"},
                                   {7, FrameType::Eof, ""},
                                   {0xFFFFFFFF, FrameType::Cancel, ""},
                                   {7, FrameType::Data, std::string(kMaxPayload, 'x')},
                                   {8, FrameType::Stdout, "end"}};
  for (const size_t step : {size_t{1}, size_t{3}, size_t{4096}, wire.size()}) {
    FrameDecoder decoder;
    EXPECT_EQ(decode(decoder, wire, step), expected) << "in steps of " << step;
    EXPECT_EQ(decoder.fault(), std::nullopt);
    EXPECT_EQ(decoder.pending(), 0U);
  }
}

TEST(FrameDecoder, LayoutIsLittleEndianLengthStreamType) {
  Bytes wire;
  append_frame(wire, 0x01020304, FrameType::Stderr, as_bytes("A"));
  const std::string expected(
      "\x06\0\0\0\x04\x03\x02\x01\x04"
      "A",
      10);
  EXPECT_EQ(as_text(wire), expected);
}

TEST(FrameDecoder, AlwaysHasRoomForTheRestOfTheLongestFrame) {
  Bytes wire;
  append_frame(wire, 1, FrameType::Data, as_bytes(std::string(kMaxPayload, 'y')));
  FrameDecoder decoder;
  // All but the last byte of a frame is held: the worst case between two calls of space().
  ASSERT_EQ(decoder.feed(ByteView(wire).first(wire.size() - 1)), wire.size() - 1);
  ASSERT_FALSE(decoder.next());
  EXPECT_GE(decoder.space().size(), wire.size());
}

TEST(FrameDecoder, RefusesLengthsOutsideTheBoundsAtOnce) {
  for (const uint32_t length : {0U, 4U, static_cast<uint32_t>(kMaxFrame + 1), 0xFFFFFFFFU}) {
    FrameDecoder decoder;
    ASSERT_EQ(decoder.feed(std::as_bytes(std::span(&length, 1))), 4U);
    EXPECT_FALSE(decoder.next());
    EXPECT_EQ(decoder.fault(), FrameFault::BadLength) << length;
    // A faulted decoder takes everything and yields nothing.
    EXPECT_TRUE(decode(decoder, as_bytes(std::string(300000, '\0')), 70000).empty());
  }
}

TEST(FrameDecoder, RefusesUnknownTypes) {
  Bytes wire;
  append_frame(wire, 1, FrameType::Cancel);
  wire[8] = std::byte{kLastFrameType + 1};
  FrameDecoder decoder;
  EXPECT_TRUE(decode(decoder, wire, wire.size()).empty());
  EXPECT_EQ(decoder.fault(), FrameFault::BadType);
}

TEST(AppendFrame, RefusesWhatIsTooLargeToSend) {
  Bytes out;
  try {
    append_frame(out, 1, FrameType::Request, as_bytes(std::string(kMaxPayload + 1, 'z')));
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Exhausted);
  }
  EXPECT_TRUE(out.empty());
}

TEST(SmallPayloads, RoundTrip) {
  Bytes wire;
  append_window(wire, 3, 65536);
  append_signal(wire, 3, 15);
  append_resize(wire, 3, {24, 80});
  FrameDecoder decoder;
  ASSERT_EQ(decoder.feed(wire), wire.size());
  EXPECT_EQ(decode_window(decoder.next()->payload), 65536U);
  EXPECT_EQ(decode_signal(decoder.next()->payload), 15);
  EXPECT_EQ(decode_resize(decoder.next()->payload), (TerminalSize{24, 80}));
}

TEST(SmallPayloads, RefuseWrongSizesAndValues) {
  const auto bytes = [](size_t count, char value) { return std::string(count, value); };
  EXPECT_FALSE(decode_window(as_bytes(bytes(4, 0))));  // no credit is no message
  EXPECT_FALSE(decode_window(as_bytes(bytes(3, 1))));
  EXPECT_FALSE(decode_window(as_bytes(bytes(5, 1))));
  EXPECT_FALSE(decode_signal(as_bytes(bytes(1, 0))));
  EXPECT_TRUE(decode_signal(as_bytes(bytes(1, 64))));
  EXPECT_FALSE(decode_signal(as_bytes(bytes(1, 65))));
  EXPECT_FALSE(decode_signal(as_bytes(bytes(2, 9))));
  EXPECT_FALSE(decode_resize(as_bytes(bytes(3, 1))));
  EXPECT_FALSE(decode_resize(as_bytes(bytes(5, 1))));
}

}
