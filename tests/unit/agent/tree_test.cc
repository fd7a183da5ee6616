// Entry streams that an enemy wrote, and what they leave on disk.
#include "mvm/agent/tree.h"

#include <atomic>
#include <cstdio>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/file.h"

#include "peer.h"

namespace mvm::agent {

using proto::Entry;
using proto::EntryType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

static Entry entry(EntryType type, std::string path, uint32_t mode, std::string target = "") {
  Entry made;
  made.type = type;
  made.mode = mode;
  made.mtime_seconds = 1700000000;
  made.mtime_nanoseconds = 5;
  made.path = std::move(path);
  made.target = std::move(target);
  return made;
}

// Builds a stream; unlike proto's own functions it also builds what no decoder may take.
class Stream {
 public:
  Stream& raw_entry(EntryType type, std::string_view path, std::string_view target = "") {
    Writer out(bytes_);
    out.u8(static_cast<uint8_t>(type));
    out.u32(0755);
    out.zeros(4 + 4 + 8 + 4 + 8);
    out.u16(static_cast<uint16_t>(path.size()));
    out.u16(static_cast<uint16_t>(target.size()));
    out.text(path);
    out.text(target);
    if (type == EntryType::File) proto::append_content_end(bytes_);
    return *this;
  }
  Stream& directory(std::string path, uint32_t mode = 0755) {
    proto::append_entry(bytes_, entry(EntryType::Directory, std::move(path), mode));
    return *this;
  }
  Stream& link(std::string path, std::string target) {
    proto::append_entry(bytes_,
                        entry(EntryType::Symlink, std::move(path), 0777, std::move(target)));
    return *this;
  }
  Stream& file(std::string path, std::string_view content, uint32_t mode = 0644) {
    proto::append_entry(bytes_, entry(EntryType::File, std::move(path), mode));
    if (!content.empty()) proto::append_chunk(bytes_, as_bytes(content));
    proto::append_content_end(bytes_);
    return *this;
  }
  Bytes end() {
    proto::append_tree_end(bytes_);
    return bytes_;
  }
  Bytes open() { return bytes_; }

 private:
  Bytes bytes_;
};

// base/ holds dest/, where copies go, and victim/, where none may.
class TreeWriting : public testing::Test {
 protected:
  TreeWriting() {
    sys::make_directories(dest_);
    sys::make_directories(victim_);
    sys::write_file_atomic(victim_ + "/file", as_bytes("untouched"));
  }
  ~TreeWriting() override {
    EXPECT_EQ(text(victim_ + "/file"), "untouched");
    EXPECT_THAT(sys::list_directory(victim_), ElementsAre("file"));
    EXPECT_THAT(sys::list_directory(base_.path()), ElementsAre("dest", "victim"));
  }
  static std::string text(const std::string& path) { return sys::read_text_file(path, 1 << 20); }
  static struct stat status(const std::string& path) {
    struct stat found{};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
    return found;
  }
  void write(const Bytes& stream, const std::string& name = "", TreeWriteOptions options = {}) {
    TreeWriter writer(dest_, name, options);
    writer.take(stream);
  }
  Error refused(const Bytes& stream, const std::string& name = "", TreeWriteOptions options = {}) {
    return error_of([&] { write(stream, name, options); });
  }

