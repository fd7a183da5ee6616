#pragma once
// Bytes that stay in memory and leave no trace: pages of their own that are not swapped out (as far
// as the limit of locked memory goes), not in a core dump and not in a forked child, and are wiped
// before they go back. Not printable, not copied.

#include <cstddef>
#include <string_view>

namespace mvm::secret {

class Locked {
 public:
  explicit Locked(std::string_view bytes);
  ~Locked();
  Locked(Locked&& other) noexcept;
  Locked& operator=(Locked&&) = delete;

  std::string_view view() const noexcept { return {pages_, size_}; }

 private:
  char* pages_ = nullptr;
  size_t size_ = 0;
};

// Of equal length they are compared in a time that does not tell where they differ.
bool same(std::string_view a, std::string_view b) noexcept;

}
