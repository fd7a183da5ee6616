#pragma once
// gzip (RFC 1952), zstd (RFC 8878) or plain bytes, told apart by their first bytes; a bomb ends at
// a bound.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "mvm/base/bytes.h"

namespace mvm::image {

// How much may come out for what went in: gzip cannot exceed 1032, zstd can exceed 10000.
inline constexpr uint64_t kMaxRatio = 1100;
// Below this much output the ratio is not looked at.
inline constexpr uint64_t kFreeOutput = uint64_t{64} << 20;
// Of zstd: what its default levels use is at most 8 MiB.
inline constexpr int kMaxWindowLog = 25;

class Inflater {
 public:
  // Fills a buffer; 0 at the end.
  using Input = std::function<size_t(std::span<std::byte>)>;

  // More than `limit` bytes of output are Error{Exhausted}.
  Inflater(Input input, uint64_t limit);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // The next bytes; 0 at the end, when all of the input has been read too. Throws Error{Invalid}
  // for what is cut off or damaged.
  size_t read(std::span<std::byte> out);
  bool compressed() const;  // known after the first read

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
