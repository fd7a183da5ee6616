#include "mvm/crypto/tree_hash.h"

#include <array>
#include <string_view>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"

namespace mvm::crypto {

static constexpr std::string_view kName = "mvm tree 1\n";

Digest tree_of_pieces(uint64_t size, std::span<const Digest> pieces) {
  MVM_ASSERT(pieces.size() == size / kTreePiece + (size % kTreePiece != 0 ? 1 : 0));
  std::array<std::byte, 8> length{};
  for (size_t i = 0; i < length.size(); ++i) length.at(i) = static_cast<std::byte>(size >> (8 * i));
  Sha256 file;
  file.update(as_bytes(kName));
  file.update(length);
  for (const Digest& piece : pieces) file.update(piece);
  return file.finish();
}

FilePieces pieces_of_file(int fd, const std::function<void(uint64_t)>& progress) {
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  Bytes buffer(kTreePiece);
  FilePieces file;
  uint64_t& done = file.size;
  while (true) {
    size_t have = 0;
    while (have < buffer.size()) {
      const size_t got = sys::pread_some(fd, std::span(buffer).subspan(have), done + have);
      if (got == 0) break;
      have += got;
    }
    if (have == 0) return file;
    file.pieces.push_back(sha256(ByteView(buffer).first(have)));
    done += have;
    if (progress) progress(done);
  }
}

Digest tree_of_file(int fd, const std::function<void(uint64_t)>& progress) {
  const FilePieces file = pieces_of_file(fd, progress);
  return tree_of_pieces(file.size, file.pieces);
}

}
