#pragma once
// A file's digest of which parts can be computed apart, in any order and by several processors:
//
//   piece   SHA-256 of 1 MiB of the file; the last piece may be shorter
//   file    SHA-256 of "mvm tree 1\n", the file's size (64 bits, little-endian) and the digests of
//           its pieces
//
// The size fixes the tree's shape, so two files have one digest only where SHA-256 collides.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/crypto/hash.h"

namespace mvm::crypto {

inline constexpr size_t kTreePiece = size_t{1} << 20;

// `pieces` are all of the file's.
Digest tree_of_pieces(uint64_t size, std::span<const Digest> pieces);

// Of all that the file has.
struct FilePieces {
  uint64_t size = 0;
  std::vector<Digest> pieces;
};
FilePieces pieces_of_file(int fd, const std::function<void(uint64_t)>& progress = {});

// Like sha256_of_file.
Digest tree_of_file(int fd, const std::function<void(uint64_t)>& progress = {});

}
