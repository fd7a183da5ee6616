#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "erofs_reader.h"
#include "scratch_store.h"

namespace mvm::image {
namespace {

using ::testing::HasSubstr;

class DirectoryImport : public ScratchStore {
 protected:
  DirectoryImport() { sys::make_directories(source()); }
  std::string source() const { return scratch_.path() + "/source"; }
  std::string at(const std::string& path) const { return source() + "/" + path; }
  void write(const std::string& path, const std::string& content) {
    std::ofstream(at(path), std::ios::binary) << content;
  }
  ErofsReader read(const ImportOptions& options = {}) {
    imported_ = import(source(), options);
    expect_fsck_agrees(imported_.image.root);
    return ErofsReader(imported_.image.root);
  }
  Imported imported_;
};

// What the host says of a file is what the image says.
void expect_like_host(const ErofsReader& image, const std::string& host, const std::string& path) {
  struct stat status{};
  ASSERT_EQ(::lstat((host + "/" + path).c_str(), &status), 0) << path;
  const ReadFile& file = image.at(path);
  EXPECT_EQ(file.mode, status.st_mode) << path;
  EXPECT_EQ(file.uid, status.st_uid) << path;
  EXPECT_EQ(file.gid, status.st_gid) << path;
  EXPECT_EQ(file.mtime, status.st_mtim.tv_sec) << path;
  EXPECT_EQ(file.mtime_nsec, status.st_mtim.tv_nsec) << path;
  EXPECT_EQ(file.links, status.st_nlink) << path;
  if (!S_ISDIR(status.st_mode)) {
    EXPECT_EQ(file.size, static_cast<uint64_t>(status.st_size)) << path;
  }
}

TEST_F(DirectoryImport, IsWhatTheHostHas) {
  sys::make_directories(at("sub/deeper"), 0755);
  write("file", "content");
  write("sub/large", std::string(100'000, 'l'));
  write("empty", "");
  write(std::string(255, 'n'), "long name");
  ASSERT_EQ(::link(at("file").c_str(), at("sub/again").c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", at("sub/link").c_str()), 0);
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(at("file").c_str(), 06711), 0);
  const ErofsReader image = read();
  for (const std::string& path :
       std::vector<std::string>{"file", "sub", "sub/deeper", "sub/large", "empty",
                                std::string(255, 'n'), "sub/again", "sub/link", "fifo"})
    expect_like_host(image, source(), path);
  EXPECT_EQ(image.files.size(), 10U);  // and the root
  EXPECT_EQ(image.at("sub/again").nid, image.at("file").nid);
  EXPECT_EQ(image.at("sub/link").content, "/etc/passwd");  // not what it points at
  EXPECT_EQ(image.at("sub/large").content, std::string(100'000, 'l'));
}

TEST_F(DirectoryImport, TenThousandFilesInOneDirectory) {
  for (int i = 0; i < 10'000; ++i) write("file-" + std::to_string(i), std::to_string(i));
  const ErofsReader image = read();
  EXPECT_EQ(image.files.size(), 10'001U);
  for (int i = 0; i < 10'000; i += 37)
    EXPECT_EQ(image.at("file-" + std::to_string(i)).content, std::to_string(i));
}

TEST_F(DirectoryImport, NamesBeforeAndAfterTheDotsAreInOrder) {
  for (const char* name : {"!", "-", "...", ".a", "~", " "}) write(name, name);
  const ErofsReader image = read();  // the reader checks the order
  EXPECT_EQ(image.at("!").content, "!");
  EXPECT_EQ(image.at("...").content, "...");
  EXPECT_EQ(image.at("~").content, "~");
}

TEST_F(DirectoryImport, ASparseFileStaysSmall) {
  const sys::Fd fd = sys::open_file(at("sparse"), O_RDWR | O_CREAT);
  ASSERT_EQ(::ftruncate(fd.get(), 100 << 20), 0);
  sys::pwrite_all(fd.get(), as_bytes("middle"), 50 << 20);
  sys::pwrite_all(fd.get(), as_bytes("end"), (100 << 20) - 3);
  struct stat status{};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  if (status.st_blocks * 512 > 10 << 20) GTEST_SKIP() << "this file system has no holes";
  const ErofsReader image = read();
  std::string expected(100 << 20, '\0');
  expected.replace(50 << 20, 6, "middle");
  expected.replace(expected.size() - 3, 3, "end");
  EXPECT_TRUE(image.at("sparse").content == expected);
  EXPECT_LT(imported_.image.manifest.size, 1U << 20);
}

TEST_F(DirectoryImport, AHugeHoleCostsNeitherTimeNorSpace) {
  const sys::Fd fd = sys::open_file(at("lastlog"), O_RDWR | O_CREAT);
  if (::ftruncate(fd.get(), off_t{1} << 42) != 0) GTEST_SKIP() << "no files of 4 TiB here";
  const Imported imported = import(source());
  EXPECT_EQ(imported.image.manifest.content_bytes, uint64_t{1} << 42);
  EXPECT_LT(imported.image.manifest.size, 1U << 20);
  expect_fsck_agrees(imported.image.root);
}

TEST_F(DirectoryImport, SocketsAreLeftOutWithANote) {
  const sys::Fd listener = sys::listen_unix(at("socket"));
  EXPECT_EQ(read().files.size(), 1U);
  EXPECT_THAT(imported_.notes, ::testing::ElementsAre("1 sockets were left out"));
}

TEST_F(DirectoryImport, UserAttributesAreKept) {
  write("file", "x");
  if (::setxattr(at("file").c_str(), "user.colour", "blue", 4, 0) != 0)
    GTEST_SKIP() << "no user attributes on this file system";
  EXPECT_EQ(read().at("file").xattrs.at("user.colour"), "blue");
}

TEST_F(DirectoryImport, WhatCannotBeReadIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  write("secret", "x");
  ASSERT_EQ(::chmod(at("secret").c_str(), 0), 0);
  const Error error = error_of([&] { import(source()); });
  EXPECT_EQ(error.kind(), Kind::Denied);
  EXPECT_THAT(error.message(), HasSubstr(at("secret")));
  expect_nothing_left();
}

TEST_F(DirectoryImport, AFileThatGrowsWhileItIsReadIsAConflict) {
  write("a", std::string(3 << 20, 'a'));
  store::Images images(paths_);
  const auto grow = [&](uint64_t, std::optional<uint64_t>, Phase phase) {
    // Called in the middle of the file.
    if (phase == Phase::Reading) std::ofstream(at("a"), std::ios::app) << "more";
  };
  const Error error =
      error_of([&] { import_image(images, source(), store::parse_image_name("x"), {}, grow); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_THAT(error.message(), HasSubstr("changed while it was read"));
  expect_nothing_left();
}

TEST_F(DirectoryImport, GivingUpFromTheProgressLeavesNothing) {
  write("a", "a");
  store::Images images(paths_);
  const auto give_up = [](uint64_t, std::optional<uint64_t>, Phase phase) {
    if (phase == Phase::Hashing) throw Error(Kind::Timeout, "enough");
  };
  EXPECT_EQ(error_of([&] {
              import_image(images, source(), store::parse_image_name("x"), {}, give_up);
            }).kind(),
            Kind::Timeout);
  expect_nothing_left();
}

TEST_F(DirectoryImport, NeitherDirectoryNorFileIsRefused) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { import(at("fifo")); }).kind(), Kind::Invalid);
  EXPECT_EQ(error_of([&] { import(at("none")); }).kind(), Kind::NotFound);
}

TEST_F(DirectoryImport, LimitsHold) {
  write("a", std::string(20'000, 'a'));
  ImportOptions options;
  options.limits.content = 10'000;
  EXPECT_EQ(error_of([&] { import(source(), options); }).kind(), Kind::Exhausted);
  expect_nothing_left();
}

// The kernel itself mounts it, where we may ask it to.
TEST_F(DirectoryImport, TheKernelReadsItAlike) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting takes root";
  std::string filesystems = sys::read_text_file("/proc/filesystems", 1 << 16);
  if (filesystems.find("\terofs\n") == std::string::npos) GTEST_SKIP() << "no erofs here";
  sys::make_directories(at("sub"));
  write("sub/small", "small");
  write("large", std::string(1'000'001, 'l'));
  const std::string root = import(source()).image.root;
  const std::string mount = scratch_.path() + "/mount";
  sys::make_directories(mount);
  if (run_tool({"/usr/bin/mount", "-t", "erofs", "-o", "ro,loop", root, mount}) != 0)
    GTEST_SKIP() << "no loop device here";
  EXPECT_EQ(run_tool({"/usr/bin/diff", "-r", source(), mount}), 0);
  EXPECT_EQ(run_tool({"/usr/bin/umount", mount}), 0);
}

}
}
