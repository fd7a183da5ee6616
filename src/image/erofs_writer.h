#pragma once
// What the two halves of ErofsWriter share: erofs.cc takes files, erofs_finish.cc lays out the
// rest.

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/erofs.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "appender.h"
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
        data(output_fd, kBlock, &digests),
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
  PieceDigests digests;  // of the output
  Appender data;
  Appender tails;
  OpenFile file;
  uint64_t content_bytes = 0;
  erofs::Super super;  // once everything else is written
  bool chunked_files = false;
};

}
