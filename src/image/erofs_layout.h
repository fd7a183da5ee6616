#pragma once
// The on-disk structures of EROFS (Linux fs/erofs/erofs_fs.h), as bytes. All little-endian.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/crypto/hash.h"
#include "mvm/image/tree.h"

namespace mvm::image::erofs {

inline constexpr uint32_t kMagic = 0xe0f5e1e2;
inline constexpr uint32_t kBlock = 4096;
inline constexpr uint32_t kBlockBits = 12;
inline constexpr uint32_t kSlot = 32;  // inodes are named by their slot: nid
inline constexpr uint32_t kSlotsPerBlock = kBlock / kSlot;
inline constexpr uint32_t kSuperOffset = 1024;
inline constexpr uint32_t kCompactInode = 32;
inline constexpr uint32_t kExtendedInode = 64;
inline constexpr uint32_t kDirent = 12;

// What the superblock says.
using Uuid = std::array<std::byte, 16>;
inline constexpr size_t kUuidOffset = kSuperOffset + 48;
struct Super {
  uint16_t root_nid = 0;
  uint64_t inodes = 0;
  int64_t build_time = 0;
  uint32_t build_time_nsec = 0;
  uint32_t blocks = 0;
  uint32_t meta_block = 0;
  Uuid uuid{};
  bool chunked_files = false;
};
// Block 0, checksum included.
Bytes super_block(const Super& super);
// Writes the checksum of a block 0 into it.
void put_checksum(std::span<std::byte> block);
// The UUID of an image: a name for all its bytes (`digest`, taken while its UUID is zero) and for
// `identity`.
Uuid uuid_of(const crypto::Digest& digest, std::string_view identity);

// Everything of an inode's head that is not derived from the node.
struct InodePlan {
  bool compact = false;
  uint64_t size = 0;
  uint32_t links = 0;
  uint32_t number = 0;    // for 32-bit stat
  uint32_t location = 0;  // block address, or chunk format
  Extent::Layout layout = Extent::Layout::Plain;
  uint32_t xattr_size = 0;
};
void put_inode(Writer& out, const Node& node, const InodePlan& plan);

// The inline extended attributes of an inode, header included; empty when there are none.
Bytes encode_xattrs(const Attributes& attributes);
// What names begin with that are stored under this number; nothing for one that we do not write.
std::optional<std::string_view> xattr_prefix(uint8_t index);

// One directory, written as data blocks: entries sorted by name, "." and ".." among them. The size
// depends on names alone. The last block is cut to what is used.
uint64_t directory_size(const Node& directory);
struct DirectoryEntry {
  uint64_t nid = 0;
  Type type = Type::Directory;
};
Bytes encode_directory(const Node& directory, uint64_t own_nid, uint64_t parent_nid,
                       const std::function<DirectoryEntry(NodeId)>& entry_of);

uint32_t crc32c(uint32_t crc, ByteView data);

}
