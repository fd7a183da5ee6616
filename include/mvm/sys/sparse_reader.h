#pragma once
// A regular file from front to back, its holes told apart from its data where the file system can
// tell (SEEK_DATA and SEEK_HOLE of lseek(2)). What changes meanwhile is read one way or the other.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <sys/stat.h>

#include "mvm/sys/fd.h"

namespace mvm::sys {

class SparseReader {
 public:
  SparseReader() = default;
  // `status` is the file's: only one with fewer blocks than bytes is searched for holes.
  SparseReader(Fd file, const struct stat& status);
  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  void reset() noexcept { *this = SparseReader(); }

  // Data, or a hole; neither at the end of the file.
  struct Piece {
    size_t bytes = 0;
    uint64_t hole = 0;
  };
  // At most `most` of a hole at once. Throws SystemError.
  Piece next(std::span<std::byte> into, uint64_t most);
  // The same, with the data, at most `room` bytes, moved into a pipe that takes them. Nothing when
  // the file system cannot do so.
  std::optional<Piece> next_into_pipe(int pipe, size_t room, uint64_t most);

 private:
  // A hole, or what `read` says of the data at offset_, of which it is given the length.
  template <typename Read>
  Piece next_piece(size_t room, uint64_t most, Read&& read);
  // Where the hole ends that starts at offset_; offset_ itself when there is none. Learns how far
  // the data behind it goes.
  uint64_t hole_end();

  Fd file_;
  uint64_t offset_ = 0;
  uint64_t data_end_ = 0;  // up to here it is data, as far as is known
};

}
