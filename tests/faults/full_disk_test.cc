// What the daemon does on a disk that is really full, or nearly: a small tmpfs of the test's own.
#include <cstdlib>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/agent/tree.h"
#include "mvm/audit/log.h"
#include "mvm/audit/verify.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "operations.h"
#include "sample.h"
#include "world.h"

namespace mvm::faults {

// A file system of so many bytes, in a mount namespace of this process, where temporary
// directories are made while this lives.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    sys::check(::unshare(CLONE_NEWNS), "making a mount namespace");
    sys::check(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "parting from mounts");
    const std::string options = std::string("mode=0700,size=") + size;
    sys::check(::mount("tmpfs", place().c_str(), "tmpfs", 0, options.c_str()), "mounting a tmpfs");
    const char* before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    ::setenv("TMPDIR", place().c_str(), 1);
  }
  ~SmallDisk() {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
    ::umount2(place().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Nothing but `left` bytes is free.
  void fill(uint64_t left) {
    const sys::Fd fd = sys::open_file(place() + "/filler", O_WRONLY | O_CREAT | O_TRUNC);
    struct statvfs status{};
    sys::check(::fstatvfs(fd.get(), &status), "looking at a disk");
    const uint64_t free = status.f_bfree * status.f_bsize;
    if (free > left)
      sys::check(::fallocate(fd.get(), 0, 0, static_cast<off_t>(free - left)), "filling a disk");
  }
  void empty() { sys::remove_file(place() + "/filler"); }

 private:
  std::string place() const { return directory_.path(); }

  sys::TempDir directory_;
  std::string before_;
};

static constexpr uint64_t kPage = 4096;

#define NEEDS_MOUNTS() \
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small file system"

TEST(FullDisk, FailsAnOperationInOneLineAndLeavesNothing) {
  NEEDS_MOUNTS();
  SmallDisk disk("64m");
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  int refused = 0;
  for (const Operation& operation : operations()) {
    for (const uint64_t left : {uint64_t{0}, kPage, 8 * kPage, 64 * kPage, 512 * kPage}) {
      if (kSlow && left != 8 * kPage) continue;
      SCOPED_TRACE(std::string(operation.name) + ", with " + std::to_string(left / 1024) +
                   " KiB free");
      operation.before(world);
      disk.fill(left);
      const std::string told = act_and_tell(world, operation);
      ASSERT_TRUE(world.daemon_lives()) << told << "\n" << world.last_words();
      EXPECT_EQ(told.find('\n'), std::string::npos) << told;
      disk.empty();
      // What could not be put down is put down now.
      ASSERT_EQ(world.complaints(), "") << told;
      ASSERT_EQ(undecided(world), "") << told;
      operation.after(world);
      if (told.empty()) break;
      ++refused;
      // And now it works.
      operation.before(world);
      ASSERT_EQ(act_and_tell(world, operation), "");
      operation.after(world);
    }
  }
  EXPECT_GT(refused, kSlow ? 2 : 5);
  std::printf("%d operations were refused\n", refused);
  // What happened is on record, whole, once there is room.
  const audit::Verdict verdict =
      audit::verify_log(world.paths().audit_log("daemon"), audit::LogId("daemon"),
                        audit::read_public_key(world.paths().audit_public_key()));
  EXPECT_TRUE(verdict.ok()) << (verdict.problem ? verdict.problem->what : "");
}

TEST(FullDisk, StartsADaemonOrSaysWhyNot) {
  NEEDS_MOUNTS();
  SmallDisk disk("64m");
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  const auto running = world.client()->create(spec("runs"));
  for (const uint64_t left : {uint64_t{0}, kPage, 8 * kPage, 64 * kPage}) {
    SCOPED_TRACE(std::to_string(left / 1024) + " KiB free");
    world.kill_daemon();
    disk.fill(left);
    if (!world.start()) {
      EXPECT_NE(world.last_words().find("No space left on device"), std::string::npos)
          << world.last_words();
    }
    disk.empty();
    if (!world.daemon_lives()) {
      ASSERT_TRUE(world.start()) << world.last_words();
    }
    ASSERT_EQ(world.complaints(), "");
    EXPECT_EQ(world.client()->sandbox("runs").sandbox_pid, running.sandbox_pid);
  }
  world.client()->remove("runs", true);
}

TEST(FullDisk, EndsACopyOutOfASandbox) {
  NEEDS_MOUNTS();
  SmallDisk disk("8m");
  const sys::TempDir to;
  proto::Entry entry;
  entry.type = proto::EntryType::File;
  entry.mode = 0644;
  Bytes stream;
  proto::append_entry(stream, entry);
  Bytes piece(size_t{64} << 10, std::byte{'x'});
  for (int i = 0; i < 32; ++i) proto::append_chunk(stream, piece);
  proto::append_content_end(stream);
  proto::append_tree_end(stream);
  for (const uint64_t left : {uint64_t{0}, kPage, 64 * kPage}) {
    disk.fill(left);
    try {
      agent::TreeWriter(to.path(), "file", {}).take(stream);
      ADD_FAILURE() << "it fits";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("/file: writing: No space left on device"), std::string::npos)
          << error.message();
    }
    EXPECT_TRUE(sys::list_directory(to.path()).empty());
  }
  disk.empty();
  agent::TreeWriter(to.path(), "file", {}).take(stream);
}

}
