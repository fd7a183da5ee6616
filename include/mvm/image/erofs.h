#pragma once
// Writes EROFS images (Linux fs/erofs/erofs_fs.h; Documentation/filesystems/erofs.rst):
// uncompressed, 4096-byte blocks, readable by Linux 5.15 and later.
//
// File data is streamed: each file's blocks go to the output as they come, once; only metadata is
// kept in memory. Ends of files that fill no block, and directories, are packed between the inodes.
//
//   block 0            superblock at 1024
//   blocks 1..         file data, in the order it was added; then whole directory blocks
//   meta_blkaddr..     inodes, each followed by its extended attributes and inline data
//
// The same tree and the same order of files give the same bytes.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/crypto/hash.h"
#include "mvm/image/tree.h"
#include "mvm/sys/fd.h"

namespace mvm::image {

inline constexpr uint32_t kErofsBlock = 4096;
inline constexpr uint64_t kMaxChunks = 16384;  // entries of a sparse file's block map

struct ErofsSummary {
  uint64_t size = 0;  // bytes of the image
  uint64_t inodes = 0;
  uint64_t content_bytes = 0;  // sum of file sizes
};

// File data beyond the writer's bound.
class TooMuchData : public Error {
 public:
  explicit TooMuchData(std::string message) : Error(Kind::Exhausted, std::move(message)) {}
};

class ErofsWriter {
 public:
  // `output` is an empty regular file open for reading and writing; `scratch` another, for the ends
  // of files. Both are borrowed. File data beyond `max_bytes` (holes that cannot be kept count) is
  // TooMuchData.
  ErofsWriter(int output, int scratch, uint64_t max_bytes);
  ~ErofsWriter();
  ErofsWriter(const ErofsWriter&) = delete;
  ErofsWriter& operator=(const ErofsWriter&) = delete;

  // One file at a time, `size` being what the file will have: append() data, or skip() zeros, in
  // order, adding up to `size`; then end_file() fills the node. A `sparse` file keeps its larger
  // holes (chunk-based layout), at a granularity that bounds its block map to kMaxChunks.
  void begin_file(uint64_t size, const Attributes& attributes, bool sparse = false);
  void append(ByteView data);
  void skip(uint64_t length);
  // append() of `length` bytes at `offset` of another file, without a copy through this process
  // where the kernel can. Returns what the file really had, which is less when it shrank.
  uint64_t append_from(int fd, uint64_t offset, uint64_t length);
  void end_file(Node& node);

  // File data taken so far, in bytes.
  uint64_t written() const;

  // Lays out and writes everything else. No more files then.
  ErofsSummary finish(const Tree& tree);

  // Gives the image a UUID, which names all its bytes and `identity`: the same files under another
  // identity are another image. Returns crypto::tree_of_file of the output. Most of it was computed
  // while that was written; `progress` gets the position of what has to be read.
  crypto::Digest seal(std::string_view identity,
                      const std::function<void(uint64_t)>& progress = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
