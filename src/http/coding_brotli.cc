// br by libbrotli (RFC 7932).

#include <brotli/decode.h>
#include <brotli/encode.h>

#include "mvm/base/error.h"

#include "coding_stage.h"

namespace mvm::http {
namespace {

constexpr uint32_t kQuality = 4;
constexpr uint32_t kWindow = 18;  // bits: what an encoder keeps is some times this

const uint8_t* bytes(ByteView in) { return reinterpret_cast<const uint8_t*>(in.data()); }
uint8_t* bytes(std::span<std::byte> out) { return reinterpret_cast<uint8_t*>(out.data()); }

class BrotliDecode final : public DecodeStage {
 public:
  // Windows of more than 16 MiB are no "br" and refused by the library.
  BrotliDecode() : state_(::BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (!state_) throw Error(Kind::Exhausted, "no memory for brotli");
  }
  bool run(ByteView& in, std::span<std::byte>& out) override {
    if (ended_) return in.empty();
    size_t left_in = in.size();
    size_t left_out = out.size();
    const uint8_t* next_in = bytes(in);
    uint8_t* next_out = bytes(out);
    begun_ = begun_ || !in.empty();
    const BrotliDecoderResult result = ::BrotliDecoderDecompressStream(
        state_.get(), &left_in, &next_in, &left_out, &next_out, nullptr);
    in = in.last(left_in);
    out = out.last(left_out);
    ended_ = result == BROTLI_DECODER_RESULT_SUCCESS;
    return result != BROTLI_DECODER_RESULT_ERROR && (!ended_ || in.empty());
  }
  bool may_end() const noexcept override { return ended_ || !begun_; }

 private:
  struct Destroy {
    void operator()(BrotliDecoderState* state) const { ::BrotliDecoderDestroyInstance(state); }
  };
  std::unique_ptr<BrotliDecoderState, Destroy> state_;
  bool begun_ = false;
  bool ended_ = false;
};

class BrotliEncode final : public EncodeStage {
 public:
  BrotliEncode() : state_(::BrotliEncoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (!state_) throw Error(Kind::Exhausted, "no memory for brotli");
    ::BrotliEncoderSetParameter(state_.get(), BROTLI_PARAM_QUALITY, kQuality);
    ::BrotliEncoderSetParameter(state_.get(), BROTLI_PARAM_LGWIN, kWindow);
  }
  bool run(ByteView& in, EncodeEnd end, std::span<std::byte>& out) override {
    BrotliEncoderOperation operation = BROTLI_OPERATION_PROCESS;
    if (end == EncodeEnd::Flush) operation = BROTLI_OPERATION_FLUSH;
    if (end == EncodeEnd::Finish) operation = BROTLI_OPERATION_FINISH;
    size_t left_in = in.size();
    size_t left_out = out.size();
    const uint8_t* next_in = bytes(in);
    uint8_t* next_out = bytes(out);
    if (::BrotliEncoderCompressStream(state_.get(), operation, &left_in, &next_in, &left_out,
                                      &next_out, nullptr) == BROTLI_FALSE)
      throw Error(Kind::Exhausted, "brotli cannot go on");
    in = in.last(left_in);
    out = out.last(left_out);
    if (end == EncodeEnd::Finish) return ::BrotliEncoderIsFinished(state_.get()) != BROTLI_FALSE;
    return in.empty() && ::BrotliEncoderHasMoreOutput(state_.get()) == BROTLI_FALSE;
  }

 private:
  struct Destroy {
    void operator()(BrotliEncoderState* state) const { ::BrotliEncoderDestroyInstance(state); }
  };
  std::unique_ptr<BrotliEncoderState, Destroy> state_;
};

}

std::unique_ptr<DecodeStage> brotli_decoder() { return std::make_unique<BrotliDecode>(); }
std::unique_ptr<EncodeStage> brotli_encoder() { return std::make_unique<BrotliEncode>(); }

}
