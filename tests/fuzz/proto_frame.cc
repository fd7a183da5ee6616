// Frames come from the guest, and from any local program that may open a control socket. However
// the bytes are cut, the decoder finds the same frames, and what it finds is what was sent.

#include <cstdlib>
#include <vector>

#include "mvm/proto/frame.h"

namespace {

using namespace mvm;
using namespace mvm::proto;

struct Read {
  Bytes wire;  // the frames, encoded again
  bool fault = false;
  bool operator==(const Read&) const = default;
};

Read read(ByteView data, size_t step) {
  FrameDecoder decoder;
  Read out;
  while (!data.empty()) {
    ByteView piece = data.first(std::min(step, data.size()));
    data = data.subspan(piece.size());
    while (!piece.empty()) {
      const size_t taken = decoder.feed(piece);
      if (taken == 0) std::abort();
      piece = piece.subspan(taken);
      while (const auto frame = decoder.next()) {
        append_frame(out.wire, frame->stream, frame->type, frame->payload);
        decode_window(frame->payload);
        decode_signal(frame->payload);
        decode_resize(frame->payload);
      }
    }
  }
  out.fault = decoder.fault().has_value();
  return out;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const size_t step = size_t{data[0]} + 1;
  const ByteView wire = std::as_bytes(std::span(data + 1, size - 1));
  const Read whole = read(wire, SIZE_MAX);
  if (whole != read(wire, step)) std::abort();
  if (whole.wire.size() > wire.size()) std::abort();
  if (!std::equal(whole.wire.begin(), whole.wire.end(), wire.begin())) std::abort();
  return 0;
}
