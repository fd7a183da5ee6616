// How an image is laid out
//
// File data comes first, because it is streamed before the tree is known: each file's whole blocks
// are appended to the output, what is left of it (less than a block) goes to the scratch file when
// it fits behind its inode in one block, else into a padded block.
//
// finish() then knows every inode. An inode with its attributes and inline data must not cross a
// block where it fits into one (the kernel refuses inline data that does), so they are packed best
// fit into metadata blocks; each gets its slot, and with it the nid that directories refer to.
// Directory data is written once all nids are known, then the metadata in the order of slots.

#include "mvm/image/erofs.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "erofs_layout.h"

namespace mvm::image {

using erofs::kBlock;
using erofs::kSlot;
using erofs::kSlotsPerBlock;

static constexpr size_t kBuffer = size_t{1} << 20;

// Sequential writes to a file, gathered; gaps stay unwritten, so they read as zeros and cost no
// disk space.
class Appender {
 public:
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

// Hands out slots in the metadata area, each block filled from its start.
class SlotAllocator {
 public:
  // `size` bytes, within one block when they fit into one.
  uint64_t allocate(uint64_t size) {
    const uint64_t slots = (size + kSlot - 1) / kSlot;
    if (slots > kSlotsPerBlock) {
      const uint64_t start = blocks_ * kSlotsPerBlock;
      const uint64_t count = (slots + kSlotsPerBlock - 1) / kSlotsPerBlock;
      blocks_ += count;
      keep_rest(blocks_ - 1, count * kSlotsPerBlock - slots);
      return start;
    }
    for (uint64_t free = slots; free <= kSlotsPerBlock; ++free) {
      std::vector<uint64_t>& bucket = open_.at(free);
      if (bucket.empty()) continue;
      const uint64_t block = bucket.back();
      bucket.pop_back();
      keep_rest(block, free - slots);
      return block * kSlotsPerBlock + (kSlotsPerBlock - free);
    }
    const uint64_t block = blocks_++;
    keep_rest(block, kSlotsPerBlock - slots);
    return block * kSlotsPerBlock;
  }
  uint64_t blocks() const { return blocks_; }
  bool last_block_is_full() const {
    return std::none_of(open_.begin(), open_.end(), [&](const std::vector<uint64_t>& bucket) {
      return std::find(bucket.begin(), bucket.end(), blocks_ - 1) != bucket.end();
    });
  }

