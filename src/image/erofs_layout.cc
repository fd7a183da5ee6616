#include "erofs_layout.h"

#include <algorithm>
#include <tuple>

#include <sys/stat.h>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"

namespace mvm::image::erofs {

// Feature bits of the superblock.
static constexpr uint32_t kCompatChecksum = 0x1;
static constexpr uint32_t kCompatMtime = 0x2;
static constexpr uint32_t kIncompatChunkedFile = 0x4;

static constexpr uint32_t kXattrHeader = 12;

static const std::array<uint32_t, 256>& crc_table() {
  static const auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t byte = 0; byte < out.size(); ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit)
        value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82f63b78U : 0);
      out.at(byte) = value;
    }
    return out;
  }();
  return table;
}

uint32_t crc32c(uint32_t crc, ByteView data) {
  const auto& table = crc_table();
  for (const std::byte byte : data)
    crc = table.at((crc ^ std::to_integer<uint32_t>(byte)) & 0xffU) ^ (crc >> 8);
  return crc;
}

Bytes super_block(const Super& super) {
  Bytes block;
  Writer out(block);
  out.zeros(kSuperOffset);
  out.u32(kMagic);
  out.u32(0);  // checksum
  out.u32(kCompatChecksum | kCompatMtime);
  out.u8(kBlockBits);
  out.u8(0);  // no extension slots
  out.u16(super.root_nid);
  out.u64(super.inodes);
  out.u64(static_cast<uint64_t>(super.build_time));
  out.u32(super.build_time_nsec);
  out.u32(super.blocks);
  out.u32(super.meta_block);
  out.u32(0);  // no shared extended attributes
  out.bytes(super.uuid);
  out.zeros(16);  // no volume name
  out.u32(super.chunked_files ? kIncompatChunkedFile : 0);
  out.zeros(kBlock - out.size());
  put_checksum(block);
  return block;
}

// crc32c of the block from the superblock on, with a zero checksum and without the final inversion
// (fs/erofs/super.c).
void put_checksum(std::span<std::byte> block) {
  MVM_ASSERT(block.size() == kBlock);
  const auto super = block.subspan(kSuperOffset);
  std::fill_n(super.begin() + 4, 4, std::byte{});
  const uint32_t checksum = crc32c(~uint32_t{0}, super);
  std::memcpy(&super[4], &checksum, sizeof checksum);
}

