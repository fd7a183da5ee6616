#pragma once
// Bytes that stay in memory and leave no trace: pages of their own that are not swapped out, not in
// a core dump and not in a forked child, and are wiped before they go back. Not printable, not
// copied. Texts share pages, so that what a host lets an ordinary user lock holds many.

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace mvm::secret {

class Locked {
 public:
  Locked() = default;
  ~Locked();
  Locked(Locked&& other) noexcept
      : blocks_(std::exchange(other.blocks_, {})), left_(std::exchange(other.left_, 0)) {}
  Locked& operator=(Locked&&) = delete;

  // A copy that is there as long as this is. Throws SystemError where there is no memory.
  std::string_view keep(std::string_view bytes);

  // False: the host locks no more for this process (RLIMIT_MEMLOCK), and what did not fit can be
  // swapped out; the rest holds for it too.
  bool whole() const noexcept;

 private:
  struct Block {
    char* pages;
    size_t size;
    bool locked;
  };
  void add_block(size_t size);

  std::vector<Block> blocks_;
  size_t left_ = 0;  // at the end of the last one
};

// Of equal length they are compared in a time that does not tell where they differ.
bool same(std::string_view a, std::string_view b) noexcept;

}
