#include "mvm/virtio/vsock_stream.h"

#include "mvm/base/error.h"

namespace mvm::virtio {

void ByteRing::append(ChainReader& from, size_t length) noexcept {
  MVM_ASSERT(length <= storage_.size() - size_);
  while (length > 0) {
    const size_t tail = (head_ + size_) % storage_.size();
    const size_t step = std::min(length, storage_.size() - tail);
    const size_t copied = from.read(storage_.subspan(tail, step));
    MVM_ASSERT(copied == step);
    size_ += step;
    length -= step;
  }
}

std::span<const iovec> ByteRing::contents(std::span<iovec, 2> into) const noexcept {
  if (size_ == 0) return {};
  const size_t first = std::min(size_, storage_.size() - head_);
  into[0] = {storage_.data() + head_, first};
  if (first == size_) return into.first(1);
  into[1] = {storage_.data(), size_ - first};
  return into;
}

void ByteRing::consume(size_t length) noexcept {
  MVM_ASSERT(length <= size_);
  size_ -= length;
  head_ = size_ == 0 ? 0 : (head_ + length) % storage_.size();
}

}
