// What counts as a change of a flake's files, and what does not.
#include "mvm/build/watch.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"

namespace mvm::build {
namespace {

using std::chrono::milliseconds;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() {
    sys::make_directories(at("deep/er"), 0755);
    write("flake.nix", "{}");
    write("deep/er/file", "1");
  }
  std::string at(const std::string& path) const { return base_.path() + "/" + path; }
  void write(const std::string& path, const std::string& text) const {
    const sys::Fd fd = sys::open_file(at(path), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    sys::write_all(fd.get(), as_bytes(text));
  }
  void git(std::vector<std::string> words) const {
    words.insert(words.begin(), {"/usr/bin/git", "-C", base_.path(), "-c", "user.name=t", "-c",
                                 "user.email=t@example.org"});
    sys::SpawnOptions options;
    options.argv = std::move(words);
    options.env = {"PATH=/usr/bin:/bin", "HOME=/nonexistent"};
    const sys::Fd null = sys::open_file("/dev/null", O_RDWR);
    options.fds = {{null.get(), 0}, {null.get(), 1}, {2, 2}};
    ASSERT_EQ(sys::spawn(options).wait()->code, 0);
  }
  // Whether anything counted; what did not leaves the interrupt, which is there already, first.
  static bool changed(SourceWatch& watch) {
    const sys::Fd interrupt(::eventfd(1, EFD_CLOEXEC));
    return watch.wait(interrupt.get(), milliseconds(0), milliseconds(0));
  }

  const sys::TempDir base_;
};

TEST_F(WatchTest, OfAFolderSeesAllOfIt) {
  SourceWatch watch({find_source(base_.path(), "")});
  EXPECT_FALSE(changed(watch));
  write("deep/er/file", "2");
  EXPECT_TRUE(changed(watch));
  EXPECT_FALSE(changed(watch));
  ASSERT_EQ(::unlink(at("deep/er/file").c_str()), 0);
  EXPECT_TRUE(changed(watch));
  ASSERT_EQ(::chmod(at("flake.nix").c_str(), 0755), 0);
  EXPECT_TRUE(changed(watch));
  ASSERT_EQ(::rename(at("deep").c_str(), at("other").c_str()), 0);
  EXPECT_TRUE(changed(watch));
}

TEST_F(WatchTest, OfAFolderSeesWhatIsNewInIt) {
  SourceWatch watch({find_source(base_.path(), "")});
  sys::make_directories(at("new/folder"), 0755);
  EXPECT_TRUE(changed(watch));
  write("new/folder/file", "x");
  EXPECT_TRUE(changed(watch));
}

TEST_F(WatchTest, OfARepositorySeesWhatGitTracks) {
  git({"init", "-q"});
  git({"add", "flake.nix", "deep"});
  SourceWatch watch({find_source(base_.path(), "")});
  EXPECT_FALSE(changed(watch));
  // What a build asks git for is no change.
  find_source(base_.path(), "");
  write("untracked", "x");
  write("deep/er/.file.swp", "x");
  EXPECT_FALSE(changed(watch));
  write("deep/er/file", "2");
  EXPECT_TRUE(changed(watch));
  git({"add", "untracked"});
  EXPECT_TRUE(changed(watch));
}

TEST_F(WatchTest, WaitsUntilItIsQuietAndNoLonger) {
  SourceWatch watch({find_source(base_.path(), "")});
  write("flake.nix", "{ }");
  EXPECT_TRUE(watch.wait(-1, milliseconds(1), milliseconds(5000)));
  EXPECT_FALSE(changed(watch));
}

}
}
