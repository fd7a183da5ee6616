// zstd by libzstd (RFC 8878; windows as RFC 9659 bounds them).

#include <zstd.h>

#include "mvm/base/error.h"

#include "coding_stage.h"

namespace mvm::http {
namespace {

constexpr int kMaxWindow = 23;  // bits: 8 MiB, the most that "zstd" may ask for
constexpr int kWindow = 18;
constexpr int kLevel = 2;

class ZstdDecode final : public DecodeStage {
 public:
  ZstdDecode() : stream_(::ZSTD_createDStream()) {
    if (!stream_) throw Error(Kind::Exhausted, "no memory for zstd");
    ::ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMaxWindow);
  }
  bool run(ByteView& in, std::span<std::byte>& out) override {
    // Without reason to be called it counts the call as an attempt to make it loop.
    if (in.empty() && (between_ || !full_)) return true;
    ZSTD_inBuffer source{in.data(), in.size(), 0};
    ZSTD_outBuffer sink{out.data(), out.size(), 0};
    const size_t result = ::ZSTD_decompressStream(stream_.get(), &sink, &source);
    if (::ZSTD_isError(result) != 0) return false;
    in = in.subspan(source.pos);
    out = out.subspan(sink.pos);
    between_ = result == 0;
    full_ = out.empty();
    return true;
  }
  bool may_end() const noexcept override { return between_; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ::ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool between_ = true;  // frames, which may follow each other
  bool full_ = false;    // there may be more output
};

class ZstdEncode final : public EncodeStage {
 public:
  ZstdEncode() : stream_(::ZSTD_createCStream()) {
    if (!stream_) throw Error(Kind::Exhausted, "no memory for zstd");
    ::ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_compressionLevel, kLevel);
    ::ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_windowLog, kWindow);
  }
  bool run(ByteView& in, EncodeEnd end, std::span<std::byte>& out) override {
    ZSTD_EndDirective directive = ZSTD_e_continue;
    if (end == EncodeEnd::Flush) directive = ZSTD_e_flush;
    if (end == EncodeEnd::Finish) directive = ZSTD_e_end;
    ZSTD_inBuffer source{in.data(), in.size(), 0};
    ZSTD_outBuffer sink{out.data(), out.size(), 0};
    const size_t left = ::ZSTD_compressStream2(stream_.get(), &sink, &source, directive);
    if (::ZSTD_isError(left) != 0) throw Error(Kind::Exhausted, "zstd cannot go on");
    in = in.subspan(source.pos);
    out = out.subspan(sink.pos);
    return in.empty() && (end == EncodeEnd::Open || left == 0);
  }

 private:
  struct Free {
    void operator()(ZSTD_CStream* stream) const { ::ZSTD_freeCStream(stream); }
  };
  std::unique_ptr<ZSTD_CStream, Free> stream_;
};

}

std::unique_ptr<DecodeStage> zstd_decoder() { return std::make_unique<ZstdDecode>(); }
std::unique_ptr<EncodeStage> zstd_encoder() { return std::make_unique<ZstdEncode>(); }

}
