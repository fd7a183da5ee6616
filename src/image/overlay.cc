// mkfs.ext4 is not on the path of a start: it runs once for each size, and a disk is a copy of the
// few hundred KiB that it wrote (the figures are in overlay.h).
//
// What the file system is made with, and why:
//   a small journal      A sandbox may be killed at any moment, and be started again: for its disk
//                        that is a power failure. Without a journal ext4 writes directories in any
//                        order, and is found damaged (and read-only) after it. The journal's blocks
//                        are not written by mkfs: the file reads as zeros there already.
//   assume_storage_prezeroed   A sparse file reads as zeros, so inode tables need not be written:
//   not
//                        by mkfs, and not by the guest's kernel after the first mount (which would
//                        fill the file with them). e2fsprogs before 1.47 do not know it; there
//                        lazy_itable_init leaves the tables to the guest.
//   nodiscard            No time goes into telling a sparse file to be sparse.
//   -m 0                 No reserve: the guest's root owns the disk anyway.
//   -i 16384             An inode for each 16 KiB: trees of small files (node_modules) fit.
//   ^resize_inode,       The disk never grows; without reserved descriptor blocks the template is
//                        half as large.
//   64bit, metadata_csum as by default; a fixed UUID and hash seed, so that a template is the same
//                        bytes each time.

#include "mvm/image/overlay.h"

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/random.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"
#include "mvm/sys/uninterrupted.h"

#include "copy_file.h"

namespace mvm::image {

static constexpr uint64_t kMiB = uint64_t{1} << 20;
// Part of a template's name: raise it when the options below change.
static constexpr std::string_view kTemplateVersion = "3";
static constexpr std::chrono::seconds kMkfsTimeout{60};

static uint64_t checked_size(uint64_t size) {
  if (size < kMinOverlay || size > kMaxOverlay)
    throw Error(Kind::Invalid, "a disk of " + format_size(size) + " is out of bounds: " +
                                   format_size(kMinOverlay) + " to " + format_size(kMaxOverlay));
  return (size + kMiB - 1) / kMiB * kMiB;
}

static std::string find_mkfs() {
  for (const char* path : {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4",
                           "/run/current-system/sw/bin/mkfs.ext4"})
    if (::access(path, X_OK) == 0) return path;
  throw Error(Kind::Unavailable,
              "this host has no mkfs.ext4, which makes a sandbox's disk; install e2fsprogs");
}

static constexpr const char* kPrezeroed = "lazy_itable_init=0,assume_storage_prezeroed=1";
static constexpr const char* kLazy = "lazy_itable_init=1";

// The least that mkfs takes is 4 MiB. More than that is for disks on which more is written at once;
// all of it is the host's space in the end.
static uint64_t journal_mib(uint64_t size) { return size < 512 * kMiB ? 4 : 16; }

// Runs mkfs.ext4; its complaint, or nothing.
static std::optional<std::string> run_mkfs(const std::string& path, uint64_t size,
                                           const std::string& tables) {
  const sys::Fd log = sys::memory_file("mkfs", 0);
  const sys::Fd null = sys::open_file("/dev/null", O_RDWR);
  const std::string extended = tables +
                               ",lazy_journal_init=1,nodiscard,root_owner=0:0,hash_seed=6d766d6f-"
                               "7665-726c-6179-6861736865e1";
  sys::SpawnOptions options;
  options.argv = std::vector<std::string>{find_mkfs(),
                                          "-q",
                                          "-F",
                                          "-b",
                                          "4096",
                                          "-m",
                                          "0",
                                          "-i",
                                          "16384",
                                          "-O",
                                          "^resize_inode",
                                          "-J",
                                          "size=" + std::to_string(journal_mib(size)),
                                          "-E",
                                          extended,
                                          "-U",
                                          "6d766d6f-7665-726c-6179-000000000001",
                                          path,
                                          std::to_string(size / 1024) + "k"};
  // The time that mke2fs writes into the superblock, fixed for the same bytes each time.
  options.env = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SOURCE_DATE_EPOCH=0",
                 "E2FSPROGS_FAKE_TIME=1"};
  options.fds = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  options.die_with_parent = true;
  sys::Child child = sys::spawn(options);
  const auto status = child.wait(kMkfsTimeout);
  if (!status) {
    child.signal(SIGKILL);
    child.wait();
    throw Error(Kind::Timeout, "mkfs.ext4 did not end in time");
  }
  if (status->code == 0 && status->signal == 0) return std::nullopt;
  const std::string text =
      sys::read_text_file("/proc/self/fd/" + std::to_string(log.get()), size_t{64} << 10);
  return status->text() + ": " + printable(text, 1000);
}

static void make_file_system(const std::string& path, uint64_t size) {
  if (!run_mkfs(path, size, kPrezeroed)) return;
  if (const auto complaint = run_mkfs(path, size, kLazy))
    throw Error(Kind::Internal, "mkfs.ext4: " + *complaint);
}

// The template of this size, made when it is missing.
static std::string ensure_template(const store::Paths& paths, uint64_t size) {
  const std::string path = paths.overlays_dir() + "/" + std::to_string(size / kMiB) + "m-" +
                           std::string(kTemplateVersion) + ".img";
  sys::require_own_file(path);
  // One that a disk has cut off is made anew.
  if (const auto made = sys::open_if_exists(path, O_RDONLY);
      made && sys::file_size(made->get()) == size)
    return path;
  const std::string fresh = crypto::random_id(path + ".new-", 12);
  ScopeExit undo([&] { ::unlink(fresh.c_str()); });
  {
    const sys::Fd fd = sys::open_file(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    sys::resize_file(fd.get(), size, "sizing " + fresh);
    make_file_system(fresh, size);
    sys::check(sys::uninterrupted([&] { return ::fsync(fd.get()); }), "syncing " + fresh);
  }
  // Two that make the same template at once: the later one replaces equal bytes.
  sys::check(::rename(fresh.c_str(), path.c_str()), "renaming to " + path);
  undo.release();
  return path;
}

void prepare_overlay(const store::Paths& paths, uint64_t size) {
  ensure_template(paths, checked_size(size));
}

void create_overlay(const store::Paths& paths, uint64_t size, const std::string& destination) {
  const std::string source = ensure_template(paths, checked_size(size));
  while_doing("making the disk", [&] { copy_file(source, destination); });
}

}
