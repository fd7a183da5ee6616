#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mvm/sys/fd.h"

namespace mvm::sys {

// Owns a memory mapping.
class Mapping {
 public:
  Mapping() = default;
  // mmap(2) of `fd` (or anonymous when -1); throws SystemError.
  static Mapping map(int fd, uint64_t offset, size_t length, int protection, int flags);
  ~Mapping() { reset(); }
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}
