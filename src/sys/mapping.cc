#include "mvm/sys/mapping.h"

#include <cerrno>

#include <sys/mman.h>

#include "mvm/sys/error.h"

namespace mvm::sys {

Mapping Mapping::map(int fd, uint64_t offset, size_t length, int protection, int flags) {
  void* address = ::mmap(nullptr, length, protection, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd,
                         static_cast<off_t>(offset));
  if (address == MAP_FAILED) throw SystemError(errno, "mapping memory");
  Mapping mapping;
  mapping.data_ = static_cast<std::byte*>(address);
  mapping.size_ = length;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), std::exchange(size_, 0));
}

}
