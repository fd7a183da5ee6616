// gzip and deflate by zlib. "deflate" is meant to be zlib's format (RFC 9110 §8.4.1.2); some
// senders leave its frame out, which the first two bytes tell.

#include <array>

#include <zlib.h>

#include "mvm/base/error.h"

#include "coding_stage.h"

namespace mvm::http {
namespace {

constexpr int kGzip = 16 + MAX_WBITS;
constexpr int kZlib = MAX_WBITS;
constexpr int kRaw = -MAX_WBITS;
constexpr int kLevel = 4;
constexpr int kMemory = 8;

Error exhausted() { return {Kind::Exhausted, "no memory for zlib"}; }

// zlib does not write through next_in.
template <typename Stream>
void set(Stream& stream, ByteView in, std::span<std::byte> out) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
}

class Inflate final : public DecodeStage {
 public:
  explicit Inflate(bool gzip) : gzip_(gzip) {
    if (::inflateInit2(&stream_, gzip ? kGzip : kZlib) != Z_OK) throw exhausted();
  }
  ~Inflate() override { ::inflateEnd(&stream_); }
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;

  bool run(ByteView& in, std::span<std::byte>& out) override {
    if (!gzip_ && start_size_ < 2) {
      while (start_size_ < 2 && !in.empty()) {
        start_[start_size_++] = in.front();
        in = in.subspan(1);
      }
      if (start_size_ < 2) return true;
      if (!has_zlib_frame() && ::inflateReset2(&stream_, kRaw) != Z_OK) return false;
      ByteView start(start_);
      if (!inflate(start, out) || !start.empty()) return false;
    }
    return inflate(in, out);
  }
  bool may_end() const noexcept override { return ended_ && start_size_ != 1; }

 private:
  // RFC 1950 §2.2: method 8, a window of 32 KiB at most, a multiple of 31.
  bool has_zlib_frame() const {
    const auto first = std::to_integer<unsigned>(start_[0]);
    const auto second = std::to_integer<unsigned>(start_[1]);
    return (first & 15U) == 8 && (first >> 4U) <= 7 && (first * 256 + second) % 31 == 0;
  }
  bool inflate(ByteView& in, std::span<std::byte>& out) {
    if (in.empty() && ended_) return true;
    if (ended_ && begun_) {
      // Members may follow each other (RFC 1952 §2.2); behind the end of deflate there is nothing.
      if (!gzip_ || ::inflateReset(&stream_) != Z_OK) return false;
    }
    begun_ = true;
    set(stream_, in, out);
    const int result = ::inflate(&stream_, Z_SYNC_FLUSH);
    in = in.last(stream_.avail_in);
    out = out.last(stream_.avail_out);
    ended_ = result == Z_STREAM_END;
    return ended_ || result == Z_OK || result == Z_BUF_ERROR;
  }

  bool gzip_;
  z_stream stream_{};
  std::array<std::byte, 2> start_{};
  size_t start_size_ = 0;
  bool begun_ = false;
  bool ended_ = true;
};

class Deflate final : public EncodeStage {
 public:
  explicit Deflate(bool gzip) {
    if (::deflateInit2(&stream_, kLevel, Z_DEFLATED, gzip ? kGzip : kZlib, kMemory,
                       Z_DEFAULT_STRATEGY) != Z_OK)
      throw exhausted();
  }
  ~Deflate() override { ::deflateEnd(&stream_); }
  Deflate(const Deflate&) = delete;
  Deflate& operator=(const Deflate&) = delete;

  bool run(ByteView& in, EncodeEnd end, std::span<std::byte>& out) override {
    set(stream_, in, out);
    int flush = Z_NO_FLUSH;
    if (end == EncodeEnd::Flush) flush = Z_SYNC_FLUSH;
    if (end == EncodeEnd::Finish) flush = Z_FINISH;
    const int result = ::deflate(&stream_, flush);
    in = in.last(stream_.avail_in);
    out = out.last(stream_.avail_out);
    if (end == EncodeEnd::Finish) return result == Z_STREAM_END;
    return in.empty() && !out.empty();
  }

 private:
  z_stream stream_{};
};

}

std::unique_ptr<DecodeStage> gzip_decoder() { return std::make_unique<Inflate>(true); }
std::unique_ptr<DecodeStage> deflate_decoder() { return std::make_unique<Inflate>(false); }
std::unique_ptr<EncodeStage> gzip_encoder() { return std::make_unique<Deflate>(true); }
std::unique_ptr<EncodeStage> deflate_encoder() { return std::make_unique<Deflate>(false); }

}
