#include "mvm/sys/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::sys {

TEST(File, AtomicWriteReplacesContentAndLeavesNoOtherFile) {
  const TempDir dir;
  const std::string path = dir.path() + "/state";
  write_file_atomic(path, as_bytes("old"));
  write_file_atomic(path, as_bytes("new"), 0640);
  EXPECT_EQ(read_text_file(path, 100), "new");
  EXPECT_EQ(list_directory(dir.path()), std::vector<std::string>{"state"});
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(File, AtomicWriteReplacesASymlinkAndNotItsTarget) {
  const TempDir dir;
  write_file_atomic(dir.path() + "/victim", as_bytes("precious"));
  ASSERT_EQ(::symlink("victim", (dir.path() + "/state").c_str()), 0);
  write_file_atomic(dir.path() + "/state", as_bytes("new"));
  EXPECT_EQ(read_text_file(dir.path() + "/victim", 100), "precious");
  EXPECT_EQ(read_text_file(dir.path() + "/state", 100), "new");
}

TEST(File, ReadsUpToItsLimitAndRefusesMore) {
  const TempDir dir;
  const std::string path = dir.path() + "/f";
  write_file_atomic(path, as_bytes("12345"));
  EXPECT_EQ(read_text_file(path, 5), "12345");
  EXPECT_THROW(read_text_file(path, 4), Error);
}

TEST(File, ReadsProcFilesThatStateNoSize) {
  EXPECT_NE(read_text_file("/proc/self/status", 1 << 16).find("Pid:"), std::string::npos);
}

TEST(File, OpenNamesThePathInItsError) {
  try {
    open_file("/nonexistent/file", O_RDONLY);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.message(), "opening /nonexistent/file: No such file or directory");
    EXPECT_EQ(error.kind(), Kind::NotFound);
  }
  EXPECT_FALSE(open_if_exists("/nonexistent/file", O_RDONLY));
}

TEST(File, RemoveTreeDoesNotFollowSymlinks) {
  const TempDir dir;
  make_directories(dir.path() + "/keep");
  write_file_atomic(dir.path() + "/keep/file", as_bytes("x"));
  make_directories(dir.path() + "/tree/a/b");
  ASSERT_EQ(::symlink((dir.path() + "/keep").c_str(), (dir.path() + "/tree/a/link").c_str()), 0);
  remove_tree(dir.path() + "/tree");
  EXPECT_FALSE(exists(dir.path() + "/tree"));
  EXPECT_TRUE(exists(dir.path() + "/keep/file"));
  remove_tree(dir.path() + "/tree");  // absent is fine
}

TEST(File, MakeDirectoriesRefusesAFileInTheWay) {
  const TempDir dir;
  write_file_atomic(dir.path() + "/file", as_bytes("x"));
  EXPECT_THROW(make_directories(dir.path() + "/file"), SystemError);
  EXPECT_THROW(make_directories(dir.path() + "/file/below"), SystemError);
}

TEST(File, LockIsHeldByOneAndFreedByDropping) {
  const TempDir dir;
  auto first = try_lock_file(dir.path() + "/lock");
  ASSERT_TRUE(first);
  EXPECT_FALSE(try_lock_file(dir.path() + "/lock"));
  first.reset();
  EXPECT_TRUE(try_lock_file(dir.path() + "/lock"));
}

}