 private:
  void keep_rest(uint64_t block, uint64_t free) {
    if (free > 0) open_.at(free).push_back(block);
  }
  std::array<std::vector<uint64_t>, kSlotsPerBlock + 1> open_;  // blocks by their free slots
  uint64_t blocks_ = 0;
};

// The file being written.
struct OpenFile {
  uint64_t size = 0;
  uint64_t position = 0;
  uint64_t body = 0;  // bytes that go to the output; the rest is the inline tail
  bool sparse = false;
  uint64_t chunk_size = 0;
  Extent extent;
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
      throw Error(Kind::Exhausted, "more than " + format_size(max_bytes) + " of file data");
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
    file.extent.chunks.push_back(block_number(data.position()));
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

ErofsWriter::ErofsWriter(int output, int scratch, uint64_t max_bytes)
    : impl_(std::make_unique<Impl>(output, scratch, max_bytes)) {}
ErofsWriter::~ErofsWriter() = default;
uint64_t ErofsWriter::written() const { return impl_->written(); }

// What stands before inline data at most: an extended inode and its attributes.
static uint64_t inline_room(const Attributes& attributes) {
  const uint64_t head = erofs::kExtendedInode + erofs::encode_xattrs(attributes).size();
  return head >= kBlock ? 0 : kBlock - head;
}

void ErofsWriter::begin_file(uint64_t size, const Attributes& attributes, bool sparse) {
  Impl& impl = *impl_;
  impl.file = OpenFile{};
  OpenFile& file = impl.file;
  file.size = size;
  file.body = size;
  if (sparse && size > kBlock) {
    file.sparse = true;
    file.extent.layout = Extent::Layout::Chunked;
    const uint64_t blocks = (size - 1) / kBlock + 1;
    while (((blocks - 1) >> file.extent.chunk_bits) + 1 > kMaxChunks) ++file.extent.chunk_bits;
    file.chunk_size = uint64_t{kBlock} << file.extent.chunk_bits;
    return;
  }
  impl.check_room(size);
  impl.data.align();
  file.extent.first_block = Impl::block_number(impl.data.position());
  const uint64_t tail = size % kBlock;
  if (tail != 0 && tail <= inline_room(attributes)) {
    file.extent.layout = Extent::Layout::Inline;
    file.extent.tail_size = static_cast<uint32_t>(tail);
    file.extent.tail_offset = impl.tails.position();
    file.body = size - tail;
  }
  if (file.body == 0) file.extent.first_block = 0;
}

void ErofsWriter::append(ByteView bytes) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(bytes.size() <= file.size - file.position);
  while (!bytes.empty()) {
    impl.enter_chunk();
    const ByteView part = bytes.first(std::min<uint64_t>(bytes.size(), impl.run()));
    impl.check_room(part.size());
    (file.position < file.body ? impl.data : impl.tails).put(part);
    file.position += part.size();
    bytes = bytes.subspan(part.size());
  }
}

void ErofsWriter::skip(uint64_t length) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(length <= file.size - file.position);
  while (length > 0) {
    if (file.sparse && file.position % file.chunk_size == 0) {
      const uint64_t chunk = std::min(file.chunk_size, file.size - file.position);
      if (length >= chunk) {
        file.extent.chunks.push_back(kHole);
        file.position += chunk;
        length -= chunk;
        continue;
      }
    }
    impl.enter_chunk();
    const uint64_t part = std::min(length, impl.run());
    impl.check_room(part);
    (file.position < file.body ? impl.data : impl.tails).gap(part);
    file.position += part;
    length -= part;
  }
}

uint64_t ErofsWriter::append_from(int fd, uint64_t offset, uint64_t length) {
  Impl& impl = *impl_;
  OpenFile& file = impl.file;
  MVM_ASSERT(length <= file.size - file.position);
  uint64_t done = 0;
  while (done < length) {
    impl.enter_chunk();
    const uint64_t part = std::min(length - done, impl.run());
    impl.check_room(part);
    Appender& sink = file.position < file.body ? impl.data : impl.tails;
    const uint64_t got = sink.copy_from(fd, offset + done, part);
    file.position += got;
    done += got;
    if (got < part) break;
  }
  return done;
}

void ErofsWriter::end_file(Node& node) {
  Impl& impl = *impl_;
  MVM_ASSERT(impl.file.position == impl.file.size);
  node.size = impl.file.size;
  node.extent = std::move(impl.file.extent);
  impl.content_bytes += node.size;
  impl.chunked_files |= node.extent.layout == Extent::Layout::Chunked;
  impl.file = OpenFile{};
}

namespace {

// One inode on its way to the disk.
struct Planned {
  NodeId node = 0;
  NodeId parent = 0;  // of a directory
  uint32_t subdirectories = 0;
  Bytes xattrs;
  erofs::InodePlan plan;
  uint32_t inline_size = 0;
  uint64_t slot = 0;
};

// The tree's inodes in the order of a walk by name, each once. What later entries replaced is not
// reached and so not written.
class Layout {
 public:
  explicit Layout(const Tree& tree) : tree_(tree), index_of_(tree.node_count(), kNone) {
    planned_.reserve(tree.node_count());  // growing would need half as much again for a moment
    visit(kRoot, kRoot);
    for (size_t i = 0; i < planned_.size(); ++i) {  // grows while it is walked
      const NodeId id = planned_[i].node;
      if (tree_.node(id).type != Type::Directory) continue;
      uint32_t subdirectories = 0;
      for (const auto& [name, entry] : tree_.node(id).children) {
        const NodeId child = entry.id;
        if (tree_.node(child).type == Type::Directory) ++subdirectories;
        visit(child, id);
      }
      planned_[i].subdirectories = subdirectories;
    }
  }

  std::vector<Planned>& planned() { return planned_; }
  bool reached(NodeId id) const { return index_of_[id] != kNone; }
  const Planned& of(NodeId id) const { return planned_[index_of_[id]]; }

