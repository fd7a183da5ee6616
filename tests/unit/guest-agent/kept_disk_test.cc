#include "kept_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::guest {

class CopyTree : public testing::Test {
 protected:
  CopyTree() {
    sys::make_directories(from_);
    sys::make_directories(to_);
  }
  void copy() const {
    copy_tree(sys::open_file(from_, O_RDONLY | O_DIRECTORY).get(),
              sys::open_file(to_, O_RDONLY | O_DIRECTORY).get());
  }
  struct stat status(const std::string& name) const {
    struct stat out{};
    sys::check(::lstat((to_ + "/" + name).c_str(), &out), "looking at " + name);
    return out;
  }

  sys::TempDir base_;
  std::string from_ = base_.path() + "/from";
  std::string to_ = base_.path() + "/to";
};

TEST_F(CopyTree, KeepsContentModesTimesAndLinks) {
  const std::string big(size_t{3} << 20, 'x');
  sys::make_directories(from_ + "/store/a-b/bin", 0755);
  sys::write_file_atomic(from_ + "/store/a-b/bin/tool", as_bytes(big), 0555);
  sys::write_file_atomic(from_ + "/empty", {}, 0600);
  ASSERT_EQ(::symlink("/nowhere/at/all", (from_ + "/store/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((from_ + "/pipe").c_str(), 0600), 0);
  const timespec times[] = {{1, 0}, {1, 5}};
  for (const char* name : {"/store/a-b/bin/tool", "/store/link", "/store/a-b/bin", "/store"})
    ASSERT_EQ(::utimensat(AT_FDCWD, (from_ + name).c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
  ASSERT_EQ(::chmod((from_ + "/store").c_str(), 01775), 0);
  ASSERT_EQ(::chmod((from_ + "/store/a-b").c_str(), 0555), 0);
  copy();
  EXPECT_EQ(sys::read_text_file(to_ + "/store/a-b/bin/tool", 8 << 20), big);
  EXPECT_EQ(status("store/a-b/bin/tool").st_mode & 07777, 0555U);
  EXPECT_EQ(status("store/a-b/bin/tool").st_mtim.tv_nsec, 5);
  EXPECT_EQ(status("store").st_mode & 07777, 01775U);
  EXPECT_EQ(status("store").st_mtim.tv_sec, 1);
  EXPECT_EQ(status("store/a-b").st_mode & 07777, 0555U);
  EXPECT_EQ(status("store/a-b/bin").st_mtim.tv_sec, 1);
  EXPECT_EQ(status("store/link").st_mtim.tv_sec, 1);
  EXPECT_EQ(status("empty").st_size, 0);
  std::string target(64, '\0');
  target.resize(
      static_cast<size_t>(::readlink((to_ + "/store/link").c_str(), target.data(), target.size())));
  EXPECT_EQ(target, "/nowhere/at/all");
  EXPECT_EQ(sys::list_directory(to_), (std::vector<std::string>{"empty", "store"}));
  for (const std::string& root : {from_, to_}) ::chmod((root + "/store/a-b").c_str(), 0755);
}

// A disk is filled once; what is there is never written over.
TEST_F(CopyTree, TakesNothingsPlace) {
  sys::write_file_atomic(from_ + "/file", as_bytes("image's"));
  sys::write_file_atomic(to_ + "/file", as_bytes("kept"));
  EXPECT_THROW(copy(), SystemError);
  EXPECT_EQ(sys::read_text_file(to_ + "/file", 100), "kept");
}

}
