#pragma once
// File verbs: single operations on files of a sandbox. Trees are copied by put and get (copy.h).
//
// A place is a path, absolute; or, with `root`, a path relative to that directory, and then nothing
// on the way may lead out of it: no "..", link, magic link or mount (openat2(2), RESOLVE_BENEATH,
// RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV). Without `root` ordinary links are followed, for all of
// the sandbox is the caller's; magic links of /proc never are.
//
// Conversations:
//   fs.stat, fs.mkdir, fs.rename, fs.remove: Request; End ok (FileStatus for stat, RemoveResult for
//     remove, else nothing).
//   fs.list: Request; Data frames with records of ListEntry; End ok with ListResult.
//   fs.read: Request; Data frames with content; End ok with ReadResult.
//   fs.write: Request; Data frames with content, Eof; End ok with WriteResult. A Cancel, or the
//   loss
//     of the connection, before Eof leaves an atomic write undone.
//   fs.watch: Request; Data frames with records of WatchEvent until Cancel or until the watched
//     thing is gone; End ok. The first event is Ready: what happens from then on is seen.
// Records are u32 length, little-endian, then a CBOR map; they may be cut anywhere by frames.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/proto/exec.h"

namespace mvm::proto {

inline constexpr std::string_view kStatVerb = "fs.stat";
inline constexpr std::string_view kListVerb = "fs.list";
inline constexpr std::string_view kReadVerb = "fs.read";
inline constexpr std::string_view kWriteVerb = "fs.write";
inline constexpr std::string_view kMakeDirectoryVerb = "fs.mkdir";
inline constexpr std::string_view kRenameVerb = "fs.rename";
inline constexpr std::string_view kRemoveVerb = "fs.remove";
inline constexpr std::string_view kWatchVerb = "fs.watch";

inline constexpr uint64_t kMaxFileSize = uint64_t{1} << 44;  // 16 TiB, ext4's own bound
inline constexpr uint64_t kMaxListEntries = 10'000'000;
inline constexpr size_t kMaxFileName = 255;  // NAME_MAX

struct FilePlace {
  std::string root;  // "" or absolute
  std::string path;  // absolute without a root, else relative; "." is the root itself
  bool operator==(const FilePlace&) const = default;
};

enum class FileType : uint8_t { File, Directory, Symlink, Pipe, Socket, CharDevice, BlockDevice };
std::string_view file_type_name(FileType type);  // "file", "directory", "symlink", "pipe", ...

struct FileStatus {
  FileType type = FileType::File;
  uint32_t mode = 0;  // permission bits, 07777
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t size = 0;
  uint64_t allocated = 0;  // bytes on disk; less than size where the file has holes
  uint64_t inode = 0;
  uint64_t links = 0;
  int64_t mtime_seconds = 0;
  uint32_t mtime_nanoseconds = 0;
  std::string target;  // of a symlink
  bool operator==(const FileStatus&) const = default;

  Bytes encode() const;
  static std::optional<FileStatus> decode(ByteView item) noexcept;
};

struct StatRequest {
  FilePlace place;
  bool follow = false;  // when it is a symbolic link: what it points to
  bool operator==(const StatRequest&) const = default;

  Bytes encode() const;
  static std::optional<StatRequest> decode(ByteView payload) noexcept;
};

struct ListRequest {
  FilePlace place;
  uint64_t limit = 0;  // entries sent at most; 0: kMaxListEntries
  bool operator==(const ListRequest&) const = default;

  Bytes encode() const;
  static std::optional<ListRequest> decode(ByteView payload) noexcept;
};
struct ListEntry {
  std::string name;
  FileStatus status;  // of the entry itself, links not followed
  bool operator==(const ListEntry&) const = default;

  Bytes encode() const;
  static std::optional<ListEntry> decode(ByteView record) noexcept;
};
struct ListResult {
  uint64_t entries = 0;
  bool truncated = false;  // there are more than `limit`
  bool operator==(const ListResult&) const = default;

  Bytes encode() const;
  static std::optional<ListResult> decode(ByteView item) noexcept;
};

struct ReadRequest {
  FilePlace place;
  uint64_t offset = 0;
  std::optional<uint64_t> length;  // nothing: to the end
  bool redact = false;             // as ExecRequest's; not sent
  bool operator==(const ReadRequest&) const = default;

