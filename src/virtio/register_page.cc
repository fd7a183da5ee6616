#include "mvm/virtio/register_page.h"

#include <algorithm>
#include <cstring>

#include "mvm/base/error.h"

namespace mvm::virtio {

RegisterPage::RegisterPage(std::span<std::byte> page) : page_(page) {
  MVM_ASSERT(page.size() == kSize && reinterpret_cast<uintptr_t>(page.data()) % 8 == 0);
}

bool RegisterPage::put_config(ByteView config) noexcept {
  bool changed = false;
  MVM_ASSERT(config.size() <= kSize - kConfig);
  for (size_t at = 0; at < config.size(); at += sizeof(uint64_t)) {
    uint64_t value = 0;
    std::memcpy(&value, config.data() + at, std::min(sizeof value, config.size() - at));
    auto* there = reinterpret_cast<uint64_t*>(page_.data() + kConfig + at);
    if (__atomic_load_n(there, __ATOMIC_RELAXED) == value) continue;
    __atomic_store_n(there, value, __ATOMIC_RELEASE);
    changed = true;
  }
  return changed;
}

void RegisterPage::read(uint64_t offset, std::span<std::byte> data) const noexcept {
  std::ranges::fill(data, std::byte{0});
  if (offset < kConfig && offset % 4 == 0 && data.size() == sizeof(uint32_t)) {
    const uint32_t value = get(offset);
    std::memcpy(data.data(), &value, sizeof value);
    return;
  }
  for (size_t i = 0; i < data.size() && offset + i < kSize; ++i)
    data[i] = std::byte(
        __atomic_load_n(reinterpret_cast<uint8_t*>(page_.data() + offset + i), __ATOMIC_RELAXED));
}

}
