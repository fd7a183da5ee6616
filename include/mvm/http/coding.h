#pragma once
// Content codings, both ways, in a stream: gzip, deflate, br, zstd, and lists of them (RFC 9110
// §8.4, RFC 8878, RFC 7932). Pure state: bytes in, bytes out, each call bounded.
//
//   Step step;
//   do step = decoder.next(input, out, room);  // take what is in `out`
//   while (step == Decoder::Step::Full);
//
// What is decoded comes from anybody: windows have a limit, and so has what little data may grow
// to.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/http/message.h"

namespace mvm::http {

enum class Coding : uint8_t { Gzip, Deflate, Brotli, Zstd };
std::string_view coding_name(Coding coding) noexcept;  // "gzip"

// The codings of a body in the order they were applied; empty when it is as it is (also for
// "identity"). Nothing when one of them is unknown, or there are more than kMaxCodings.
inline constexpr size_t kMaxCodings = 3;
std::optional<std::vector<Coding>> content_codings(const Headers& headers);
// Leaves in Accept-Encoding only what content_codings() knows, so that the answer can be read.
// Without the field nothing is changed.
void restrict_accept_encoding(Headers& headers);

struct DecodeLimits {
  // Decoded bytes may be `allowance` and `ratio` times the encoded ones. gzip reaches 1032 with
  // zeroes, texts reach 30.
  uint64_t allowance = uint64_t{4} << 20;
  uint64_t ratio = 200;
};

class Decoder {
 public:
  enum class Step {
    More,  // all input is used up, and all that it stands for has been given
    Full,  // `room` is used up: call again, also without input
    Bad,   // damaged, or over a limit; problem() says what. What came before has been given. Dead.
  };

  // `codings` as content_codings() says them.
  explicit Decoder(const std::vector<Coding>& codings, const DecodeLimits& limits = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Takes from the front of `input`; appends at most `room` bytes, which is not 0.
  Step next(ByteView& input, Bytes& out, size_t room);
  // After the last More: whether the data may end here. True also when nothing ever came.
  bool whole() const noexcept;
  std::string_view problem() const noexcept { return problem_; }  // "its gzip data is damaged"
  // Bad for DecodeLimits alone: others may decode it.
  bool outgrown() const noexcept { return outgrown_; }

 private:
  struct Stage;
  bool feed(Stage& stage, ByteView& input);

  std::vector<Stage> stages_;  // in the order of decoding
  DecodeLimits limits_;
  uint64_t taken_ = 0;
  uint64_t grown_ = 0;  // what all stages gave: the last may give little of much
  std::string_view problem_;
  bool outgrown_ = false;
};

enum class EncodeEnd : uint8_t { Open, Flush, Finish };

class Encoder {
 public:
  explicit Encoder(const std::vector<Coding>& codings);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Appends what is ready. With `flush` all that was written can be decoded from what was given;
  // it costs some bytes each time. Output is at most a little more than what was written.
  void write(ByteView in, bool flush, Bytes& out);
  void finish(Bytes& out);  // once, last

 private:
  struct Stage;
  void run(ByteView in, EncodeEnd end, Bytes& out);

  std::vector<Stage> stages_;  // in the order of encoding
};

}
