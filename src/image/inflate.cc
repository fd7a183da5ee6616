#include "inflate.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>
#include <zstd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::image {
namespace {

constexpr size_t kInputSize = size_t{128} << 10;

// One of the formats: takes from `in`, gives to `out`, both shrunk by what was used.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void run(std::span<std::byte>& in, std::span<std::byte>& out) = 0;
  virtual bool may_end() const = 0;  // nothing is half-read
};

class PlainDecoder : public Decoder {
 public:
  void run(std::span<std::byte>& in, std::span<std::byte>& out) override {
    const size_t size = std::min(in.size(), out.size());
    std::memcpy(out.data(), in.data(), size);
    in = in.subspan(size);
    out = out.subspan(size);
  }
  bool may_end() const override { return true; }
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK)
      throw Error(Kind::Exhausted, "no memory for gzip");
  }
  ~GzipDecoder() override { ::inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  void run(std::span<std::byte>& in, std::span<std::byte>& out) override {
    // Members may follow each other (RFC 1952, section 2.2).
    if (ended_) ::inflateReset(&stream_);
    ended_ = false;
    stream_.next_in = reinterpret_cast<Bytef*>(in.data());
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    in = in.last(stream_.avail_in);
    out = out.last(stream_.avail_out);
    if (result == Z_STREAM_END)
      ended_ = true;
    else if (result != Z_OK && result != Z_BUF_ERROR)
      throw Error(Kind::Invalid, "its gzip data is damaged");
  }
  bool may_end() const override { return ended_; }

 private:
  z_stream stream_{};
  bool ended_ = true;
};

class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    if (!stream_) throw Error(Kind::Exhausted, "no memory for zstd");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }
  void run(std::span<std::byte>& in, std::span<std::byte>& out) override {
    ZSTD_inBuffer source{in.data(), in.size(), 0};
    ZSTD_outBuffer sink{out.data(), out.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_.get(), &sink, &source);
    if (ZSTD_isError(result) != 0)
      throw Error(Kind::Invalid,
                  "its zstd data is damaged or needs a window of more than 32 MiB: " +
                      std::string(ZSTD_getErrorName(result)));
    in = in.subspan(source.pos);
    out = out.subspan(sink.pos);
    between_ = result == 0;
  }
  bool may_end() const override { return between_; }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  bool between_ = true;  // frames
};

std::unique_ptr<Decoder> decoder_for(std::span<const std::byte> start) {
  const auto byte = [&](size_t at) {
    return at < start.size() ? std::to_integer<unsigned>(start[at]) : 0U;
  };
  if (byte(0) == 0x1f && byte(1) == 0x8b) return std::make_unique<GzipDecoder>();
  const bool frame = byte(0) == 0x28 && byte(1) == 0xb5 && byte(2) == 0x2f && byte(3) == 0xfd;
  const bool skippable =
      (byte(0) & 0xf0U) == 0x50 && byte(1) == 0x2a && byte(2) == 0x4d && byte(3) == 0x18;
  if (frame || skippable) return std::make_unique<ZstdDecoder>();
  return std::make_unique<PlainDecoder>();
}

}

struct Inflater::Impl {
  Input input;
  uint64_t limit;
  Bytes buffer = Bytes(kInputSize);
  std::span<std::byte> rest;  // of the buffer, not yet decoded
  bool input_ended = false;
  uint64_t taken = 0;
  uint64_t given = 0;
  bool compressed = false;
  std::unique_ptr<Decoder> decoder;

  void fill() {
    const size_t got = input(buffer);
    rest = std::span(buffer).first(got);
    taken += got;
    input_ended = got == 0;
  }

  // The first bytes decide, however they are cut.
  void begin() {
    size_t have = 0;
    while (have < 4) {
      const size_t got = input(std::span(buffer).subspan(have));
      if (got == 0) break;
      have += got;
    }
    rest = std::span(buffer).first(have);
    taken = have;
    input_ended = have == 0;
    decoder = decoder_for(rest);
    compressed = dynamic_cast<PlainDecoder*>(decoder.get()) == nullptr;
  }

  void check_bounds() const {
    if (given > limit)
      throw Error(Kind::Exhausted, "it unpacks to more than " + format_size(limit));
    if (given > kFreeOutput && given / kMaxRatio > taken)
      throw Error(Kind::Exhausted, "it unpacks to more than " + std::to_string(kMaxRatio) +
                                       " times its size, which only a bomb does");
  }
};

Inflater::Inflater(Input input, uint64_t limit) : impl_(std::make_unique<Impl>()) {
  impl_->input = std::move(input);
  impl_->limit = limit;
}
Inflater::~Inflater() = default;
bool Inflater::compressed() const { return impl_->compressed; }

size_t Inflater::read(std::span<std::byte> out) {
  Impl& impl = *impl_;
  if (!impl.decoder) impl.begin();
  std::span<std::byte> free = out;
  while (free.size() == out.size()) {
    if (impl.rest.empty() && !impl.input_ended) impl.fill();
    // What a decoder holds back comes out without input.
    const size_t before = impl.rest.size();
    if (!impl.rest.empty() || !impl.decoder->may_end()) impl.decoder->run(impl.rest, free);
    const bool moved = free.size() != out.size() || impl.rest.size() != before;
    if (!moved && impl.input_ended) {
      if (!impl.decoder->may_end()) throw Error(Kind::Invalid, "it has been cut off");
      break;
    }
  }
  impl.given += out.size() - free.size();
  impl.check_bounds();
  return out.size() - free.size();
}

}
