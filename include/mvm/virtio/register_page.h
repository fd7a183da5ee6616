#pragma once
// The registers of one virtio-mmio device as bytes: one page that the transport keeps up to date
// and anybody may read at any time without asking. Where the page is shown to the guest as memory
// that it can read and not write, its reads are no exits.
//
// Every register is written as one 32-bit word and the configuration space as aligned 64-bit words,
// so a reader sees each of them whole.

#include <cstdint>
#include <span>

#include "mvm/base/bytes.h"

namespace mvm::virtio {

class RegisterPage {
 public:
  static constexpr size_t kSize = 4096;
  static constexpr size_t kConfig = 0x100;  // where the configuration space begins

  // `page` is kSize bytes, aligned to 8, zero, and outlives this.
  explicit RegisterPage(std::span<std::byte> page);

  // `offset` is a multiple of 4 below kConfig.
  uint32_t get(uint64_t offset) const noexcept {
    return __atomic_load_n(word(offset), __ATOMIC_ACQUIRE);
  }
  void put(uint64_t offset, uint32_t value) noexcept {
    __atomic_store_n(word(offset), value, __ATOMIC_RELEASE);
  }
  void set_bits(uint64_t offset, uint32_t bits) noexcept {
    __atomic_fetch_or(word(offset), bits, __ATOMIC_ACQ_REL);
  }
  void clear_bits(uint64_t offset, uint32_t bits) noexcept {
    __atomic_fetch_and(word(offset), ~bits, __ATOMIC_ACQ_REL);
  }
  // Shows `config`, of constant length; true when it was another before.
  bool put_config(ByteView config) noexcept;
  // What a load of data.size() bytes gives; zeros past the end.
  void read(uint64_t offset, std::span<std::byte> data) const noexcept;

 private:
  uint32_t* word(uint64_t offset) const noexcept {
    return reinterpret_cast<uint32_t*>(page_.data() + offset);
  }

  std::span<std::byte> page_;
};

}