  // The time that most inodes have: those need no extended inode to say it.
  std::pair<int64_t, uint32_t> common_time() const {
    std::map<std::pair<int64_t, uint32_t>, size_t> counts;
    for (const Planned& inode : planned_) {
      const Attributes& attributes = tree_.node(inode.node).attributes;
      ++counts[{attributes.mtime, attributes.mtime_nsec}];
    }
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  void visit(NodeId id, NodeId parent) {
    if (index_of_[id] != kNone) return;
    index_of_[id] = static_cast<uint32_t>(planned_.size());
    Planned& inode = planned_.emplace_back();
    inode.node = id;
    inode.parent = parent;
  }

  const Tree& tree_;
  std::vector<uint32_t> index_of_;
  std::vector<Planned> planned_;
};

// Size, layout and place of one inode. `next_block` is where whole blocks of directories and long
// link targets go.
void plan_inode(Planned& inode, const Node& node, std::pair<int64_t, uint32_t> common_time,
                uint64_t& next_block) {
  inode.xattrs = erofs::encode_xattrs(node.attributes);
  erofs::InodePlan& plan = inode.plan;
  plan.xattr_size = static_cast<uint32_t>(inode.xattrs.size());
  plan.links = node.type == Type::Directory ? 2 + inode.subdirectories : node.links;

  if (node.type == Type::Regular) {
    plan.size = node.size;
    plan.layout = node.extent.layout;
    plan.location =
        plan.layout == Extent::Layout::Chunked ? node.extent.chunk_bits : node.extent.first_block;
    inode.inline_size = node.extent.tail_size;
  } else if (node.type != Type::Fifo) {
    plan.size = node.type == Type::Directory ? erofs::directory_size(node) : node.target.size();
    const uint64_t tail = plan.size % kBlock;
    const bool tail_inline = tail != 0 && tail <= inline_room(node.attributes);
    const uint64_t blocks = plan.size / kBlock + (tail != 0 && !tail_inline ? 1 : 0);
    if (tail_inline) {
      plan.layout = Extent::Layout::Inline;
      inode.inline_size = static_cast<uint32_t>(tail);
    }
    if (blocks > 0) {
      if (next_block + blocks >= kHole) throw Error(Kind::Exhausted, "the image exceeds 16 TiB");
      plan.location = static_cast<uint32_t>(next_block);
      next_block += blocks;
    }
  }
  const Attributes& attributes = node.attributes;
  plan.compact = attributes.uid <= 0xffff && attributes.gid <= 0xffff && plan.links <= 0xffff &&
                 plan.size <= 0xffffffff &&
                 common_time == std::pair(attributes.mtime, attributes.mtime_nsec);
}

uint64_t inode_size(const Planned& inode, const Node& node) {
  return (inode.plan.compact ? erofs::kCompactInode : erofs::kExtendedInode) + inode.xattrs.size() +
         inode.inline_size + node.extent.chunks.size() * sizeof(uint32_t);
}

}

// The data of files that later entries replaced or removed, [start, end) in bytes of the output,
// sorted and joined.
static std::vector<std::pair<uint64_t, uint64_t>> dead_ranges(const Tree& tree,
                                                              const Layout& layout) {
  std::vector<std::pair<uint64_t, uint64_t>> dead;
  const auto add = [&](uint64_t first_block, uint64_t bytes) {
    const uint64_t start = first_block * kBlock;
    const uint64_t end = start + (bytes + kBlock - 1) / kBlock * kBlock;
    if (bytes == 0) return;
    if (!dead.empty() && dead.back().second == start)
      dead.back().second = end;
    else
      dead.emplace_back(start, end);
  };
  for (NodeId id = 0; id < tree.node_count(); ++id) {
    const Node& node = tree.node(id);
    if (node.type != Type::Regular || layout.reached(id)) continue;
    if (node.extent.layout != Extent::Layout::Chunked) {
      add(node.extent.first_block, node.size - node.extent.tail_size);
      continue;
    }
    const uint64_t chunk = uint64_t{kBlock} << node.extent.chunk_bits;
    for (size_t i = 0; i < node.extent.chunks.size(); ++i)
      if (node.extent.chunks[i] != kHole)
        add(node.extent.chunks[i], std::min(chunk, node.size - i * chunk));
  }
  return dead;
}

ErofsSummary ErofsWriter::finish(const Tree& tree, std::string_view identity) {
  Impl& impl = *impl_;
  impl.data.align();
  impl.data.flush();
  impl.tails.flush();
  // Tails that end in zeros may have been left unwritten.
  sys::resize_file(impl.scratch, impl.tails.position(), "sizing the scratch file");

  Layout layout(tree);
  // Removed means removed: a guest that reads its disk block by block does not find it either, and
  // it takes no room.
  for (const auto& [start, end] : dead_ranges(tree, layout))
    sys::punch_hole(impl.output, start, end - start);
  std::vector<Planned>& planned = layout.planned();
  const auto common_time = layout.common_time();
  const uint64_t directory_block = Impl::block_number(impl.data.position());
  uint64_t next_block = directory_block;
  SlotAllocator slots;
  // Slot 0 stays empty: user space takes an inode number 0 for a deleted directory entry.
  slots.allocate(kSlot);
  uint32_t number = 0;
  for (Planned& inode : planned) {
    const Node& node = tree.node(inode.node);
    plan_inode(inode, node, common_time, next_block);
    inode.plan.number = ++number;
    inode.slot = slots.allocate(inode_size(inode, node));
  }
  const uint64_t meta_block = next_block;
  // The image never ends with an inode: readers (fsck.erofs 1.5) look for an attribute header
  // behind an inode without attributes, which must not be past the end of the image.
  if (slots.last_block_is_full()) slots.allocate(kBlock);
  const uint64_t blocks = meta_block + slots.blocks();
  if (blocks >= kHole) throw Error(Kind::Exhausted, "the image exceeds 16 TiB");

  // Directories and link targets: whole blocks now, ends with their inodes.
  const auto entry_of = [&](NodeId id) {
    return erofs::DirectoryEntry{layout.of(id).slot, tree.node(id).type};
  };
  const auto own_data = [&](const Planned& inode) -> Bytes {
    const Node& node = tree.node(inode.node);
    if (node.type == Type::Directory)
      return erofs::encode_directory(node, inode.slot, layout.of(inode.parent).slot, entry_of);
    const ByteView target = as_bytes(node.target);
    return {target.begin(), target.end()};
  };
  Appender directories(impl.output, directory_block * kBlock);
  crypto::Sha256 digest;
  for (const Planned& inode : planned) {
    if (inode.plan.location == 0 || tree.node(inode.node).type == Type::Regular) continue;
    const Bytes data = own_data(inode);
    const ByteView body = ByteView(data).first(data.size() - inode.inline_size);
    digest.update(body);
    directories.put(body);
    directories.align();
  }
  MVM_ASSERT(directories.position() == meta_block * kBlock);
  directories.flush();

  // Inodes, in the order of their slots.
  std::vector<uint32_t> order(planned.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return planned[a].slot < planned[b].slot; });
  Appender metadata(impl.output, meta_block * kBlock);
  Bytes record;
  for (const uint32_t index : order) {
    const Planned& inode = planned[index];
    const Node& node = tree.node(inode.node);
    record.clear();
    Writer out(record);
    erofs::put_inode(out, node, inode.plan);
    out.bytes(inode.xattrs);
    for (const uint32_t block : node.extent.chunks) out.u32(block);
    if (inode.inline_size > 0 && node.type == Type::Regular) {
      const size_t head = record.size();
      out.zeros(inode.inline_size);
      const bool whole =
          sys::pread_exact(impl.scratch, std::span(record).subspan(head), node.extent.tail_offset);
      MVM_ASSERT(whole);
    } else if (inode.inline_size > 0) {
      const Bytes data = own_data(inode);
      out.bytes(ByteView(data).last(inode.inline_size));
    }
    digest.update(record);
    metadata.gap(meta_block * kBlock + inode.slot * kSlot - metadata.position());
    metadata.put(record);
  }
  metadata.flush();

  digest.update(as_bytes(identity));
  const crypto::Digest hash = digest.finish();
  erofs::Super super;
  super.root_nid = static_cast<uint16_t>(layout.of(kRoot).slot);
  super.inodes = planned.size();
  super.build_time = common_time.first;
  super.build_time_nsec = common_time.second;
  super.blocks = static_cast<uint32_t>(blocks);
  super.meta_block = static_cast<uint32_t>(meta_block);
  super.chunked_files = impl.chunked_files;
  // A name for this content: of all metadata, which holds the places and ends of all files. As a
  // UUID of version 8 (RFC 9562, section 5.8).
  std::copy_n(hash.begin(), super.uuid.size(), super.uuid.begin());
  super.uuid[6] = (super.uuid[6] & std::byte{0x0f}) | std::byte{0x80};
  super.uuid[8] = (super.uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  sys::pwrite_all(impl.output, erofs::super_block(super), 0);
  sys::resize_file(impl.output, blocks * kBlock, "sizing the image");
  return {blocks * kBlock, planned.size(), impl.content_bytes};
}

}
