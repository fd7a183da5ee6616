#include "mvm/sys/sparse_reader.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::sys {

static constexpr uint64_t kBlock = 512;  // the unit of st_blocks, whatever the file system's
static constexpr uint64_t kEverything = INT64_MAX;

SparseReader::SparseReader(Fd file, const struct stat& status) : file_(std::move(file)) {
  const auto blocks = static_cast<uint64_t>(status.st_blocks);
  if (blocks >= static_cast<uint64_t>(status.st_size) / kBlock) data_end_ = kEverything;
}

uint64_t SparseReader::hole_end() {
  const auto seek = [this](uint64_t from, int whence) {
    return ::lseek(file_.get(), static_cast<off_t>(from), whence);
  };
  const off_t data = seek(offset_, SEEK_DATA);
  if (data < 0) {
    if (errno != ENXIO) {  // it cannot tell
      data_end_ = kEverything;
      return offset_;
    }
    // No data from here on: a hole up to the end, or the end.
    const off_t end = check(seek(0, SEEK_END), "seeking");
    return std::max(offset_, static_cast<uint64_t>(end));
  }
  const off_t end = seek(static_cast<uint64_t>(data), SEEK_HOLE);
  data_end_ = end < 0 ? kEverything : static_cast<uint64_t>(end);
  return static_cast<uint64_t>(data);
}

template <typename Read>
SparseReader::Piece SparseReader::next_piece(size_t room, uint64_t most, Read&& read) {
  Piece piece;
  if (offset_ >= data_end_) {
    const uint64_t end = hole_end();
    piece.hole = std::min(end - offset_, most);
    offset_ += piece.hole;
    if (offset_ < end) data_end_ = offset_;  // look again: the rest of the hole is next
    if (piece.hole > 0) return piece;
    if (offset_ >= data_end_) return piece;
  }
  piece.bytes = read(std::min<uint64_t>(room, data_end_ - offset_));
  offset_ += piece.bytes;
  return piece;
}

SparseReader::Piece SparseReader::next(std::span<std::byte> into, uint64_t most) {
  return next_piece(into.size(), most, [&](size_t length) {
    return pread_some(file_.get(), into.first(length), offset_);
  });
}

std::optional<SparseReader::Piece> SparseReader::next_into_pipe(int pipe, size_t room,
                                                                uint64_t most) {
  bool able = true;
  const Piece piece = next_piece(room, most, [&](size_t length) {
    while (true) {
      auto at = static_cast<off64_t>(offset_);
      const ssize_t got =
          ::splice(file_.get(), &at, pipe, nullptr, length, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      if (errno != EINVAL) throw SystemError(errno, "reading");
      able = false;
      return size_t{0};
    }
  });
  return able ? std::optional(piece) : std::nullopt;
}

}