Uuid uuid_of(const crypto::Digest& digest, std::string_view identity) {
  crypto::Sha256 name;
  name.update(digest);
  name.update(as_bytes(identity));
  const crypto::Digest hash = name.finish();
  Uuid uuid;
  std::copy_n(hash.begin(), uuid.size(), uuid.begin());
  // Version 8 (RFC 9562, section 5.8).
  uuid[6] = (uuid[6] & std::byte{0x0f}) | std::byte{0x80};
  uuid[8] = (uuid[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid;
}

static uint16_t mode_of(const Node& node) {
  uint32_t kind = S_IFREG;
  switch (node.type) {
    case Type::Regular:
      break;
    case Type::Directory:
      kind = S_IFDIR;
      break;
    case Type::Symlink:
      kind = S_IFLNK;
      break;
    case Type::Fifo:
      kind = S_IFIFO;
      break;
  }
  return static_cast<uint16_t>(kind | (node.attributes.permissions & 07777U));
}

static uint16_t layout_bits(Extent::Layout layout) {
  switch (layout) {
    case Extent::Layout::Plain:
      return 0;
    case Extent::Layout::Inline:
      return 2;
    case Extent::Layout::Chunked:
      return 4;
  }
  return 0;
}

void put_inode(Writer& out, const Node& node, const InodePlan& plan) {
  const Attributes& attributes = node.attributes;
  out.u16(static_cast<uint16_t>((plan.compact ? 0U : 1U) |
                                static_cast<uint32_t>(layout_bits(plan.layout) << 1U)));
  const uint32_t icount = plan.xattr_size == 0 ? 0 : (plan.xattr_size - kXattrHeader) / 4 + 1;
  out.u16(static_cast<uint16_t>(icount));
  out.u16(mode_of(node));
  if (plan.compact) {
    out.u16(static_cast<uint16_t>(plan.links));
    out.u32(static_cast<uint32_t>(plan.size));
    out.u32(0);
    out.u32(plan.location);
    out.u32(plan.number);
    out.u16(static_cast<uint16_t>(attributes.uid));
    out.u16(static_cast<uint16_t>(attributes.gid));
    out.u32(0);
    return;
  }
  out.u16(0);
  out.u64(plan.size);
  out.u32(plan.location);
  out.u32(plan.number);
  out.u32(attributes.uid);
  out.u32(attributes.gid);
  out.u64(static_cast<uint64_t>(attributes.mtime));
  out.u32(attributes.mtime_nsec);
  out.u32(plan.links);
  out.zeros(16);
}

static constexpr std::array<std::tuple<std::string_view, uint8_t>, 4> kPrefixes{{
    {"user.", 1},
    {"system.posix_acl_access", 2},
    {"system.posix_acl_default", 3},
    {"security.", 6},
}};

std::optional<std::string_view> xattr_prefix(uint8_t index) {
  for (const auto& [prefix, number] : kPrefixes)
    if (number == index) return prefix;
  return std::nullopt;
}

// The prefix index under which a name is stored, and the rest of the name.
static std::pair<uint8_t, std::string_view> xattr_name(std::string_view name) {
  for (const auto& [prefix, index] : kPrefixes)
    if (name.starts_with(prefix)) return {index, name.substr(prefix.size())};
  MVM_ASSERT(false && "an attribute that keeps_xattr refuses");
  return {};
}

Bytes encode_xattrs(const Attributes& attributes) {
  Bytes encoded;
  if (attributes.xattrs.empty()) return encoded;
  Writer out(encoded);
  out.zeros(kXattrHeader);  // no filter, no shared attributes
  for (const auto& [full_name, value] : attributes.xattrs.list()) {
    const auto [index, name] = xattr_name(full_name);
    MVM_ASSERT(name.size() <= 255 && value.size() <= 65535);
    out.u8(static_cast<uint8_t>(name.size()));
    out.u8(index);
    out.u16(static_cast<uint16_t>(value.size()));
    out.text(name);
    out.bytes(value);
    out.zeros((4 - out.size() % 4) % 4);
  }
  return encoded;
}

// Calls visit(name, child) for "." and ".." (no child) and every entry, in the order of the bytes.
template <typename Visit>
static void each_entry(const Node& directory, Visit visit) {
  const Children& children = directory.children();
  auto next = children.begin();
  for (const std::string_view special : {std::string_view("."), std::string_view("..")}) {
    for (; next != children.end() && next->first < special; ++next)
      visit(next->first, &next->second.id);
    visit(special, nullptr);
  }
  for (; next != children.end(); ++next) visit(next->first, &next->second.id);
}

uint64_t directory_size(const Node& directory) {
  uint64_t full_blocks = 0;
  size_t used = 0;
  each_entry(directory, [&](std::string_view name, const NodeId*) {
    const size_t need = kDirent + name.size();
    if (used + need > kBlock) {
      ++full_blocks;
      used = 0;
    }
    used += need;
  });
  return full_blocks * kBlock + used;
}

Bytes encode_directory(const Node& directory, uint64_t own_nid, uint64_t parent_nid,
                       const std::function<DirectoryEntry(NodeId)>& entry_of) {
  struct Pending {
    std::string_view name;
    DirectoryEntry entry;
  };
  std::vector<Pending> block;  // entries of the block being filled
  size_t used = 0;
  Bytes data;
  Writer out(data);
  const auto flush = [&](bool last) {
    const size_t start = out.size();
    size_t name_offset = block.size() * kDirent;
    for (const auto& [name, entry] : block) {
      out.u64(entry.nid);
      out.u16(static_cast<uint16_t>(name_offset));
      switch (entry.type) {
        case Type::Regular:
          out.u8(1);
          break;
        case Type::Directory:
          out.u8(2);
          break;
        case Type::Fifo:
          out.u8(5);
          break;
        case Type::Symlink:
          out.u8(7);
          break;
      }
      out.u8(0);
      name_offset += name.size();
    }
    for (const auto& [name, entry] : block) out.text(name);
    if (!last) out.zeros(kBlock - (out.size() - start));
    block.clear();
    used = 0;
  };
  each_entry(directory, [&](std::string_view name, const NodeId* child) {
    const size_t need = kDirent + name.size();
    if (used + need > kBlock) flush(false);
    used += need;
    DirectoryEntry entry;
    if (child != nullptr)
      entry = entry_of(*child);
    else
      entry.nid = name.size() == 1 ? own_nid : parent_nid;
    block.push_back({name, entry});
  });
  flush(true);
  return data;
}

}
