#pragma once
// What the two halves of ErofsWriter share: erofs.cc takes files, erofs_finish.cc lays out the
// rest.

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/erofs.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "erofs_layout.h"

namespace mvm::image {

using erofs::kBlock;
using erofs::kSlot;
using erofs::kSlotsPerBlock;

// What stands before inline data at most: an extended inode and its attributes.
inline uint64_t inline_room(const Attributes& attributes) {
  const uint64_t head = erofs::kExtendedInode + erofs::encode_xattrs(attributes).size();
  return head >= kBlock ? 0 : kBlock - head;
}

// Sequential writes to a file, gathered; gaps stay unwritten, so they read as zeros and cost no
// disk space.
class Appender {
 public:
  static constexpr size_t kBuffer = size_t{1} << 20;

  Appender(int fd, uint64_t start) : fd_(fd), position_(start), flushed_(start) {
    buffer_.reserve(kBuffer);
  }
  uint64_t position() const { return position_; }
  void put(ByteView data) {
    if (buffer_.size() + data.size() > kBuffer) flush();
    if (data.size() >= kBuffer) {
      sys::pwrite_all(fd_, data, position_);
      flushed_ = position_ + data.size();
    } else {
      buffer_.insert(buffer_.end(), data.begin(), data.end());
    }
    position_ += data.size();
  }
  void gap(uint64_t length) {
    if (length == 0) return;
    flush();
    position_ += length;
    flushed_ = position_;
  }
  void align() { gap((kBlock - position_ % kBlock) % kBlock); }
  void flush() {
    if (!buffer_.empty()) sys::pwrite_all(fd_, buffer_, flushed_);
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
  int fd_;
  Bytes buffer_;
  uint64_t position_;  // where the next byte goes
  uint64_t flushed_;   // where the buffer starts
  bool kernel_copies_ = true;
};

// The file being written.
struct OpenFile {
  uint64_t size = 0;
  uint64_t position = 0;
  uint64_t body = 0;  // bytes that go to the output; the rest is the inline tail
  bool sparse = false;
  uint64_t chunk_size = 0;
  Extent extent;
  Chunks chunks;
};

struct ErofsWriter::Impl {
  Impl(int output_fd, int scratch_fd, uint64_t limit)
      : output(output_fd),
        scratch(scratch_fd),
        max_bytes(limit),
        data(output_fd, kBlock),
        tails(scratch_fd, 0) {}

  uint64_t written() const { return data.position() - kBlock + tails.position(); }

  void check_room(uint64_t more) const {
    if (written() > max_bytes || more > max_bytes - written())
      throw TooMuchData("more than " + format_size(max_bytes) + " of file data");
  }

  static uint32_t block_number(uint64_t offset) {
    const uint64_t block = offset / kBlock;
    if (block >= kHole) throw Error(Kind::Exhausted, "the image exceeds 16 TiB");
    return static_cast<uint32_t>(block);
  }

  // Gives the data at file.position its place in the output; true when it is the first of a chunk.
  void enter_chunk() {
    if (!file.sparse || file.position % file.chunk_size != 0) return;
    data.align();
    file.chunks.push_back(block_number(data.position()));
  }

  // The bytes up to where the next decision is due: the end of the chunk or of the body.
  uint64_t run() const {
    if (file.position >= file.body) return file.size - file.position;
    const uint64_t to_body_end = file.body - file.position;
    if (!file.sparse) return to_body_end;
    return std::min(to_body_end, file.chunk_size - file.position % file.chunk_size);
  }

  int output;
  int scratch;
  uint64_t max_bytes;
  Appender data;
  Appender tails;
  OpenFile file;
  uint64_t content_bytes = 0;
  bool chunked_files = false;
};

}
