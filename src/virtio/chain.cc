#include "mvm/virtio/chain.h"

#include <algorithm>
#include <cstring>

namespace mvm::virtio {

ChainCursor::ChainCursor(std::span<const iovec> segments) noexcept : rest_(segments) {
  for (const iovec& segment : segments) remaining_ += segment.iov_len;
}

std::span<std::byte> ChainCursor::segment() const noexcept {
  if (rest_.empty()) return {};
  // The whole of iov_base was checked against guest memory when the chain was popped.
  return std::span(static_cast<std::byte*>(rest_.front().iov_base), rest_.front().iov_len)
      .subspan(offset_);
}

uint64_t ChainCursor::skip(uint64_t length) noexcept {
  length = std::min(length, remaining_);
  for (uint64_t left = length; left > 0;) {
    const uint64_t step = std::min<uint64_t>(left, rest_.front().iov_len - offset_);
    offset_ += step;
    left -= step;
    if (offset_ == rest_.front().iov_len) {
      rest_ = rest_.subspan(1);
      offset_ = 0;
    }
  }
  remaining_ -= length;
  position_ += length;
  return length;
}

std::span<const iovec> ChainCursor::gather(uint64_t length, std::span<iovec> into) const noexcept {
  size_t count = 0;
  uint64_t offset = offset_;
  for (const iovec& segment : rest_) {
    if (length == 0 || count == into.size()) break;
    const uint64_t step = std::min<uint64_t>(length, segment.iov_len - offset);
    into[count++] = {static_cast<std::byte*>(segment.iov_base) + offset, step};
    length -= step;
    offset = 0;
  }
  return into.first(count);
}

size_t ChainReader::read(std::span<std::byte> into) noexcept {
  size_t done = 0;
  while (done < into.size()) {
    const auto from = segment();
    const size_t step = std::min(from.size(), into.size() - done);
    if (step == 0) break;
    std::memcpy(into.data() + done, from.data(), step);
    skip(step);
    done += step;
  }
  return done;
}

size_t ChainWriter::write(ByteView data) noexcept {
  size_t done = 0;
  while (done < data.size()) {
    const auto to = segment();
    const size_t step = std::min(to.size(), data.size() - done);
    if (step == 0) break;
    std::memcpy(to.data(), data.data() + done, step);
    skip(step);
    done += step;
  }
  return done;
}

}
