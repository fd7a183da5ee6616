#pragma once
// Guest physical memory.
//
// The guest writes to it while we read, so there is one way in: a checked range. Copy first, then
// judge the copy. Ring indices are read and written with single aligned accesses (a byte-wise copy
// may tear them). Layout: one region from 0 up to the MMIO gap at 3 GiB, one from 4 GiB up; ranges
// never cross from one to the other.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/sys/mapping.h"

namespace mvm::memory {

// A guest physical address; not an integer by accident.
struct GuestAddress {
  uint64_t value = 0;
  auto operator<=>(const GuestAddress&) const = default;
};

inline constexpr uint64_t kMmioGapStart = 0xC000'0000;  // 3 GiB
inline constexpr uint64_t kMmioGapEnd = 0x1'0000'0000;  // 4 GiB
inline constexpr uint64_t kPageSize = 4096;
inline constexpr uint64_t kHugePageSize = 2 << 20;

// The most that a guest can have. Checked in one place, so that guest physical addresses stay below
// 2^37 whatever a configuration says.
inline constexpr uint64_t kMaxGuestMemory = uint64_t{64} << 30;

enum class Backing : uint8_t {
  Anonymous,  // small pages, or large ones where the host has them to spare
  HugePages,  // 2 MiB pages of the host's reserve (hugetlbfs), all taken at once
};

struct Region {
  GuestAddress start;
  uint64_t size = 0;
  std::byte* host = nullptr;  // mapping of [start, start + size), aligned to kHugePageSize
};

class GuestMemory {
 public:
  // `size` bytes of zeros, at most kMaxGuestMemory, whole pages of the backing.
  // Anonymous memory costs nothing until it is touched; huge pages are the guest's from now on.
  // Throws SystemError, Error{Invalid}, Error{Exhausted} when the reserve of huge pages is short.
  static GuestMemory create(uint64_t size, Backing backing = Backing::Anonymous);

  // Has the host set pages aside that the kernel of every guest touches while it boots, so that it
  // need not wait for them. A hint: where it cannot be had, they come one by one as usual.
  void touch_what_boots_do() const noexcept;

  uint64_t size() const noexcept { return size_; }
  Backing backing() const noexcept { return backing_; }
  std::span<const Region> regions() const noexcept { return regions_; }

  // The bytes of a range that lies within one region, or nothing. The sole source of pointers into
  // guest memory. The guest may change them at any time: copy, then look.
  std::optional<std::span<std::byte>> slice(GuestAddress at, uint64_t length) const noexcept {
    for (const Region& region : regions_) {
      const uint64_t offset =
          at.value - region.start.value;  // wraps below the region, and then is out of bounds
      if (offset < region.size && length <= region.size - offset)
        return std::span(region.host + offset, static_cast<size_t>(length));
    }
    return std::nullopt;
  }

  bool read(GuestAddress at, std::span<std::byte> into) const noexcept {
    const auto from = slice(at, into.size());
    if (!from) return false;
    if (!into.empty()) std::memcpy(into.data(), from->data(), into.size());
    return true;
  }
  bool write(GuestAddress at, ByteView data) const noexcept {
    const auto to = slice(at, data.size());
    if (!to) return false;
    if (!data.empty()) std::memcpy(to->data(), data.data(), data.size());
    return true;
  }
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  std::optional<T> read_value(GuestAddress at) const noexcept {
    T value{};
    if (!read(at, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  bool write_value(GuestAddress at, const T& value) const noexcept {
    return write(at, std::as_bytes(std::span(&value, 1)));
  }

 private:
  uint64_t size_ = 0;
  Backing backing_ = Backing::Anonymous;
  std::vector<sys::Mapping> mappings_;
  std::vector<Region> regions_;
};

// Single-copy atomic access to a naturally aligned 16-bit field of guest memory, for ring indices
// and flags. `at` comes from a slice taken once at activation.
inline uint16_t load_u16(const std::byte* at, std::memory_order order) noexcept {
  // The field is aligned by the caller's check, and the guest's view of it is a plain 16-bit word.
  return __atomic_load_n(reinterpret_cast<const uint16_t*>(at), static_cast<int>(order));
}
inline void store_u16(std::byte* at, uint16_t value, std::memory_order order) noexcept {
  __atomic_store_n(reinterpret_cast<uint16_t*>(at), value, static_cast<int>(order));
}

}
