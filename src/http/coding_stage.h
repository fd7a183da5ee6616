#pragma once
// One coding, one way. The libraries behind them are alike: they take from `in` and give to `out`,
// both shrunk by what was used.

#include <memory>
#include <span>

#include "mvm/http/coding.h"

namespace mvm::http {

class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  // False for damaged data, and for data behind the end.
  virtual bool run(ByteView& in, std::span<std::byte>& out) = 0;
  virtual bool may_end() const noexcept = 0;  // nothing is half-read
};

class EncodeStage {
 public:
  virtual ~EncodeStage() = default;
  // True once all of `in` is taken and all that `end` asks for has been given.
  virtual bool run(ByteView& in, EncodeEnd end, std::span<std::byte>& out) = 0;
};

std::unique_ptr<DecodeStage> gzip_decoder();
std::unique_ptr<DecodeStage> deflate_decoder();
std::unique_ptr<DecodeStage> brotli_decoder();
std::unique_ptr<DecodeStage> zstd_decoder();
std::unique_ptr<EncodeStage> gzip_encoder();
std::unique_ptr<EncodeStage> deflate_encoder();
std::unique_ptr<EncodeStage> brotli_encoder();
std::unique_ptr<EncodeStage> zstd_encoder();

}