  Bytes encode() const;
  static std::optional<ReadRequest> decode(ByteView payload) noexcept;
};
struct ReadResult {
  uint64_t bytes = 0;  // sent
  uint64_t size = 0;   // of the file, when the read ended
  bool operator==(const ReadResult&) const = default;

  Bytes encode() const;
  static std::optional<ReadResult> decode(ByteView item) noexcept;
};

struct WriteRequest {
  FilePlace place;
  // Nothing: the file is replaced as a whole, by rename, so that a reader sees the old content or
  // the new. Otherwise bytes are written there into the file itself, which is made if need be.
  std::optional<uint64_t> offset;
  bool append = false;            // to the end of the file itself; contradicts `offset`
  bool exclusive = false;         // an existing file is Error{Conflict}
  std::optional<uint32_t> mode;   // else what the file has, or 0644
  std::string user;               // owner of a new file, as in ExecRequest; empty: root
  uint64_t limit = kMaxFileSize;  // bytes of content; more is Error{Exhausted}
  bool sync = false;              // on disk before the End
  bool operator==(const WriteRequest&) const = default;

  Bytes encode() const;
  static std::optional<WriteRequest> decode(ByteView payload) noexcept;
};
struct WriteResult {
  uint64_t bytes = 0;
  bool operator==(const WriteResult&) const = default;

  Bytes encode() const;
  static std::optional<WriteResult> decode(ByteView item) noexcept;
};

struct MakeDirectoryRequest {
  FilePlace place;
  uint32_t mode = 0755;
  bool parents = false;  // missing ones above too; an existing directory is fine then
  std::string user;      // owner of what is made; empty: root
  bool operator==(const MakeDirectoryRequest&) const = default;

  Bytes encode() const;
  static std::optional<MakeDirectoryRequest> decode(ByteView payload) noexcept;
};

struct RenameRequest {
  FilePlace from;              // the root is that of both
  std::string to;              // a path like from.path
  bool keep_existing = false;  // `to` exists: Error{Conflict}
  bool operator==(const RenameRequest&) const = default;

  Bytes encode() const;
  static std::optional<RenameRequest> decode(ByteView payload) noexcept;
};

struct RemoveRequest {
  FilePlace place;
  bool recursive = false;  // a directory with all below it; other file systems are not entered
  bool operator==(const RemoveRequest&) const = default;

  Bytes encode() const;
  static std::optional<RemoveRequest> decode(ByteView payload) noexcept;
};
struct RemoveResult {
  uint64_t entries = 0;
  bool operator==(const RemoveResult&) const = default;

  Bytes encode() const;
  static std::optional<RemoveResult> decode(ByteView item) noexcept;
};

struct WatchRequest {
  FilePlace place;  // a file, or a directory: then its entries, not what is below them
  bool operator==(const WatchRequest&) const = default;

  Bytes encode() const;
  static std::optional<WatchRequest> decode(ByteView payload) noexcept;
};
enum class WatchKind : uint8_t {
  Ready,
  Created,
  Modified,    // content
  Attributes,  // mode, owner, times, links
  Removed,
  MovedFrom,
  MovedTo,
  Closed,    // by somebody who wrote
  Gone,      // the watched thing itself; the last event
  Overflow,  // events were lost: look for yourself
};
inline constexpr std::array<std::string_view, 10> kWatchKinds{
    "ready",      "created",  "modified", "attributes", "removed",
    "moved_from", "moved_to", "closed",   "gone",       "overflow"};
struct WatchEvent {
  WatchKind kind = WatchKind::Ready;
  std::string name;     // of the entry; empty: the watched thing itself
  uint32_t cookie = 0;  // joins MovedFrom and MovedTo
  bool operator==(const WatchEvent&) const = default;

  Bytes encode() const;
  static std::optional<WatchEvent> decode(ByteView record) noexcept;
};

// ---- records --------------------------------------------------------------------------------

inline constexpr size_t kMaxRecord = 16 * 1024;

void append_record(Bytes& out, ByteView record);  // at most kMaxRecord

// Cuts Data into records, however frames cut it. Holds at most one.
class RecordDecoder {
 public:
  // The next record, valid until the next call, with what it used removed from the front of `data`.
  // Nothing when all of `data` is used up, or after a fault.
  std::optional<ByteView> next(ByteView& data);
  bool faulted() const { return faulted_; }
  bool midway() const { return !held_.empty() && !taken_; }

 private:
  Bytes held_;
  bool taken_ = false;  // held_ was handed out
  bool faulted_ = false;
};

}
