#pragma once
// Reads images that erofs.h writes. The file is the user's own and was verified when it was made,
// but disks decay: everything is checked before it is used, and what is wrong is Error{Invalid}.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/image/tree.h"

namespace mvm::image {

// One inode, without its data.
struct ErofsInode {
  uint64_t nid = 0;
  Type type = Type::Regular;
  Attributes attributes;
  uint32_t links = 0;
  uint64_t size = 0;
  Extent::Layout layout = Extent::Layout::Plain;
  uint32_t location = 0;  // first block, or the format of chunks
  uint64_t behind = 0;    // offset of what follows its head and attributes
};

class ErofsImage {
 public:
  // Borrows the file, which is open for reading.
  explicit ErofsImage(int fd);

  uint64_t root() const { return root_; }
  uint64_t inodes() const { return inodes_; }
  ErofsInode inode(uint64_t nid) const;

  // A piece of data, in its file and in the image; what is in none of them is a hole.
  struct Segment {
    uint64_t offset = 0;
    uint64_t place = 0;
    uint64_t length = 0;
  };
  std::vector<Segment> segments(const ErofsInode& inode) const;
  // In pieces of at most 1 MiB, whole blocks but for the last.
  void read(const Segment& segment, const std::function<void(ByteView)>& piece) const;

  std::string target(const ErofsInode& link) const;
  // The names in a directory without "." and "..", in the order of their bytes.
  void list(const ErofsInode& directory,
            const std::function<void(std::string_view name, uint64_t nid)>& entry) const;

 private:
  void load(std::span<std::byte> into, uint64_t offset) const;
  void load_xattrs(ErofsInode& inode, uint64_t offset, uint64_t length) const;

  int fd_;
  uint64_t size_ = 0;
  uint64_t root_ = 0;
  uint64_t inodes_ = 0;
  uint64_t meta_ = 0;  // offset of the inodes
  int64_t time_ = 0;   // of compact inodes
  uint32_t time_nsec_ = 0;
};

// Calls visit(path, inode) for the root ("") and everything below it: a directory before what it
// holds, names in the order of their bytes. Paths are without a leading slash.
void walk_erofs(const ErofsImage& image,
                const std::function<void(const std::string& path, const ErofsInode&)>& visit);

}
