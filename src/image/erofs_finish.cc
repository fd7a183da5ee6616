// The second half of an image: inodes, directories and the superblock, once all files are there
// (how it is laid out stands at the top of erofs.cc). There may be millions of inodes, so what can
// be derived again is not kept: of each, its place in the walk, its slot and where its own data is.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "mvm/crypto/hash.h"

#include "erofs_writer.h"

namespace mvm::image {

namespace {

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

using Time = std::pair<int64_t, uint32_t>;

// One inode on its way to the disk.
struct Planned {
  uint64_t slot = 0;
  NodeId node = 0;
  uint32_t subdirectories = 0;
  uint32_t location = 0;  // first whole block of a directory or a link's target
};

// The tree's inodes in the order of a walk by name, each once. What later entries replaced is not
// reached and so not written.
class Layout {
 public:
  explicit Layout(const Tree& tree) : tree_(tree), index_of_(tree.node_count(), kNone) {
    planned_.reserve(tree.node_count());  // growing would need half as much again for a moment
    visit(kRoot);
    for (size_t i = 0; i < planned_.size(); ++i) {  // grows while it is walked
      uint32_t subdirectories = 0;
      for (const auto& [name, entry] : tree_.node(planned_[i].node).children()) {
        if (tree_.node(entry.id).type == Type::Directory) ++subdirectories;
        visit(entry.id);
      }
      planned_[i].subdirectories = subdirectories;
    }
  }

  std::vector<Planned>& planned() { return planned_; }
  bool reached(NodeId id) const { return index_of_[id] != kNone; }
  const Planned& of(NodeId id) const { return planned_[index_of_[id]]; }

