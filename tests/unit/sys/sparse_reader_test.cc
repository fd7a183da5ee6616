#include "mvm/sys/sparse_reader.h"

#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::sys {

constexpr uint64_t kMiB = 1 << 20;

class Sparse : public testing::Test {
 protected:
  // Reads the file as it is now: ".N" for a hole of N MiB, "#N" for N bytes of data.
  std::string read(uint64_t most = UINT64_MAX) const {
    struct stat status{};
    EXPECT_EQ(::fstat(file_.get(), &status), 0);
    SparseReader reader(file_.duplicate(), status);
    std::string out;
    Bytes buffer(64 << 10);
    while (true) {
      const auto piece = reader.next(buffer, most);
      if (piece.hole == 0 && piece.bytes == 0) return out;
      out += piece.hole > 0 ? "." + std::to_string(piece.hole / kMiB)
                            : "#" + std::to_string(piece.bytes);
    }
  }
  void write(uint64_t at, size_t length) const {
    pwrite_all(file_.get(), Bytes(length, std::byte{1}), at);
  }
  void resize(uint64_t size) const {
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(size)), 0);
  }

  TempDir dir_;
  Fd file_ = open_file(dir_.path() + "/file", O_RDWR | O_CREAT | O_EXCL, 0600);
};

TEST_F(Sparse, ReadsHolesBeforeBetweenAndBehindData) {
  write(2 * kMiB, 4096);
  write(8 * kMiB, 65536 + 4096);
  resize(10 * kMiB);
  EXPECT_EQ(read(), ".2#4096.5#65536#4096.1");
}

TEST_F(Sparse, GivesLongHolesInPieces) {
  write(0, 4096);
  resize(5 * kMiB + 4096);
  EXPECT_EQ(read(2 * kMiB), "#4096.2.2.1");
}

TEST_F(Sparse, ReadsFilesThatAreAllDataOrAllHoleOrEmpty) {
  EXPECT_EQ(read(), "");
  resize(3 * kMiB);
  EXPECT_EQ(read(), ".3");
  resize(0);
  write(0, 100);
  EXPECT_EQ(read(), "#100");
}

TEST_F(Sparse, EndsWhereAFileWasCutMeanwhile) {
  write(kMiB, 8192);
  struct stat status{};
  ASSERT_EQ(::fstat(file_.get(), &status), 0);
  SparseReader reader(file_.duplicate(), status);
  Bytes buffer(4096);
  EXPECT_EQ(reader.next(buffer, UINT64_MAX).hole, kMiB);
  EXPECT_EQ(reader.next(buffer, UINT64_MAX).bytes, 4096U);
  resize(kMiB);
  const auto piece = reader.next(buffer, UINT64_MAX);
  EXPECT_EQ(piece.bytes + piece.hole, 0U);
}

}
