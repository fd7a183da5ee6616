#pragma once
// The driver's side of a split virtqueue in guest memory, for tests and fuzz targets. It can do all
// that a correct driver does, and, through the raw calls, all that a hostile one may try.

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/queue.h"

namespace mvm::test {

struct Buffer {
  uint64_t address = 0;
  uint32_t length = 0;
  bool writable = false;
};

struct Used {
  uint32_t head = 0;
  uint32_t length = 0;
};

// As in the device: it orders accesses that are atomic anyway, so that the thread sanitizer, which
// does not follow fences, misses nothing.
inline void full_fence() noexcept {
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#pragma GCC diagnostic pop
}

class DriverQueue {
 public:
  // Lays the areas out from `base` (page-aligned), takes less than 16 KiB.
  DriverQueue(const memory::GuestMemory& memory, uint64_t base, uint16_t size)
      : memory_(&memory), base_(base), size_(size) {
    const std::vector<std::byte> zeros(kSpan);
    MVM_ASSERT(memory.write({base}, zeros));
    for (uint16_t index = size; index-- > 0;) free_.push_back(index);
  }

  static constexpr size_t kSpan = 16384;
  uint64_t descriptors() const { return base_; }
  uint64_t avail() const { return base_ + 0x1000; }
  uint64_t used() const { return base_ + 0x2000; }
  uint16_t size() const { return size_; }
  size_t free_descriptors() const { return free_.size(); }

  virtio::QueueRegisters registers() const {
    virtio::QueueRegisters out;
    out.max_size = virtio::kMaxQueueSize;
    out.size = size_;
    out.ready = true;
    out.descriptor_area = {descriptors()};
    out.driver_area = {avail()};
    out.device_area = {used()};
    return out;
  }

  // Starts both rings at `index`, to get near the wrap. Before the device is activated there.
  void start_at(uint16_t index) {
    avail_index_ = used_index_ = index;
    put_word(avail() + 2, index);
    put_word(used() + 2, index);
  }

  // ---- correct use ----
  uint16_t add(std::span<const Buffer> buffers) {
    std::vector<uint16_t> indices;
    for (size_t i = 0; i < buffers.size(); ++i) indices.push_back(take_free());
    for (size_t i = 0; i < buffers.size(); ++i) {
      const bool last = i + 1 == buffers.size();
      set(indices[i], describe(buffers[i], last ? std::nullopt : std::optional(indices[i + 1])));
    }
    const uint16_t head = indices.front();
    chains_[head] = std::move(indices);
    publish(head);
    return head;
  }
  uint16_t add(std::initializer_list<Buffer> buffers) {
    return add(std::span(buffers.begin(), buffers.size()));
  }
  // The first `direct` buffers as descriptors, the rest in an indirect table at `table`.
  uint16_t add_indirect(std::span<const Buffer> buffers, uint64_t table, size_t direct = 0) {
    std::vector<uint16_t> indices;
    for (size_t i = 0; i <= direct; ++i) indices.push_back(take_free());
    for (size_t i = 0; i < direct; ++i) set(indices[i], describe(buffers[i], indices[i + 1]));
    const auto rest = buffers.subspan(direct);
    for (size_t i = 0; i < rest.size(); ++i) {
      const bool last = i + 1 == rest.size();
      put(table + sizeof(virtio::Descriptor) * i,
          describe(rest[i], last ? std::nullopt : std::optional(static_cast<uint16_t>(i + 1))));
    }
    set(indices.back(), {table, static_cast<uint32_t>(sizeof(virtio::Descriptor) * rest.size()),
                         virtio::kDescriptorIndirect, 0});
    const uint16_t head = indices.front();
    chains_[head] = std::move(indices);
    publish(head);
    return head;
  }
  std::optional<Used> take_used() {
    if (used_index() == used_index_) return std::nullopt;
    const uint64_t at = used() + 4 + 8 * (used_index_ % size_);
    ++used_index_;
    const Used out{get<uint32_t>(at), get<uint32_t>(at + 4)};
    const auto chain = chains_.find(static_cast<uint16_t>(out.head));
    if (chain != chains_.end()) {
      free_.insert(free_.end(), chain->second.rbegin(), chain->second.rend());
      chains_.erase(chain);
    }
    return out;
  }
  // Event index wishes and answers (§2.7.10).
  void set_used_event(uint16_t index) { put_word(avail() + 4 + 2U * size_, index); }
  uint16_t avail_event() const { return word(used() + 4 + 8U * size_); }
  void set_avail_flags(uint16_t flags) { put_word(avail(), flags); }
  uint16_t used_flags() const { return word(used()); }
  uint16_t avail_index() const { return avail_index_; }
  uint16_t used_index() const { return word(used() + 2); }

  // ---- raw ----
  void set(uint16_t index, const virtio::Descriptor& descriptor) {
    put(descriptors() + sizeof descriptor * index, descriptor);
  }
  void publish(uint16_t head) {
    put_word(avail() + 4 + 2U * (avail_index_ % size_), head);
    put_word(avail() + 2, ++avail_index_);
  }
  void set_avail_index(uint16_t index) { put_word(avail() + 2, avail_index_ = index); }

  static virtio::Descriptor describe(const Buffer& buffer, std::optional<uint16_t> next) {
    return {buffer.address, buffer.length,
            static_cast<uint16_t>((buffer.writable ? virtio::kDescriptorWrite : 0) |
                                  (next ? virtio::kDescriptorNext : 0)),
            next.value_or(0)};
  }

  template <typename T>
  void put(uint64_t at, const T& value) {
    MVM_ASSERT(memory_->write_value({at}, value));
  }
  template <typename T>
  T get(uint64_t at) const {
    return *memory_->read_value<T>({at});
  }

 private:
  // The words of the rings that both sides touch at any time, with the order that §2.7.13 asks for.
  void put_word(uint64_t at, uint16_t value) {
    memory::store_u16(memory_->slice({at}, 2).value().data(), value, std::memory_order_release);
  }
  uint16_t word(uint64_t at) const {
    return memory::load_u16(memory_->slice({at}, 2).value().data(), std::memory_order_acquire);
  }
  uint16_t take_free() {
    MVM_ASSERT(!free_.empty());
    const uint16_t index = free_.back();
    free_.pop_back();
    return index;
  }

  const memory::GuestMemory* memory_;
  uint64_t base_;
  uint16_t size_;
  uint16_t avail_index_ = 0;
  uint16_t used_index_ = 0;
  std::vector<uint16_t> free_;
  std::map<uint16_t, std::vector<uint16_t>> chains_;
};

}
