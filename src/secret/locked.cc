#include "mvm/secret/locked.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <string.h>  // explicit_bzero
#include <sys/mman.h>

#include "mvm/sys/error.h"

namespace mvm::secret {

Locked::Locked(std::string_view bytes) : size_(bytes.size()) {
  if (size_ == 0) return;
  void* pages = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw SystemError(errno, "memory for a secret");
  pages_ = static_cast<char*>(pages);
  // Each is a precaution; where the host does not grant it, the secret is still of use.
  static_cast<void>(::madvise(pages_, size_, MADV_DONTDUMP));
  static_cast<void>(::madvise(pages_, size_, MADV_WIPEONFORK));
  static_cast<void>(::mlock(pages_, size_));
  std::memcpy(pages_, bytes.data(), size_);
}

Locked::Locked(Locked&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Locked::~Locked() {
  if (pages_ == nullptr) return;
  ::explicit_bzero(pages_, size_);
  ::munmap(pages_, size_);
}

bool same(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  unsigned differs = 0;
  for (size_t i = 0; i < a.size(); ++i)
    differs |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return differs == 0;
}

}
