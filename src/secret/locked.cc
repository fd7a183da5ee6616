#include "mvm/secret/locked.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <string.h>  // explicit_bzero
#include <sys/mman.h>
#include <unistd.h>

#include "mvm/sys/error.h"

namespace mvm::secret {

void Locked::add_block(size_t size) {
  blocks_.reserve(blocks_.size() + 1);
  void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw SystemError(errno, "memory for a secret");
  // Each is a precaution; where the host does not grant it, the secret is still of use.
  static_cast<void>(::madvise(pages, size, MADV_DONTDUMP));
  static_cast<void>(::madvise(pages, size, MADV_WIPEONFORK));
  const bool locked = ::mlock(pages, size) == 0;
  blocks_.push_back({static_cast<char*>(pages), size, locked});
  left_ = size;
}

std::string_view Locked::keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (bytes.size() > left_) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    add_block((bytes.size() + page - 1) / page * page);
  }
  const Block& block = blocks_.back();
  char* to = block.pages + (block.size - left_);
  std::memcpy(to, bytes.data(), bytes.size());
  left_ -= bytes.size();
  return {to, bytes.size()};
}

bool Locked::whole() const noexcept { return std::ranges::all_of(blocks_, &Block::locked); }

Locked::~Locked() {
  for (const Block& block : blocks_) {
    ::explicit_bzero(block.pages, block.size);
    ::munmap(block.pages, block.size);
  }
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
