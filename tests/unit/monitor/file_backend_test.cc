#include "../../../src/monitor/file_backend.h"

#include <array>
#include <cstring>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"

namespace mvm::monitor {

using virtio::BlockResult;

static iovec segment(std::string& text) { return {text.data(), text.size()}; }

TEST(FileBackend, MovesSegmentsBothWays) {
  const sys::TempDir dir;
  FileBackend disk(sys::open_file(dir.path() + "/disk", O_RDWR | O_CREAT));
  std::string a = "hello ", b = "world";
  const std::array<iovec, 2> out = {segment(a), segment(b)};
  EXPECT_EQ(disk.write(3, out), BlockResult::Ok);
  EXPECT_EQ(disk.flush(), BlockResult::Ok);
  std::string c(2, 0), d(9, 0);
  const std::array<iovec, 2> in = {segment(c), segment(d)};
  EXPECT_EQ(disk.read(3, in), BlockResult::Ok);
  EXPECT_EQ(c + d, "hello world");
}

TEST(FileBackend, FailsAtTheEndOfAFileThatShrank) {
  const sys::TempDir dir;
  FileBackend disk(sys::open_file(dir.path() + "/disk", O_RDWR | O_CREAT));
  std::string text = "12345";
  const std::array<iovec, 1> segments = {segment(text)};
  EXPECT_EQ(disk.write(0, segments), BlockResult::Ok);
  std::string more(6, 0);
  const std::array<iovec, 1> past = {segment(more)};
  EXPECT_EQ(disk.read(0, past), BlockResult::Failed);
}

TEST(FileBackend, FailsToWriteAFileOpenedForReading) {
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/disk", as_bytes("12345"));
  FileBackend disk(sys::open_file(dir.path() + "/disk", O_RDONLY));
  std::string text = "x";
  const std::array<iovec, 1> segments = {segment(text)};
  EXPECT_EQ(disk.write(0, segments), BlockResult::Failed);
  EXPECT_EQ(sys::read_text_file(dir.path() + "/disk", 10), "12345");
}

TEST(FileBackend, ReportsAFullDisk) {
  FileBackend disk(sys::open_file("/dev/full", O_RDWR));
  std::string text = "x";
  const std::array<iovec, 1> segments = {segment(text)};
  EXPECT_EQ(disk.write(0, segments), BlockResult::Failed);
}

}
