#pragma once
// Sequential writes to a file, gathered into pieces of 1 MiB that lie where the image's digest has
// its own (crypto/tree_hash.h), so that most of those are computed from memory, while the image is
// written.

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/crypto/tree_hash.h"
#include "mvm/sys/io.h"

#include "erofs_layout.h"

namespace mvm::image {

// The digests of a file's pieces, as far as they are known.
class PieceDigests {
 public:
  void wrote(uint64_t offset, ByteView data) {
    if (offset % crypto::kTreePiece != 0 || data.size() != crypto::kTreePiece) return;
    const uint64_t number = offset / crypto::kTreePiece;
    if (pieces_.size() <= number) pieces_.resize(number + 1);
    pieces_[number] = crypto::sha256(data);
  }
  // What lies there has changed.
  void forget(uint64_t start, uint64_t end) {
    for (uint64_t number = start / crypto::kTreePiece;
         number < pieces_.size() && number * crypto::kTreePiece < end; ++number)
      pieces_[number].reset();
  }
  // Of the file, reading what is not known. `progress` gets the bytes that are done.
  crypto::Digest finish(int fd, uint64_t size, const std::function<void(uint64_t)>& progress);

 private:
  std::vector<std::optional<crypto::Digest>> pieces_;
};

// Gaps of a block or more stay unwritten: they read as zeros and cost no disk space.
class Appender {
 public:
  static constexpr size_t kBuffer = crypto::kTreePiece;
  // Writes of 1 MiB get folios of that size, which a kernel takes from memory that nobody has used
  // yet: 420 MiB took 0.7 s of processor time where the host had to find it first, and 0.09 s so.
  static constexpr size_t kWrite = size_t{64} << 10;

  // With `digests`, the file is what will be synced.
  Appender(int fd, uint64_t start, PieceDigests* digests = nullptr)
      : fd_(fd), digests_(digests), position_(start), flushed_(start) {
    buffer_.reserve(kBuffer);
  }
  uint64_t position() const { return position_; }
  void put(ByteView data) {
    while (!data.empty()) {
      const ByteView part = data.first(std::min(data.size(), kBuffer - position_ % kBuffer));
      if (part.size() == kBuffer)
        write(part);
      else
        buffer_.insert(buffer_.end(), part.begin(), part.end());
      position_ += part.size();
      if (position_ % kBuffer == 0) flush();
      data = data.subspan(part.size());
    }
  }
  void gap(uint64_t length) {
    static constexpr std::array<std::byte, erofs::kBlock> kZeros{};
    if (length < kZeros.size()) return put(ByteView(kZeros).first(length));
    flush();
    position_ += length;
    flushed_ = position_;
  }
  void align() { gap((erofs::kBlock - position_ % erofs::kBlock) % erofs::kBlock); }
  void flush() {
    if (!buffer_.empty()) write(buffer_);
    buffer_.clear();
    flushed_ = position_;
  }
  // `length` bytes at `offset` of `fd`; less when that file ends before.
  uint64_t copy_from(int fd, uint64_t offset, uint64_t length) {
    flush();
    uint64_t done = 0;
    while (done < length && kernel_copies_) {
      auto from = static_cast<off_t>(offset + done);
      auto to = static_cast<off_t>(position_);
      const ssize_t moved = ::copy_file_range(fd, &from, fd_, &to, length - done, 0);
      if (moved < 0 && errno == EINTR) continue;
      // Other file systems, /proc and the like: by hand, and so for the rest of this image.
      if (moved < 0) kernel_copies_ = false;
      // 0 may mean a file whose size the kernel does not know; reading decides.
      if (moved <= 0) break;
      done += static_cast<uint64_t>(moved);
      position_ += static_cast<uint64_t>(moved);
    }
    flushed_ = position_;
    Bytes chunk;
    while (done < length) {
      chunk.resize(static_cast<size_t>(std::min<uint64_t>(length - done, kBuffer)));
      const size_t got = sys::pread_some(fd, chunk, offset + done);
      if (got == 0) break;
      put(ByteView(chunk).first(got));
      done += got;
    }
    return done;
  }

 private:
  void write(ByteView data) {
    for (uint64_t done = 0; done < data.size(); done += kWrite)
      sys::pwrite_all(fd_, data.subspan(done, std::min<uint64_t>(kWrite, data.size() - done)),
                      flushed_ + done);
    if (digests_ == nullptr) return;
    // The disk has its part of the work from now on, and not all of it at the end. It is only a
    // hint; what fails is told by the fsync.
    ::sync_file_range(fd_, static_cast<off64_t>(flushed_), static_cast<off64_t>(data.size()),
                      SYNC_FILE_RANGE_WRITE);
    digests_->wrote(flushed_, data);
  }

  int fd_;
  PieceDigests* digests_;
  Bytes buffer_;
  uint64_t position_;  // where the next byte goes
  uint64_t flushed_;   // where the buffer starts
  bool kernel_copies_ = true;
};

}
