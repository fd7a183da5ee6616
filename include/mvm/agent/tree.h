#pragma once
// The two ends of a copy on this side: a file or tree here as an entry stream (proto/copy.h), and
// an entry stream from a sandbox as files here.
//
// The stream that is written comes from an enemy. What protects us:
// - Paths have been judged by the decoder: relative, no "..", bounded. Each component is opened by
//   itself, below a descriptor of the one above, without following links (O_NOFOLLOW); so a link
//   in the way, be it older, part of the same stream or slipped in meanwhile, is an error and never
//   a way out. Links are made as they came; nothing here goes through them.
// - Files come into being under a random name and take their place whole, by rename, so nothing is
//   ever written into an existing file, or through a link to one.
// - set-id and sticky bits, owners: only when asked for. Modes are cut by the umask otherwise.
// - Counts and bytes have limits. Memory is one header and one descriptor a level.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/copy.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/sparse_reader.h"

namespace mvm::agent {

inline constexpr uint64_t kMaxCopyEntries = 4'000'000;
inline constexpr uint64_t kMaxCopyBytes = uint64_t{256} << 30;
// From here on a file is worth a lane (proto/copy.h).
inline constexpr uint64_t kLargeFile = 1 << 20;

struct TreeCounts {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // of content
  uint64_t skipped = 0;
};

// ---- reading ----------------------------------------------------------------------------------

// What of a tree is looked at, and as what: the same stream for the same content, whoever has it
// and where. Names in order; owner root, modes 0755 and 0644, and one time.
struct TreeView {
  // Whether what has this path below the root belongs to it; nothing: everything does.
  std::function<bool(const std::string& path, bool directory)> keep;
  std::optional<int64_t> mtime;  // nothing: each its own
};

class TreeReader {
 public:
  using Note = std::function<void(const std::string&)>;
  // `path` as the user gave it. A link is copied as a link unless `follow`; below it links are
  // always copied as links. `note` hears of what is left out: sockets, pipes, devices. Throws when
  // there is no such thing.
  TreeReader(const std::string& path, bool follow, Note note,
             std::optional<TreeView> view = std::nullopt);
  ~TreeReader();
  TreeReader(const TreeReader&) = delete;
  TreeReader& operator=(const TreeReader&) = delete;

  // Appends some of the stream to `out`, at most a chunk or a few headers; false when the stream is
  // complete.
  bool produce(Bytes& out);
  // Whether what comes next is content of a large file, for produce_into_pipe().
  bool at_large_file() const { return large_ && file_ && headers_.empty(); }
  // As produce(), but a chunk's bytes, at most `room`, are moved into an empty pipe, and only its
  // length appended to `out`. Returns how many bytes the pipe got.
  size_t produce_into_pipe(Bytes& out, int pipe, size_t room);
  const TreeCounts& counts() const { return counts_; }

 private:
  struct Level;
  void add(int parent, const std::string& name, const std::string& path, bool follow);
  void add_opened(sys::Fd fd, const struct stat& status, proto::Entry entry);
  void add_symlink(int parent, const std::string& name, proto::Entry entry);
  void skip(const std::string& path, const char* why);
  bool produce_next(const std::string& name);
  bool kept(const std::string& path, bool directory) const;
  void show(proto::Entry& entry) const;
  bool produce_content(Bytes& out);
  // What is no data: a hole, or the content's end.
  void produce_no_data(Bytes& out, uint64_t hole);
  std::string shown(const std::string& path) const;

  std::string root_;
  Note note_;
  std::optional<TreeView> view_;
  Bytes headers_;  // found and not yet handed out
  std::vector<Level> levels_;
  sys::SparseReader file_;
  std::string file_path_;
  bool large_ = false;  // it is, and its file system lets it be moved into pipes
  Bytes chunk_;
  TreeCounts counts_;
  bool done_ = false;
};

// ---- writing ----------------------------------------------------------------------------------

struct TreeWriteOptions {
  bool archive = false;  // modes exactly, set-id bits too, and as root the owners
  uint64_t max_entries = kMaxCopyEntries;
  uint64_t max_bytes = kMaxCopyBytes;
};

class TreeWriter {
 public:
  // Where the copy goes. When `path` is an existing directory: to `name` in it, or merged into it
  // when `name` is empty. Otherwise to `path` itself, in an existing directory. `path` is the
  // user's word and is looked up like any, links followed; below it none is. A `path` that ends in
  // '/' means a directory. Throws when it cannot go there.
  TreeWriter(const std::string& path, const std::string& name, TreeWriteOptions options);
  ~TreeWriter();  // a copy that ended half-way leaves whole files and no temporary ones
  TreeWriter(const TreeWriter&) = delete;
  TreeWriter& operator=(const TreeWriter&) = delete;

  // The next bytes of the stream. Throws Error{Unavailable} when they make no sense, and when they
  // cannot be put where they belong.
  void take(ByteView data);
  bool complete() const { return decoder_.finished(); }
  const TreeCounts& counts() const { return counts_; }

 private:
  struct Level;
  struct Place {
    int parent;
    std::string name;  // empty: the destination directory itself
  };
  void add(proto::Entry entry);
  Place locate(const std::string& path);
  void add_directory(const Place& place, proto::Entry entry);
  void add_symlink(const Place& place, const proto::Entry& entry);
  void begin_file(const Place& place, proto::Entry entry);
  void write_content(ByteView content);
  void write_hole(uint64_t length);
  void count(uint64_t bytes);
  void finish_file();
  void leave_to(size_t depth);
  sys::Fd enter(int parent, const std::string& name, const std::string& path) const;
  void set_metadata(int fd, const proto::Entry& entry) const;
  std::string shown(const std::string& path) const;

  std::string root_;
  TreeWriteOptions options_;
  bool is_root_;
  bool must_be_directory_ = false;
  sys::Fd parent_;
  std::string leaf_;
  proto::EntryDecoder decoder_;
  std::vector<Level> levels_;  // open directories, from the copied one down
  sys::Fd file_;
  int file_parent_ = -1;  // of the deepest level, or parent_
  std::string file_name_;
  std::string temporary_;
  proto::Entry file_entry_;
  bool hole_at_end_ = false;
  TreeCounts counts_;
};

// The name a copy of `path` gets in an existing directory: its last component; empty when it has
// none that is a name ("/", ".", "a/..", "a/."), which means its content.
std::string copy_name(const std::string& path);

}
