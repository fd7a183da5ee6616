#pragma once
// Files. Paths are the host operator's, never the guest's; content may be anyone's.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"

namespace mvm::sys {

// open(2) with O_CLOEXEC | O_NOCTTY added. The error names the path.
Fd open_file(const std::string& path, int flags, unsigned mode = 0600);
// The same, but nothing when the file does not exist.
std::optional<Fd> open_if_exists(const std::string& path, int flags);
// A file that mvm itself made, at a path that mvm chose: a regular file of ours that has no other
// name. Anything else that somebody may have put there (a symbolic link, a FIFO, a device, a
// directory, another's file, a hard link) is Error{Denied}, and is neither followed, waited for nor
// changed. For reading alone a file of root's, and one with more names, will do. No O_TRUNC: it
// would come before the check.
Fd open_own_file(const std::string& path, int flags, unsigned mode = 0600);
// Throws as open_own_file would for writing; absent is fine. For files that a library opens by
// name.
void require_own_file(const std::string& path);
Fd open_at(int directory, const std::string& name, int flags, unsigned mode = 0600);

uint64_t file_size(int fd);
// ftruncate(2); the error says `doing`.
void resize_file(int fd, uint64_t size, std::string_view doing);
// Zeros there, given back to the file system where it can (else written). The size stays.
void punch_hole(int fd, uint64_t offset, uint64_t length);
// Which file a descriptor stands for, and when it was written to last. Two that are equal have the
// same content, unless the clock was set.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t changed_ns = 0;  // st_ctim
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(int fd);
bool is_regular_file(int fd);
bool is_directory(int fd);
// Throws where that cannot be told: who makes what is missing must not replace what is there.
bool exists(const std::string& path);

// The whole file; throws Error{Exhausted} when it is larger than `limit`.
Bytes read_file(const std::string& path, size_t limit);
std::string read_text_file(const std::string& path, size_t limit);
// A regular file; another is Error{Invalid}, and is not waited for (a FIFO).
std::string read_regular_text_file(const std::string& path, size_t limit);
std::string read_own_text_file(const std::string& path, size_t limit);  // opens as open_own_file

// New file beside it, fsync, rename, fsync of the directory: readers see the old or the new
// content, never a mix.
void write_file_atomic(const std::string& path, ByteView data, unsigned mode = 0600);
void sync_directory(const std::string& path);

// mkdir -p; what it makes gets `mode`. An existing last component must be a directory.
void make_directories(const std::string& path, unsigned mode = 0700);
// Removes the tree below and including `path` without following symbolic links. Absent is fine. A
// lack of descriptors or memory, or what others put in meanwhile, is a failure the third time.
void remove_tree(const std::string& path);
void remove_file(const std::string& path);                         // absent is fine
void rename_file(const std::string& from, const std::string& to);  // replaces `to`
std::vector<std::string> list_directory(const std::string& path);  // sorted, without "." and ".."

// Where data begins at or after `offset`, holes skipped; nothing when there is none up to the end.
std::optional<uint64_t> next_data(int fd, uint64_t offset);

// A descriptor that becomes readable when the file is written to (inotify). drain_watch() makes it
// wait for the next write.
Fd watch_file(const std::string& path);
void drain_watch(int fd);
// The same for a directory: files in it are written to, made or removed, or it is.
Fd watch_directory(const std::string& path);

// An anonymous memory file, CLOEXEC.
Fd memory_file(const char* name, uint64_t size);
// A program in memory, for SpawnOptions::program: nobody can change it any more (memfd seals), and
// all processes that run it share its pages. CLOEXEC. Throws SystemError; EACCES where the system
// forbids such programs (vm.memfd_noexec).
Fd memory_program(const char* name, ByteView program);

// A lock that goes with the process (flock LOCK_EX | LOCK_NB); nothing when somebody else holds it.
std::optional<Fd> try_lock_file(const std::string& path);

// A directory that is removed, with its content, when dropped. For tests and scratch work.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}