  sys::TempDir base_;
  std::string dest_ = base_.path() + "/dest";
  std::string victim_ = base_.path() + "/victim";
};

TEST_F(TreeWriting, MergesATreeIntoADirectory) {
  write(Stream().directory("").directory("a").file("a/one", "1").file("two", "22").end());
  EXPECT_EQ(text(dest_ + "/a/one"), "1");
  EXPECT_EQ(text(dest_ + "/two"), "22");
  EXPECT_EQ(status(dest_ + "/two").st_mtim.tv_sec, 1700000000);
  EXPECT_EQ(status(dest_ + "/two").st_mtim.tv_nsec, 5);
  EXPECT_EQ(status(dest_ + "/a").st_mtim.tv_sec, 1700000000);
}

TEST_F(TreeWriting, TakesAStreamByteByByte) {
  TreeWriter writer(dest_, "tree", {});
  for (const std::byte byte : Stream().directory("").file("x", "content").end())
    writer.take(ByteView(&byte, 1));
  EXPECT_TRUE(writer.complete());
  EXPECT_EQ(text(dest_ + "/tree/x"), "content");
}

TEST_F(TreeWriting, RefusesPathsThatLeaveTheTree) {
  for (const std::string_view path :
       {"../victim/file", "/etc/passwd", "a/../../victim/file", "..", ".", "a//b", "a/", "./x"}) {
    const Error error = refused(Stream().directory("").raw_entry(EntryType::File, path).end());
    EXPECT_THAT(error.message(), HasSubstr("garbage")) << path;
  }
  EXPECT_THAT(sys::list_directory(dest_), IsEmpty());
}

TEST_F(TreeWriting, DoesNotGoThroughALinkOfTheSameStream) {
  const Error error =
      refused(Stream().directory("").link("way", victim_).file("way/file", "overwritten").end());
  EXPECT_EQ(error.kind(), Kind::Denied);
  EXPECT_THAT(error.message(), HasSubstr("way is a symbolic link"));
}

TEST_F(TreeWriting, DoesNotMakeADirectoryOfALink) {
  const Error error = refused(Stream().directory("").link("way", victim_).directory("way").end());
  EXPECT_EQ(error.kind(), Kind::Denied);
}

TEST_F(TreeWriting, DoesNotGoThroughAnOlderLink) {
  ASSERT_EQ(::symlink("../victim", (dest_ + "/way").c_str()), 0);
  const Bytes stream = Stream().directory("").file("file", "overwritten").end();
  EXPECT_EQ(refused(stream, "way").kind(), Kind::Denied);
}

TEST_F(TreeWriting, ReplacesALinkToAFileAndNotItsTarget) {
  ASSERT_EQ(::symlink("../victim/file", (dest_ + "/notes").c_str()), 0);
  ASSERT_EQ(::symlink("../victim/not-yet", (dest_ + "/draft").c_str()), 0);
  write(Stream().file("", "new").end(), "notes");
  write(Stream().file("", "new").end(), "draft");
  EXPECT_TRUE(S_ISREG(status(dest_ + "/notes").st_mode));
  EXPECT_EQ(text(dest_ + "/notes"), "new");
  EXPECT_EQ(text(dest_ + "/draft"), "new");
}

TEST_F(TreeWriting, ReplacesALinkAtTheDestinationItself) {
  ASSERT_EQ(::symlink("../victim/file", (dest_ + "/notes").c_str()), 0);
  TreeWriter writer(dest_ + "/notes", "ignored", {});
  writer.take(Stream().file("", "new").end());
  EXPECT_EQ(text(dest_ + "/notes"), "new");
}

TEST_F(TreeWriting, LeavesALinkAsItCame) {
  write(Stream().directory("").link("out", victim_ + "/file").link("out", "elsewhere").end());
  std::array<char, 64> target{};
  const ssize_t length = ::readlink((dest_ + "/out").c_str(), target.data(), target.size());
  EXPECT_EQ(std::string_view(target.data(), static_cast<size_t>(length)), "elsewhere");
}

TEST_F(TreeWriting, LetsTheSecondOfTwoFilesOfOneNameWin) {
  write(Stream().directory("").file("x", "first").file("x", "second").end());
  EXPECT_EQ(text(dest_ + "/x"), "second");
  EXPECT_THAT(sys::list_directory(dest_), ElementsAre("x"));
}

TEST_F(TreeWriting, RefusesAFileBelowAFile) {
  EXPECT_EQ(refused(Stream().directory("").file("x", "1").file("x/y", "2").end()).kind(),
            Kind::Conflict);
  EXPECT_EQ(refused(Stream().file("", "1").file("y", "2").end(), "z").kind(), Kind::Unavailable);
}

TEST_F(TreeWriting, RefusesAFileInThePlaceOfADirectoryAndTheReverse) {
  sys::make_directories(dest_ + "/d");
  sys::write_file_atomic(dest_ + "/f", as_bytes("old"));
  EXPECT_EQ(refused(Stream().file("", "x").end(), "d").kind(), Kind::Conflict);
  EXPECT_EQ(refused(Stream().link("", "x").end(), "d").kind(), Kind::Conflict);
  EXPECT_EQ(refused(Stream().directory("").end(), "f").kind(), Kind::Conflict);
  EXPECT_EQ(text(dest_ + "/f"), "old");
}

TEST_F(TreeWriting, RefusesToReplaceWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((dest_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused(Stream().file("", "x").end(), "pipe").kind(), Kind::Conflict);
  EXPECT_TRUE(S_ISFIFO(status(dest_ + "/pipe").st_mode));
}

TEST_F(TreeWriting, RefusesADirectoryThatIsMissing) {
  EXPECT_EQ(error_of([&] { TreeWriter(dest_ + "/no/way", "x", {}); }).kind(), Kind::NotFound);
  TreeWriter writer(dest_ + "/new/", "x", {});
  EXPECT_EQ(error_of([&] { writer.take(Stream().file("", "x").end()); }).kind(), Kind::NotFound);
  TreeWriter tree(dest_ + "/new/", "x", {});
  tree.take(Stream().directory("").file("x", "1").end());
  EXPECT_EQ(text(dest_ + "/new/x"), "1");
}

TEST_F(TreeWriting, DropsSetIdBitsUnlessAsked) {
  const Bytes stream = Stream().directory("", 02755).file("x", "1", 04755).end();
  write(stream, "plain");
  EXPECT_EQ(status(dest_ + "/plain").st_mode & 07000, 0U);
  EXPECT_EQ(status(dest_ + "/plain/x").st_mode & 07000, 0U);
  if (::geteuid() != 0) return;  // only root may set the entries' owner
  TreeWriteOptions options;
  options.archive = true;
  write(stream, "exact", options);
  EXPECT_EQ(status(dest_ + "/exact").st_mode & 07777, 02755U);
  EXPECT_EQ(status(dest_ + "/exact/x").st_mode & 07777, 04755U);
}

TEST_F(TreeWriting, CutsModesByTheUmask) {
  const mode_t before = ::umask(027);
  write(Stream().directory("", 0777).file("x", "1", 0666).end(), "t");
  ::umask(before);
  EXPECT_EQ(status(dest_ + "/t").st_mode & 0777, 0750U);
  EXPECT_EQ(status(dest_ + "/t/x").st_mode & 0777, 0640U);
}

TEST_F(TreeWriting, FillsADirectoryThatIsReadOnly) {
  write(Stream().directory("", 0500).directory("d", 0).file("d/x", "1", 0400).end(), "t");
  EXPECT_EQ(status(dest_ + "/t").st_mode & 0777, 0500U);
  EXPECT_EQ(status(dest_ + "/t/d").st_mode & 0777, 0U);
  ::chmod((dest_ + "/t").c_str(), 0700);
  ::chmod((dest_ + "/t/d").c_str(), 0700);
  EXPECT_EQ(status(dest_ + "/t/d/x").st_mode & 0777, 0400U);
}

TEST_F(TreeWriting, LeavesAnOlderDirectoryItsMode) {
  ASSERT_EQ(::chmod(dest_.c_str(), 0751), 0);
  write(Stream().directory("", 0).file("x", "1").end());
  EXPECT_EQ(status(dest_).st_mode & 0777, 0751U);
}

TEST_F(TreeWriting, KeepsToItsLimitOfEntries) {
  TreeWriteOptions options;
  options.max_entries = 3;
  write(Stream().directory("").file("a", "").file("b", "").end(), "fits", options);
  const Error error =
      refused(Stream().directory("").file("a", "").file("b", "").file("c", "").end(), "t", options);
  EXPECT_EQ(error.kind(), Kind::Exhausted);
  EXPECT_FALSE(sys::exists(dest_ + "/t/c"));
}

TEST_F(TreeWriting, KeepsToItsLimitOfBytes) {
  TreeWriteOptions options;
  options.max_bytes = 10;
  write(Stream().file("", "0123456789").end(), "fits", options);
  EXPECT_EQ(text(dest_ + "/fits"), "0123456789");
  EXPECT_EQ(refused(Stream().file("", "0123456789x").end(), "t", options).kind(), Kind::Exhausted);
  EXPECT_THAT(sys::list_directory(dest_), ElementsAre("fits"));
}

TEST_F(TreeWriting, CountsHolesAgainstItsLimitOfBytes) {
  TreeWriteOptions options;
  options.max_bytes = 1 << 20;
  Bytes stream;
  proto::append_entry(stream, entry(EntryType::File, "", 0644));
  proto::append_hole(stream, 1 << 20);
  proto::append_hole(stream, 1);
  EXPECT_EQ(refused(stream, "t", options).kind(), Kind::Exhausted);
  EXPECT_THAT(sys::list_directory(dest_), IsEmpty());
}

TEST_F(TreeWriting, LeavesNoHalfFile) {
  sys::write_file_atomic(dest_ + "/x", as_bytes("old"));
  {
    Bytes stream;
    proto::append_entry(stream, entry(EntryType::File, "", 0644));
    proto::append_chunk(stream, as_bytes("new"));
    TreeWriter writer(dest_, "x", {});
    writer.take(stream);
    EXPECT_EQ(sys::list_directory(dest_).size(), 2U);
    EXPECT_FALSE(writer.complete());
  }
  EXPECT_THAT(sys::list_directory(dest_), ElementsAre("x"));
  EXPECT_EQ(text(dest_ + "/x"), "old");
}

TEST_F(TreeWriting, KeepsHolesAsHoles) {
  Bytes stream;
  const Bytes zeros(size_t{64} << 10);
  proto::append_entry(stream, entry(EntryType::File, "", 0644));
  proto::append_chunk(stream, as_bytes("head"));
  for (int i = 0; i < 64; ++i) proto::append_chunk(stream, zeros);
  proto::append_content_end(stream);
  proto::append_tree_end(stream);
  write(stream, "sparse");
  const auto found = status(dest_ + "/sparse");
  EXPECT_EQ(found.st_size, 4 + 64 * static_cast<off_t>(zeros.size()));
  EXPECT_LT(found.st_blocks * 512, found.st_size / 2);
  const Bytes content = sys::read_file(dest_ + "/sparse", 8 << 20);
  EXPECT_EQ(as_text(ByteView(content).first(4)), "head");
  EXPECT_EQ(std::count(content.begin() + 4, content.end(), std::byte{0}),
            static_cast<std::ptrdiff_t>(content.size() - 4));
}

TEST_F(TreeWriting, TakesTheDeepestPathAndNoDeeper) {
  Stream stream;
  stream.directory("");
  std::string path = "d";
  for (size_t depth = 1; depth < proto::kMaxCopyDepth; ++depth, path += "/d")
    stream.directory(path);
  stream.file(path, "deep");
  write(stream.end());
  EXPECT_EQ(text(dest_ + "/" + path), "deep");
  const Bytes deeper = Stream().directory("").raw_entry(EntryType::File, path + "/d").end();
  EXPECT_EQ(refused(deeper).kind(), Kind::Unavailable);
}

TEST_F(TreeWriting, ComesBackToADirectoryItHasLeft) {
  write(
      Stream().directory("").directory("a").directory("b").file("a/x", "1").file("b/y", "2").end());
  EXPECT_EQ(text(dest_ + "/a/x"), "1");
  EXPECT_EQ(text(dest_ + "/b/y"), "2");
}

// Somebody on this side exchanges a directory for a link to another place, again and again; that
// nothing gets there is what the fixture looks at.
TEST_F(TreeWriting, HoldsAgainstARaceOnThisSide) {
  const std::string contested = dest_ + "/d";
  const std::string link = dest_ + "/link";
  ASSERT_EQ(::mkdir(contested.c_str(), 0755), 0);
  ASSERT_EQ(::symlink(victim_.c_str(), link.c_str()), 0);
  std::atomic<bool> stop{false};
  std::thread racer([&] {
    while (!stop) ::renameat2(AT_FDCWD, contested.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
  });
  Stream stream;
  stream.directory("");
  for (int i = 0; i < 8; ++i) {
    const std::string number = std::to_string(i);
    stream.directory("d")
        .file("d/f" + number, "content")
        .directory("d/e" + number)
        .file(number, "");
  }
  const Bytes bytes = stream.end();
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    try {
      write(bytes);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), Kind::Internal) << error.message();
      ++refused;
    }
  }
  stop = true;
  racer.join();
  std::printf("%d of 40 copies met the link\n", refused);
}

TEST(CopyName, IsTheLastComponentThatIsOne) {
  EXPECT_EQ(copy_name("a/b"), "b");
  EXPECT_EQ(copy_name("/a/b//"), "b");
  EXPECT_EQ(copy_name("file"), "file");
  for (const char* path : {"/", "//", ".", "..", "a/.", "a/..", "./", ""})
    EXPECT_EQ(copy_name(path), "") << path;
}

}
