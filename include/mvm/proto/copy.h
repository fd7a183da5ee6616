#pragma once
// Copying files and trees between the host and a sandbox.
//
// put: Request{put}, then Data frames with an entry stream; End ok with CopyResult when all of it
// is in place. An Eof before the stream's end asks for a lane: a connection of the copy's own, on
// which the rest comes as it is, without frames. The server names the port where it waits for that
// one connection of the host's, in an Event{lane}. get: Request{get}; the server sends Data frames
// with an entry stream, then End ok with CopyResult. Data is credit-bound both ways, so neither
// side holds more than a window.
//
// The entry stream, little-endian, without padding:
//   entry   = u8 type, u32 mode, u32 uid, u32 gid, i64 mtime seconds, u32 mtime nanoseconds,
//             u64 size, u16 path length, u16 target length, path, target
//   content = { chunk | hole }, u32 0        after a file's entry only
//   chunk   = u32 length (1 to kMaxChunk), bytes
//   hole    = u32 kHoleMark, u64 length (1 to kMaxHole)      zeros, which need no space
//   end     = u8 0
// The path is relative; the first entry's is empty: it is the thing copied itself. A directory
// comes before what is in it. Content comes in chunks and `size` is a hint, because a file may
// change while it is read. Nothing in a stream names a place outside the tree: the decoder refuses
// such paths.

#include <cstdint>
#include <optional>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/proto/exec.h"

namespace mvm::proto {

inline constexpr size_t kMaxChunk = 1 << 20;
inline constexpr uint32_t kHoleMark = 0xffff'ffff;
inline constexpr uint64_t kMaxHole = uint64_t{1} << 40;  // longer ones are several
inline constexpr size_t kMaxCopyDepth = 128;             // components of an entry's path

enum class EntryType : uint8_t { File = 1, Directory = 2, Symlink = 3 };

struct Entry {
  EntryType type = EntryType::File;
  uint32_t mode = 0;  // permission bits, 07777
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t mtime_seconds = 0;
  uint32_t mtime_nanoseconds = 0;
  uint64_t size = 0;   // a hint
  std::string path;    // "" for the first, else "a/b"
  std::string target;  // of a symlink
  bool operator==(const Entry&) const = default;
};

// "a/b" with ordinary components only: not empty, no "." or "..", no leading or double slash, no
// NUL, bounded in length and depth.
bool is_tree_path(std::string_view path) noexcept;

// Encoding; Error{Invalid} where the decoder would refuse it.
void append_entry(Bytes& out, const Entry& entry);
void append_chunk(Bytes& out, ByteView content);    // 1 to kMaxChunk bytes
void append_chunk_head(Bytes& out, size_t length);  // of a chunk whose bytes follow
void append_hole(Bytes& out, uint64_t length);      // 1 to kMaxHole
void append_content_end(Bytes& out);
void append_tree_end(Bytes& out);

struct EntryEvent {
  enum class What { Entry, Content, Hole, ContentEnd, TreeEnd };
  What what = What::TreeEnd;
  Entry entry;        // with Entry
  ByteView content;   // with Content; a view into the data given to next()
  uint64_t hole = 0;  // with Hole: its length
};

// Takes an entry stream apart, however it was cut into Data frames. Holds at most one entry's
// header.
class EntryDecoder {
 public:
  // The next event, with the bytes it used removed from the front of `data`. Nothing when all of
  // `data` is used up, or after a fault.
  std::optional<EntryEvent> next(ByteView& data);
  // What is left of the chunk that is being taken apart: so much more content, which the caller may
  // read by itself and skip() here.
  size_t content_left() const { return state_ == State::Chunk ? chunk_left_ : 0; }
  void skip(size_t length);
  // Within a file's content and between chunks: what is left of the next one's length. Who reads no
  // more than that at once has all content in content_left().
  size_t chunk_head_left() const { return state_ == State::ChunkLength ? 4 - held_.size() : 0; }
  bool faulted() const { return state_ == State::Fault; }
  bool finished() const { return state_ == State::Done; }  // the tree's end was seen

 private:
  enum class State { Header, ChunkLength, Chunk, Hole, Done, Fault };
  bool gather(ByteView& data, size_t length);
  std::optional<EntryEvent> header(ByteView& data);
  std::optional<EntryEvent> chunk_length(ByteView& data);
  std::optional<EntryEvent> hole(ByteView& data);
  std::optional<EntryEvent> fault();

  State state_ = State::Header;
  Bytes held_;
  uint32_t chunk_left_ = 0;
  bool first_ = true;
};

inline constexpr std::string_view kPutVerb = "put";
struct PutRequest {
  std::string path;  // in the sandbox, absolute
  // When `path` is an existing directory the copy becomes path/name in it; empty: it becomes
  // `path` itself, and a directory's entries are merged into it.
  std::string name;
  std::string user;             // owner of what is written, as in ExecRequest; empty: root
  bool preserve_owner = false;  // the entries' uid and gid instead
  bool make_parents = false;    // missing directories above `path`
  bool operator==(const PutRequest&) const = default;

  Bytes encode() const;
  static std::optional<PutRequest> decode(ByteView payload) noexcept;
};

inline constexpr std::string_view kLaneEvent = "lane";
struct LaneOpened {
  uint32_t port = 0;  // vsock, of the guest; never 0
  bool operator==(const LaneOpened&) const = default;

  Bytes encode() const;
  static std::optional<LaneOpened> decode(ByteView payload) noexcept;
};

inline constexpr std::string_view kGetVerb = "get";
struct GetRequest {
  std::string path;     // in the sandbox, absolute
  bool follow = false;  // when `path` is a symbolic link: what it points to
  bool operator==(const GetRequest&) const = default;

  Bytes encode() const;
  static std::optional<GetRequest> decode(ByteView payload) noexcept;
};

struct CopyResult {
  uint64_t entries = 0;
  uint64_t bytes = 0;    // of content
  uint64_t skipped = 0;  // sockets, devices and pipes, which are not copied
  bool operator==(const CopyResult&) const = default;

  Bytes encode() const;
  static std::optional<CopyResult> decode(ByteView item) noexcept;
};

}
