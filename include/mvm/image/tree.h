#pragma once
// A file tree in memory, without file content: what an importer fills and the EROFS writer lays
// out. Nothing of a source is ever unpacked on the host, so a path in an archive is only ever a
// position in this tree.
//
// Every file costs some 180 bytes here, and there may be millions: what few nodes have is behind a
// pointer, and names with their entries lie in an arena that is given back as a whole.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::image {

inline constexpr size_t kMaxFileName = 255;  // EROFS and Linux
inline constexpr size_t kMaxPath = 4095;     // PATH_MAX without its NUL
inline constexpr size_t kMaxDepth = 512;     // directories below each other
inline constexpr size_t kMaxLinkTarget = 4095;
inline constexpr size_t kMaxAttributes = 65536;  // bytes of extended attributes of one inode

using NodeId = uint32_t;
inline constexpr NodeId kRoot = 0;

enum class Type : uint8_t { Regular, Directory, Symlink, Fifo };

// A chunk of a sparse file that is not there.
inline constexpr uint32_t kHole = 0xffffffff;

// Where a file's bytes went in the image being written; filled by ErofsWriter.
struct Extent {
  enum class Layout : uint8_t { Plain, Inline, Chunked };
  Layout layout = Layout::Plain;
  uint8_t chunk_bits = 0;    // Chunked: log2 of blocks a chunk
  uint16_t tail_size = 0;    // Inline: bytes after the last whole block
  uint32_t first_block = 0;  // Plain, Inline: of its whole blocks
  uint64_t tail_offset = 0;  // Inline: in the scratch file
};
using Chunks = std::vector<uint32_t>;  // Chunked: first block of each, or kHole

// Extended attributes by full name, sorted, only kept ones. Most inodes have none.
class Xattrs {
 public:
  using List = std::vector<std::pair<std::string, Bytes>>;
  Xattrs() = default;
  explicit Xattrs(List list)
      : list_(list.empty() ? nullptr : std::make_unique<List>(std::move(list))) {}
  Xattrs(const Xattrs& other)
      : list_(other.list_ ? std::make_unique<List>(*other.list_) : nullptr) {}
  Xattrs(Xattrs&&) noexcept = default;
  Xattrs& operator=(const Xattrs& other) { return *this = Xattrs(other); }
  Xattrs& operator=(Xattrs&&) noexcept = default;
  ~Xattrs() = default;

  bool empty() const { return !list_; }
  const List& list() const {
    static const List none;
    return list_ ? *list_ : none;
  }

 private:
  std::unique_ptr<List> list_;
};

// The outside of a file: what stat(2) shows.
struct Attributes {
  int64_t mtime = 0;  // seconds
  uint32_t mtime_nsec = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint16_t permissions = 0755;  // with set-id and sticky bits
  Xattrs xattrs;
};

// A name in a directory, and the layer that put it there: whiteouts hide only what lies below their
// own layer.
struct Entry {
  NodeId id = kRoot;
  uint32_t layer = 0;
};

// By name, which lies in the tree's arena.
using Children = std::pmr::map<std::string_view, Entry>;

// One inode. Hard links are several entries with one NodeId.
struct Node {
  Attributes attributes;
  uint64_t size = 0;      // Regular
  Extent extent;          // Regular
  NodeId parent = kRoot;  // Directory
  uint32_t links = 0;
  Type type = Type::Regular;

  const std::string& target() const;  // Symlink
  const Chunks& chunks() const;       // Regular, Chunked
  const Children& children() const;   // Directory
  void set_target(std::string_view target);
  void set_chunks(Chunks chunks);

 private:
  friend class Tree;
  // What one of the kinds alone has.
  struct More {
    std::string target;
    Chunks chunks;
    std::unique_ptr<Children> children;
  };
  More& more();
  std::unique_ptr<More> more_;
};

// Which extended attributes an image keeps: user.*, security.capability and POSIX ACLs. The rest
// describes the host it came from (labels, overlay markers) and would mean something else in a
// guest.
bool keeps_xattr(std::string_view name);

class Tree {
 public:
  Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Node& node(NodeId id) { return nodes_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  size_t node_count() const { return nodes_.size(); }
  std::optional<NodeId> child(NodeId directory, std::string_view name) const;

  // A node not yet in any directory.
  NodeId add_node(Type type, Attributes attributes);
  // Enters `id` as `name` for the current layer; an existing entry is replaced. The caller has
  // checked the name and that what is replaced is no directory with children.
  void link(NodeId directory, std::string_view name, NodeId id);
  // Takes a name away, and with it all below it. Files that have no other name are not in the image
  // then. An unknown name is fine.
  void remove(NodeId directory, std::string_view name);

  // What is linked from now on belongs to the next layer.
  void next_layer() { ++layer_; }
  // The current layer speaks of this entry, which is there: as if linked again.
  void touch(NodeId directory, std::string_view name);
  // Hides what lower layers have under this name; what the current layer put below it stays.
  void hide_lower(NodeId directory, std::string_view name);
  // The same for everything in a directory.
  void hide_lower_in(NodeId directory);

  // Bytes that names, targets, attributes and the nodes themselves take, roughly.
  uint64_t metadata_bytes() const { return metadata_bytes_; }
  // A reader keeps so much besides because of what its source says.
  void charge(uint64_t bytes) { metadata_bytes_ += bytes; }

 private:
  bool hide_lower_below(Entry entry);
  std::string_view keep(std::string_view name);

  std::pmr::monotonic_buffer_resource arena_;  // outlives the nodes
  std::deque<Node> nodes_;                     // grows without a moment of two copies
  uint64_t metadata_bytes_ = 0;
  uint32_t layer_ = 0;
};

}
