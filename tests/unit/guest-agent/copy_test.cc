// Copies in and out, as the host sees them and as they lie on disk.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "client.h"

namespace mvm::guest {

using proto::CopyResult;
using proto::Entry;
using proto::EntryType;
using proto::FrameType;
using proto::GetRequest;
using proto::PutRequest;

static Entry entry(EntryType type, std::string path, uint32_t mode, std::string target = "") {
  return {type, mode, 0, 0, 1700000000, 123456789, 0, std::move(path), std::move(target)};
}

static void add_file(Bytes& stream, const std::string& path, std::string_view content,
                     uint32_t mode = 0644) {
  proto::append_entry(stream, entry(EntryType::File, path, mode));
  for (ByteView rest = as_bytes(content); !rest.empty();) {
    const ByteView chunk = rest.first(std::min(rest.size(), proto::kMaxChunk));
    proto::append_chunk(stream, chunk);
    rest = rest.subspan(chunk.size());
  }
  proto::append_content_end(stream);
}

static Bytes one_file(std::string_view content, uint32_t mode = 0644) {
  Bytes stream;
  add_file(stream, "", content, mode);
  proto::append_tree_end(stream);
  return stream;
}

static Outcome put(Client& client, const PutRequest& request, const Bytes& stream) {
  const uint32_t id = client.request(request.encode());
  client.send_data(id, stream);
  if (!client.ended(id)) client.send(id, FrameType::Eof);
  return client.finish(id);
}

static PutRequest to(std::string path, std::string name = "") {
  PutRequest request;
  request.path = std::move(path);
  request.name = std::move(name);
  return request;
}

static std::string content_of(const std::string& path) {
  return sys::read_text_file(path, 64 << 20);
}

static struct stat status_of(const std::string& path) {
  struct stat status{};
  sys::check(::lstat(path.c_str(), &status), "lstat " + path);
  return status;
}

static std::string link_at(const std::string& path) {
  std::string target(4096, '\0');
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  target.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return target;
}

TEST(Put, WritesAFileWithItsModeAndTime) {
  Client client;
  const sys::TempDir directory;
  const std::string path = directory.path() + "/file";
  const auto outcome = put(client, to(path), one_file("hello\n", 0751));
  EXPECT_EQ(outcome.copied, (CopyResult{1, 6, 0}));
  EXPECT_EQ(content_of(path), "hello\n");
  EXPECT_EQ(status_of(path).st_mode & 07777, 0751U);
  EXPECT_EQ(status_of(path).st_mtim.tv_sec, 1700000000);
  EXPECT_EQ(status_of(path).st_mtim.tv_nsec, 123456789);
  EXPECT_EQ(status_of(path).st_uid, ::geteuid());
}

TEST(Put, GoesIntoADirectoryUnderItsName) {
  Client client;
  const sys::TempDir directory;
  put(client, to(directory.path(), "name"), one_file("x"));
  EXPECT_EQ(content_of(directory.path() + "/name"), "x");
  put(client, to(directory.path() + "/", "other"), one_file("y"));
  EXPECT_EQ(content_of(directory.path() + "/other"), "y");
  // Not a directory yet, so it becomes that.
  put(client, to(directory.path() + "/new", "ignored"), one_file("z"));
  EXPECT_EQ(content_of(directory.path() + "/new"), "z");
}

TEST(Put, ReplacesWholeFilesAndLinksButNothingElse) {
  Client client;
  const sys::TempDir directory;
  const std::string path = directory.path() + "/file";
  const std::string other = directory.path() + "/other";
  sys::write_file_atomic(other, as_bytes("keep"));
  ASSERT_EQ(::symlink(other.c_str(), path.c_str()), 0);
  EXPECT_TRUE(put(client, to(path), one_file("new")).copied);
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(content_of(other), "keep");  // not written through the link
  EXPECT_TRUE(S_ISREG(status_of(path).st_mode));

  ASSERT_EQ(::mkdir((directory.path() + "/dir").c_str(), 0755), 0);
  EXPECT_EQ(put(client, to(directory.path(), "dir"), one_file("x")).error.value().kind,
            Kind::Conflict);
  ASSERT_EQ(::mkfifo((directory.path() + "/fifo").c_str(), 0644), 0);
  EXPECT_EQ(put(client, to(directory.path() + "/fifo"), one_file("x")).error.value().kind,
            Kind::Conflict);
  EXPECT_EQ(sys::list_directory(directory.path()),
            (std::vector<std::string>{"dir", "fifo", "file", "other"}));  // and no temporary file
}

TEST(Put, LeavesTheOldFileToThoseWhoHoldIt) {
  Client client;
  const sys::TempDir directory;
  const std::string path = directory.path() + "/file";
  const std::string same = directory.path() + "/same";
  sys::write_file_atomic(path, as_bytes("old"));
  ASSERT_EQ(::link(path.c_str(), same.c_str()), 0);
  EXPECT_TRUE(put(client, to(path), one_file("new")).copied);
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(content_of(same), "old");
  EXPECT_EQ(status_of(same).st_nlink, 1U);
  EXPECT_EQ(sys::list_directory(directory.path()), (std::vector<std::string>{"file", "same"}));
}

// A directory that comes where a file was a moment ago: it may be in the way, it is never removed.
TEST(Put, NeverTakesADirectoryForTheOldFile) {
  Client client;
  const sys::TempDir directory;
  const std::string path = directory.path() + "/file";
  const std::string aside = directory.path() + "/aside";
  sys::write_file_atomic(path, as_bytes("old"));
  sys::make_directories(aside, 0755);
  sys::write_file_atomic(aside + "/kept", as_bytes("kept"));
  std::atomic<bool> stop{false};
  std::thread racer([&] {
    while (!stop)
      ::syscall(SYS_renameat2, AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_EXCHANGE);
  });
  for (int round = 0; round < 300; ++round) {
    const auto outcome = put(client, to(directory.path(), "file"), one_file("new"));
    EXPECT_TRUE(outcome.error || outcome.copied);
  }
  stop = true;
  racer.join();
  EXPECT_EQ(sys::list_directory(directory.path()), (std::vector<std::string>{"aside", "file"}));
  const bool swapped = S_ISDIR(status_of(path).st_mode);
  EXPECT_EQ(content_of((swapped ? path : aside) + "/kept"), "kept");
}

TEST(Put, SaysWhatIsWrongWithTheDestination) {
  Client client;
  const sys::TempDir directory;
  const auto absent = put(client, to(directory.path() + "/no/such"), one_file("x")).error.value();
  EXPECT_EQ(absent.kind, Kind::NotFound);
  EXPECT_EQ(absent.message, "opening " + directory.path() + "/no: No such file or directory");
  EXPECT_EQ(put(client, to(directory.path() + "/no/", "x"), one_file("x")).error.value().message,
            "no directory " + directory.path() + "/no");
  PutRequest request = to(directory.path() + "/a/b/c");
  request.make_parents = true;
  EXPECT_TRUE(put(client, request, one_file("deep")).copied);
  EXPECT_EQ(content_of(directory.path() + "/a/b/c"), "deep");
  request = to(directory.path() + "/d/e/", "f");
  request.make_parents = true;
  EXPECT_TRUE(put(client, request, one_file("dir")).copied);
  EXPECT_EQ(content_of(directory.path() + "/d/e/f"), "dir");
  request = to("/", "x");
  request.user = "nobody-of-this-name";
  EXPECT_EQ(put(client, request, one_file("x")).error.value().kind, Kind::Invalid);
}

static Bytes small_tree() {
  Bytes stream;
  proto::append_entry(stream, entry(EntryType::Directory, "", 0750));
  add_file(stream, "a", "A");
  proto::append_entry(stream, entry(EntryType::Directory, "read-only", 0555));
  add_file(stream, "read-only/b", "B", 0400);
  proto::append_entry(stream, entry(EntryType::Directory, "read-only/deep", 0700));
  add_file(stream, "read-only/deep/c", "");
  proto::append_entry(stream, entry(EntryType::Symlink, "link", 0777, "../../outside"));
  add_file(stream, "z", "Z");
  proto::append_tree_end(stream);
  return stream;
}

TEST(Put, WritesATree) {
  Client client;
  const sys::TempDir directory;
  const std::string root = directory.path() + "/tree";
  const auto outcome = put(client, to(root), small_tree());
  EXPECT_EQ(outcome.copied, (CopyResult{8, 3, 0}));
  EXPECT_EQ(content_of(root + "/a"), "A");
  EXPECT_EQ(content_of(root + "/read-only/b"), "B");
  EXPECT_EQ(content_of(root + "/read-only/deep/c"), "");
  EXPECT_EQ(content_of(root + "/z"), "Z");
  EXPECT_EQ(link_at(root + "/link"), "../../outside");
  EXPECT_EQ(status_of(root).st_mode & 07777, 0750U);
  EXPECT_EQ(status_of(root + "/read-only").st_mode & 07777, 0555U);
  // The directory's time is the copied one, though files were written into it since.
  EXPECT_EQ(status_of(root).st_mtim.tv_sec, 1700000000);
  EXPECT_EQ(status_of(root + "/read-only").st_mtim.tv_sec, 1700000000);
  ::chmod((root + "/read-only").c_str(), 0755);
}

TEST(Put, MergesIntoADirectoryAndLeavesItsMetadata) {
  Client client;
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/kept", as_bytes("k"));
  ::chmod(directory.path().c_str(), 0700);
  EXPECT_TRUE(put(client, to(directory.path()), small_tree()).copied);
  EXPECT_EQ(content_of(directory.path() + "/kept"), "k");
  EXPECT_EQ(content_of(directory.path() + "/read-only/b"), "B");
  EXPECT_EQ(status_of(directory.path()).st_mode & 07777, 0700U);
  ::chmod((directory.path() + "/read-only").c_str(), 0755);
}

// A process of the sandbox plants links where the copy is about to write.
TEST(Put, FollowsNoLinkBelowTheDestination) {
  Client client;
  const sys::TempDir directory;
  const sys::TempDir outside;
  sys::write_file_atomic(outside.path() + "/victim", as_bytes("untouched"));
  ASSERT_EQ(::symlink(outside.path().c_str(), (directory.path() + "/read-only").c_str()), 0);
  ASSERT_EQ(::symlink((outside.path() + "/victim").c_str(), (directory.path() + "/a").c_str()), 0);
  const auto outcome = put(client, to(directory.path()), small_tree());
  ASSERT_TRUE(outcome.error);  // read-only is a link, not a directory
  EXPECT_EQ(content_of(directory.path() + "/a"), "A");
  EXPECT_EQ(content_of(outside.path() + "/victim"), "untouched");
  EXPECT_EQ(sys::list_directory(outside.path()), std::vector<std::string>{"victim"});

  // The stream itself brings a link and then writes "through" it.
  Bytes stream;
  proto::append_entry(stream, entry(EntryType::Directory, "", 0755));
  proto::append_entry(stream, entry(EntryType::Symlink, "l", 0777, outside.path()));
  add_file(stream, "l/planted", "evil");
  proto::append_tree_end(stream);
  EXPECT_TRUE(put(client, to(directory.path() + "/t2"), stream).error);
  EXPECT_EQ(sys::list_directory(outside.path()), std::vector<std::string>{"victim"});
}

// The same against a racer: a directory of the tree is swapped for a link all the time.
TEST(Put, HoldsAgainstARacingSandbox) {
  Client client;
  const sys::TempDir directory;
  const sys::TempDir outside;
  const std::string target = directory.path() + "/tree";
  const std::string victim = target + "/d";
  const std::string link = directory.path() + "/link";
  sys::make_directories(victim);
  ASSERT_EQ(::symlink(outside.path().c_str(), link.c_str()), 0);
  std::atomic<bool> stop{false};
  std::thread racer([&] {
    while (!stop)
      ::syscall(SYS_renameat2, AT_FDCWD, victim.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
  });
  int refused = 0;
  for (int round = 0; round < 40; ++round) {
    Bytes stream;
    proto::append_entry(stream, entry(EntryType::Directory, "", 0755));
    for (int i = 0; i < 8; ++i) {
      proto::append_entry(stream, entry(EntryType::Directory, "d", 0755));
      add_file(stream, "d/f" + std::to_string(i), "content");
    }
    proto::append_tree_end(stream);
    const auto outcome = put(client, to(target), stream);
    EXPECT_TRUE(outcome.error || outcome.copied);
    refused += outcome.error ? 1 : 0;
  }
  stop = true;
  racer.join();
  std::printf("%d of 40 copies met the link\n", refused);
  EXPECT_EQ(sys::list_directory(outside.path()), std::vector<std::string>{});
}

TEST(Put, SetsTheOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Client client;
  const sys::TempDir directory;
  Bytes stream;
  Entry file = entry(EntryType::File, "", 06755);
  file.uid = 1234;
  file.gid = 4321;
  proto::append_entry(stream, file);
  proto::append_content_end(stream);
  proto::append_tree_end(stream);
  const std::string path = directory.path() + "/f";
  put(client, to(path), stream);
  EXPECT_EQ(status_of(path).st_uid, 0U);
  EXPECT_EQ(status_of(path).st_mode & 07777, 0755U);  // another owner: not set-id for that one
  PutRequest request = to(path);
  request.user = "12345:54321";
  put(client, request, stream);
  EXPECT_EQ(status_of(path).st_uid, 12345U);
  EXPECT_EQ(status_of(path).st_gid, 54321U);
  request.preserve_owner = true;
  put(client, request, stream);
  EXPECT_EQ(status_of(path).st_uid, 1234U);
  EXPECT_EQ(status_of(path).st_gid, 4321U);
  EXPECT_EQ(status_of(path).st_mode & 07777, 06755U);
}

TEST(Put, LeavesNothingHalfDone) {
  const sys::TempDir directory;
  Bytes half;
  proto::append_entry(half, entry(EntryType::File, "", 0644));
  proto::append_chunk(half, as_bytes("half"));
  {
    Client client;
    const auto early = put(client, to(directory.path() + "/f"), half);
    EXPECT_EQ(early.error.value().message, "the copy's data ended early");
    const uint32_t cancelled = client.request(to(directory.path() + "/f").encode());
    client.send_data(cancelled, half);
    client.send(cancelled, FrameType::Cancel);
    EXPECT_EQ(client.finish(cancelled).error.value().kind, Kind::Unavailable);
    const Bytes garbage(100, std::byte{0x77});
    EXPECT_EQ(put(client, to(directory.path() + "/f"), garbage).error.value().kind, Kind::Invalid);
    const uint32_t lost = client.request(to(directory.path() + "/f").encode());
    client.send_data(lost, half);
    client.ping();
    EXPECT_EQ(sys::list_directory(directory.path()).size(), 1U);  // the temporary one
    client.hang_up();
  }
  EXPECT_EQ(sys::list_directory(directory.path()), std::vector<std::string>{});
}

// ---- get --------------------------------------------------------------------------------------

// A stream as lines: "dir d 755", "file d/f 644 content", "link l -> target".
static std::vector<std::string> read_stream(const Bytes& data) {
  std::vector<std::string> lines;
  proto::EntryDecoder decoder;
  ByteView rest = data;
  while (const auto event = decoder.next(rest)) {
    const Entry& one = event->entry;
    char mode[16];
    std::snprintf(mode, sizeof mode, " %o", one.mode);
    if (event->what == proto::EntryEvent::What::Content) {
      lines.back() += as_text(event->content);
    } else if (event->what == proto::EntryEvent::What::Entry) {
      if (one.type == EntryType::Directory) lines.push_back("dir " + one.path + mode);
      if (one.type == EntryType::File) lines.push_back("file " + one.path + mode + " ");
      if (one.type == EntryType::Symlink) lines.push_back("link " + one.path + " -> " + one.target);
    }
  }
  EXPECT_TRUE(decoder.finished());
  std::sort(lines.begin(), lines.end());
  return lines;
}

static Outcome get(Client& client, const std::string& path, bool follow = false) {
  return client.finish(client.request(GetRequest{path, follow}.encode()));
}

TEST(Get, ReadsAFile) {
  Client client;
  const sys::TempDir directory;
  const std::string path = directory.path() + "/f";
  sys::write_file_atomic(path, as_bytes("content"), 0640);
  const auto outcome = get(client, path);
  EXPECT_EQ(outcome.copied, (CopyResult{1, 7, 0}));
  EXPECT_EQ(read_stream(outcome.data), std::vector<std::string>{"file  640 content"});
}

TEST(Get, ReadsATreeAndSkipsWhatIsNoFile) {
  Client client;
  const sys::TempDir directory;
  const std::string root = directory.path();
  ::chmod(root.c_str(), 0755);
  sys::make_directories(root + "/d/e", 0755);
  ::chmod((root + "/d").c_str(), 0755);
  ::chmod((root + "/d/e").c_str(), 0700);
  sys::write_file_atomic(root + "/d/e/f", as_bytes("F"), 0600);
  sys::write_file_atomic(root + "/empty", {}, 0644);
  ASSERT_EQ(::symlink("/etc", (root + "/out").c_str()), 0);
  ASSERT_EQ(::mkfifo((root + "/fifo").c_str(), 0644), 0);
  const auto outcome = get(client, root + "/");
  EXPECT_EQ(outcome.copied, (CopyResult{6, 1, 1}));
  EXPECT_EQ(read_stream(outcome.data),
            (std::vector<std::string>{"dir  755", "dir d 755", "dir d/e 700", "file d/e/f 600 F",
                                      "file empty 644 ", "link out -> /etc"}));
}

TEST(Get, FollowsTheNamedLinkOnlyWhenAsked) {
  Client client;
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/f", as_bytes("F"), 0644);
  ASSERT_EQ(::symlink("f", (directory.path() + "/l").c_str()), 0);
  EXPECT_EQ(read_stream(get(client, directory.path() + "/l").data),
            std::vector<std::string>{"link  -> f"});
  EXPECT_EQ(read_stream(get(client, directory.path() + "/l", true).data),
            std::vector<std::string>{"file  644 F"});
}

TEST(Get, SaysWhatIsWrong) {
  Client client;
  const auto absent = get(client, "/no/such").error.value();
  EXPECT_EQ(absent.kind, Kind::NotFound);
  EXPECT_EQ(absent.message, "reading /no/such: No such file or directory");
  EXPECT_EQ(get(client, "/dev/null").error.value().kind, Kind::Unsupported);
}

TEST(Get, DoesNotEnterMounts) {
  Client client;
  // /proc below / would never end; /dev/shm or /dev/pts below /dev are mounts here.
  const auto outcome = get(client, "/dev");
  ASSERT_TRUE(outcome.copied) << outcome.error.value().message;
  for (const auto& line : read_stream(outcome.data)) EXPECT_NE(line.substr(0, 8), "dir pts ");
}

TEST(Get, WaitsForCredit) {
  Client client;
  const sys::TempDir directory;
  const std::string content(3 << 20, 'c');
  sys::write_file_atomic(directory.path() + "/big", as_bytes(content));
  const uint32_t id = client.request(GetRequest{directory.path() + "/big", false}.encode());
  client.set_reading(id, false);
  client.run_until([&] { return client.outcome(id).data.size() == proto::kInitialWindow; });
  client.ping();
  EXPECT_EQ(client.outcome(id).data.size(), proto::kInitialWindow);
  client.set_reading(id, true);
  const auto outcome = client.finish(id);
  EXPECT_EQ(outcome.copied, (CopyResult{1, content.size(), 0}));
  EXPECT_TRUE(read_stream(outcome.data).front().ends_with(content));
}

TEST(Copy, RoundTripsATreeOfManyFiles) {
  Client client;
  const sys::TempDir directory;
  const std::string from = directory.path() + "/from";
  for (int i = 0; i < 500; ++i) {
    const std::string below = from + "/d" + std::to_string(i % 25);
    sys::make_directories(below, 0755);
    sys::write_file_atomic(below + "/f" + std::to_string(i),
                           as_bytes(std::string(static_cast<size_t>(i * 13), 'x')), 0644);
  }
  const auto out = get(client, from);
  ASSERT_TRUE(out.copied);
  EXPECT_EQ(out.copied->entries, 526U);
  EXPECT_TRUE(put(client, to(directory.path() + "/to"), out.data).copied);
  EXPECT_EQ(read_stream(get(client, directory.path() + "/to").data), read_stream(out.data));
}

}
