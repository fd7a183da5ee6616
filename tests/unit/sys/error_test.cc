#include "mvm/sys/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"

namespace mvm::sys {

static Kind kind_of_opening(const std::string& path, int flags) {
  try {
    open_file(path, flags);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << path << " was opened";
  return Kind::Internal;
}

// What stands at a path is its owner's doing, and no fault of ours.
TEST(SystemErrors, OfWhatStandsAtAPathAreNotInternal) {
  const TempDir dir;
  const std::string file = dir.path() + "/file";
  write_file_atomic(file, as_bytes("x"));
  ASSERT_EQ(::symlink("loop", (dir.path() + "/loop").c_str()), 0);
  EXPECT_EQ(kind_of_opening(file + "/below", O_RDONLY), Kind::Conflict);
  EXPECT_EQ(kind_of_opening(file, O_RDONLY | O_DIRECTORY), Kind::Conflict);
  EXPECT_EQ(kind_of_opening(dir.path(), O_WRONLY), Kind::Conflict);
  EXPECT_EQ(kind_of_opening(dir.path() + "/loop", O_RDONLY), Kind::Conflict);
  EXPECT_EQ(kind_of_opening(dir.path() + "/" + std::string(300, 'n'), O_RDONLY), Kind::Invalid);
}

}
