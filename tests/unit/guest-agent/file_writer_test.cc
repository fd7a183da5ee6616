#include "file_writer.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

class FileWriting : public testing::TestWithParam<const char*> {
 protected:
  ~FileWriting() override { sys::remove_file(path_); }
  sys::Fd open() { return sys::open_file(path_, O_WRONLY | O_CREAT | O_EXCL, 0600); }
  std::string content() const { return sys::read_text_file(path_, 64 << 20); }
  static std::string noise(size_t size) {
    std::string out(size, '\0');
    uint32_t state = 7;
    for (char& each : out) each = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return out;
  }

  std::string path_ = std::string(GetParam()) + "/mvm-file-writer-" + std::to_string(::getpid());
};

TEST_P(FileWriting, WritesWhatItIsGivenHoweverItIsCut) {
  FileWriter writer;
  for (const size_t size : {size_t{0}, size_t{1}, FileWriter::kBuffer, FileWriter::kBuffer + 1,
                            2 * FileWriter::kBuffer + 4096, 3 * FileWriter::kBuffer - 1}) {
    const std::string text = noise(size);
    for (const uint64_t guess :
         {uint64_t{0}, FileWriter::kLarge, uint64_t{size}, uint64_t{16} << 20}) {
      writer.begin(open(), guess);
      for (ByteView rest = as_bytes(text); !rest.empty();) {
        const auto piece = rest.first(std::min<size_t>(rest.size(), 100'001));
        writer.write(piece);
        rest = rest.subspan(piece.size());
      }
      writer.finish();
      writer.close();
      EXPECT_TRUE(content() == text) << size << " guessed " << guess;
      sys::remove_file(path_);
    }
  }
}

TEST_P(FileWriting, TakesContentThatIsReadIntoItsRoom) {
  const std::string text = noise(FileWriter::kBuffer + 12345);
  FileWriter writer;
  writer.begin(open(), text.size());
  for (ByteView rest = as_bytes(text); !rest.empty();) {
    const auto room = writer.space();
    ASSERT_FALSE(room.empty());
    const size_t length = std::min({room.size(), rest.size(), size_t{70'000}});
    std::copy_n(rest.begin(), length, room.begin());
    writer.commit(length);
    rest = rest.subspan(length);
  }
  writer.finish();
  writer.close();
  EXPECT_TRUE(content() == text);
}

TEST_P(FileWriting, LeavesHolesWhereTheyAre) {
  constexpr uint64_t kMiB = 1 << 20;
  const std::string text = noise(kMiB);
  FileWriter writer;
  writer.begin(open(), 64 * kMiB);
  writer.write(as_bytes(text));
  writer.hole(8 * kMiB);
  writer.write(as_bytes("odd"));
  writer.hole(8 * kMiB);
  writer.write(as_bytes(text));
  writer.hole(kMiB);
  writer.finish();
  writer.close();
  const std::string hole(8 * kMiB, '\0');
  EXPECT_TRUE(content() == text + hole + "odd" + hole + text + std::string(kMiB, '\0'));
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, static_cast<blkcnt_t>(3 * kMiB));
}

TEST_P(FileWriting, SmallFilesNeedNoRoom) {
  FileWriter writer;
  writer.begin(open(), FileWriter::kLarge - 1);
  EXPECT_TRUE(writer.space().empty());
}

TEST_P(FileWriting, RefusesAFileThatCannotBeSoLong) {
  FileWriter writer;
  writer.begin(open(), UINT64_MAX);
  writer.write(as_bytes("x"));
  EXPECT_THROW(
      {
        for (int i = 0; i < 3; ++i) writer.hole(uint64_t{1} << 62);
      },
      Error);
}

// /dev/shm refuses to write past the cache.
INSTANTIATE_TEST_SUITE_P(, FileWriting, testing::Values("/tmp", "/dev/shm"), [](const auto& place) {
  return std::string(place.index == 0 ? "Disk" : "Memory");
});

}