  // The time that most inodes have: those need no extended inode to say it.
  Time common_time() const {
    std::vector<Time> times;
    times.reserve(planned_.size());
    for (const Planned& inode : planned_) {
      const Attributes& attributes = tree_.node(inode.node).attributes;
      times.emplace_back(attributes.mtime, attributes.mtime_nsec);
    }
    std::sort(times.begin(), times.end());
    Time common = times.front();
    std::ptrdiff_t most = 0;
    for (auto run = times.begin(); run != times.end();) {
      const auto end = std::upper_bound(run, times.end(), *run);
      if (end - run > most) {
        most = end - run;
        common = *run;
      }
      run = end;
    }
    return common;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  void visit(NodeId id) {
    if (index_of_[id] != kNone) return;
    index_of_[id] = static_cast<uint32_t>(planned_.size());
    planned_.emplace_back().node = id;
  }

  const Tree& tree_;
  std::vector<uint32_t> index_of_;
  std::vector<Planned> planned_;
};

// The data of a directory or of a link's target: what stands in blocks, and what behind its inode.
struct OwnData {
  uint64_t size = 0;
  uint64_t blocks = 0;
  uint32_t inlined = 0;
};
OwnData own_data_of(const Node& node) {
  OwnData own;
  if (node.type != Type::Directory && node.type != Type::Symlink) return own;
  own.size = node.type == Type::Directory ? erofs::directory_size(node) : node.target().size();
  const uint64_t tail = own.size % kBlock;
  const bool tail_inline = tail != 0 && tail <= inline_room(node.attributes);
  own.blocks = own.size / kBlock + (tail != 0 && !tail_inline ? 1 : 0);
  if (tail_inline) own.inlined = static_cast<uint32_t>(tail);
  return own;
}

// How an inode is written, all but its number.
struct Shape {
  erofs::InodePlan plan;
  Bytes xattrs;
  uint32_t inlined = 0;
};
Shape shape_of(const Planned& inode, const Node& node, const Time& common_time) {
  Shape shape;
  shape.xattrs = erofs::encode_xattrs(node.attributes);
  erofs::InodePlan& plan = shape.plan;
  plan.xattr_size = static_cast<uint32_t>(shape.xattrs.size());
  plan.links = node.type == Type::Directory ? 2 + inode.subdirectories : node.links;
  if (node.type == Type::Regular) {
    plan.size = node.size;
    plan.layout = node.extent.layout;
    plan.location =
        plan.layout == Extent::Layout::Chunked ? node.extent.chunk_bits : node.extent.first_block;
    shape.inlined = node.extent.tail_size;
  } else {
    const OwnData own = own_data_of(node);
    plan.size = own.size;
    plan.location = inode.location;
    shape.inlined = own.inlined;
    if (own.inlined > 0) plan.layout = Extent::Layout::Inline;
  }
  const Attributes& attributes = node.attributes;
  plan.compact = attributes.uid <= 0xffff && attributes.gid <= 0xffff && plan.links <= 0xffff &&
                 plan.size <= 0xffffffff &&
                 common_time == Time(attributes.mtime, attributes.mtime_nsec);
  return shape;
}

uint64_t size_of(const Shape& shape, const Node& node) {
  return (shape.plan.compact ? erofs::kCompactInode : erofs::kExtendedInode) + shape.xattrs.size() +
         shape.inlined + node.chunks().size() * sizeof(uint32_t);
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
    for (size_t i = 0; i < node.chunks().size(); ++i)
      if (node.chunks()[i] != kHole) add(node.chunks()[i], std::min(chunk, node.size - i * chunk));
  }
  return dead;
}

ErofsSummary ErofsWriter::finish(const Tree& tree) {
  Impl& impl = *impl_;
  impl.data.align();
  impl.data.flush();
  impl.tails.flush();
  // Tails that end in zeros may have been left unwritten.
  sys::resize_file(impl.scratch, impl.tails.position(), "sizing the scratch file");

  Layout layout(tree);
  // Removed means removed: a guest that reads its disk block by block does not find it either, and
  // it takes no room.
  for (const auto& [start, end] : dead_ranges(tree, layout)) {
    sys::punch_hole(impl.output, start, end - start);
    impl.digests.forget(start, end);
  }
  std::vector<Planned>& planned = layout.planned();
  const auto common_time = layout.common_time();
  const uint64_t directory_block = Impl::block_number(impl.data.position());
  uint64_t next_block = directory_block;
  SlotAllocator slots;
  // Slot 0 stays empty: user space takes an inode number 0 for a deleted directory entry.
  slots.allocate(kSlot);
  for (Planned& inode : planned) {
    const Node& node = tree.node(inode.node);
    if (const uint64_t own = own_data_of(node).blocks; own > 0) {
      if (next_block + own >= kHole) throw Error(Kind::Exhausted, "the image exceeds 16 TiB");
      inode.location = static_cast<uint32_t>(next_block);
      next_block += own;
    }
    inode.slot = slots.allocate(size_of(shape_of(inode, node, common_time), node));
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
      return erofs::encode_directory(node, inode.slot, layout.of(node.parent).slot, entry_of);
    const ByteView target = as_bytes(node.target());
    return {target.begin(), target.end()};
  };
  Appender directories(impl.output, directory_block * kBlock, &impl.digests);
  for (const Planned& inode : planned) {
    if (inode.location == 0) continue;
    const Bytes data = own_data(inode);
    const ByteView body =
        ByteView(data).first(data.size() - own_data_of(tree.node(inode.node)).inlined);
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
  Appender metadata(impl.output, meta_block * kBlock, &impl.digests);
  Bytes record;
  for (const uint32_t index : order) {
    const Planned& inode = planned[index];
    const Node& node = tree.node(inode.node);
    Shape shape = shape_of(inode, node, common_time);
    shape.plan.number = index + 1;
    record.clear();
    Writer out(record);
    erofs::put_inode(out, node, shape.plan);
    out.bytes(shape.xattrs);
    for (const uint32_t block : node.chunks()) out.u32(block);
    if (shape.inlined > 0 && node.type == Type::Regular) {
      const size_t head = record.size();
      out.zeros(shape.inlined);
      const bool whole =
          sys::pread_exact(impl.scratch, std::span(record).subspan(head), node.extent.tail_offset);
      MVM_ASSERT(whole);
    } else if (shape.inlined > 0) {
      const Bytes data = own_data(inode);
      out.bytes(ByteView(data).last(shape.inlined));
    }
    metadata.gap(meta_block * kBlock + inode.slot * kSlot - metadata.position());
    metadata.put(record);
  }
  metadata.flush();

  erofs::Super& super = impl.super;
  super.root_nid = static_cast<uint16_t>(layout.of(kRoot).slot);
  super.inodes = planned.size();
  super.build_time = common_time.first;
  super.build_time_nsec = common_time.second;
  super.blocks = static_cast<uint32_t>(blocks);
  super.meta_block = static_cast<uint32_t>(meta_block);
  super.chunked_files = impl.chunked_files;
  sys::pwrite_all(impl.output, erofs::super_block(super), 0);
  sys::resize_file(impl.output, blocks * kBlock, "sizing the image");
  return {blocks * kBlock, planned.size(), impl.content_bytes};
}

crypto::Digest ErofsWriter::seal(std::string_view identity,
                                 const std::function<void(uint64_t)>& progress) {
  Impl& impl = *impl_;
  MVM_ASSERT(impl.super.blocks != 0);
  const uint64_t size = uint64_t{impl.super.blocks} * kBlock;
  impl.super.uuid = erofs::uuid_of(impl.digests.finish(impl.output, size, progress), identity);
  sys::pwrite_all(impl.output, erofs::super_block(impl.super), 0);
  impl.digests.forget(0, kBlock);
  return impl.digests.finish(impl.output, size, {});
}

crypto::Digest PieceDigests::finish(int fd, uint64_t size,
                                    const std::function<void(uint64_t)>& progress) {
  std::vector<crypto::Digest> all;
  pieces_.resize((size + crypto::kTreePiece - 1) / crypto::kTreePiece);
  all.reserve(pieces_.size());
  Bytes buffer(crypto::kTreePiece);
  for (uint64_t start = 0; start < size; start += buffer.size()) {
    std::optional<crypto::Digest>& known = pieces_[start / buffer.size()];
    if (!known) {
      const auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), size - start));
      if (!sys::pread_exact(fd, piece, start))
        throw Error(Kind::Conflict, "the image was cut off while it was made");
      known = crypto::sha256(piece);
      if (progress) progress(start + piece.size());
    }
    all.push_back(*known);
  }
  return crypto::tree_of_pieces(size, all);
}

}
