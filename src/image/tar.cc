// Tar archives, read through libarchive with nothing but its tar format and stream filters on.
//
// The archive is hostile. It is never unpacked: an entry's path is cut into components and walked
// in the in-memory tree, so there is no link on the host to be followed. libarchive bounds its own
// headers (1 MiB each); content is bounded by the writer; what is skipped is read through the same
// bound, so that a compressed bomb ends there too.

#include <algorithm>
#include <memory>
#include <set>

#include <sys/stat.h>

#include <archive.h>
#include <archive_entry.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/source.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "reading.h"

namespace mvm::image {
namespace {

constexpr size_t kReadSize = size_t{256} << 10;
constexpr uint64_t kTarBlock = 512;

class TarReader {
 public:
  TarReader(int fd, std::string shown, const ImportOptions& options, const Progress& progress,
            Tree& tree, ErofsWriter& writer, Notes& notes)
      : fd_(fd),
        shown_(std::move(shown)),
        options_(options),
        tree_(tree),
        writer_(writer),
        notes_(notes),
        meter_(progress, Phase::Reading, sys::file_size(fd)),
        archive_(archive_read_new(), &archive_read_free),
        buffer_(kReadSize) {
    MVM_ASSERT(archive_ != nullptr);
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_filter_bzip2(archive_.get());
    archive_read_support_filter_xz(archive_.get());
    archive_read_support_filter_zstd(archive_.get());
    archive_read_support_format_tar(archive_.get());
  }

  void read() {
    if (archive_read_open(archive_.get(), this, nullptr, &TarReader::feed, nullptr) != ARCHIVE_OK)
      fail_format();
    bool any = false;
    while (true) {
      archive_entry* entry = nullptr;
      const int result = archive_read_next_header(archive_.get(), &entry);
      if (result == ARCHIVE_EOF) break;
      // A warning is about a name or time it could not convert; the entry itself is usable, and
      // names are checked below.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_format();
      any = true;
      const char* path = archive_entry_pathname(entry);
      const std::string name = path != nullptr ? path : "";
      while_doing("entry \"" + printable(name) + "\"", [&] { add(name, entry); });
      check_tree_limits(tree_, options_.limits);
      if (++entries_ > options_.limits.entries)
        throw Error(Kind::Exhausted,
                    "more than " + std::to_string(options_.limits.entries) + " entries");
      data_end_ = archive_filter_bytes(archive_.get(), 0);
    }
    check_end();
    if (!any) throw Error(Kind::Invalid, "the archive is empty");
    meter_.tell(done_);
  }

 private:
  static la_ssize_t feed(archive* handle, void* self, const void** buffer) {
    auto* reader = static_cast<TarReader*>(self);
    try {
      const auto got = sys::read_some(reader->fd_, reader->buffer_);
      *buffer = reader->buffer_.data();
      reader->done_ += got.value_or(0);
      return static_cast<la_ssize_t>(got.value_or(0));
    } catch (const SystemError& error) {
      archive_set_error(handle, error.errno_value(), "%s", error.what());
      return ARCHIVE_FATAL;
    }
  }

  [[noreturn]] void fail_format() const {
    const char* text = archive_error_string(archive_.get());
    const std::string message = text != nullptr ? printable(text) : "not readable";
    if (archive_errno(archive_.get()) == ENOMEM) throw Error(Kind::Exhausted, message);
    throw Error(Kind::Invalid,
                "not a whole tar archive (plain, gzip, bzip2, xz or zstd): " + message);
  }

  // An archive ends with a block of zeros. Without it, it was cut off exactly between two entries,
  // which libarchive lets pass.
  void check_end() const {
    const auto padded = static_cast<uint64_t>(data_end_) + kTarBlock - 1;
    const uint64_t last_entry = padded - padded % kTarBlock;
    const auto end = static_cast<uint64_t>(archive_filter_bytes(archive_.get(), 0));
    if (end < last_entry + kTarBlock)
      throw Error(Kind::Invalid, "the archive ends without its end mark; it has been cut off");
  }

  // The components of a path; refuses what points out of the tree.
  static std::vector<std::string_view> components(std::string_view path) {
    if (path.empty()) throw Error(Kind::Invalid, "it has no name");
    if (path.size() > kMaxPath) throw Error(Kind::Invalid, "its path is too long");
    if (path.front() == '/') throw Error(Kind::Invalid, "absolute paths are refused");
    std::vector<std::string_view> parts;
    for (const std::string_view part : split(path, '/')) {
      if (part.empty() || part == ".") continue;
      if (part == "..") throw Error(Kind::Invalid, "paths with \"..\" are refused");
      if (part.size() > kMaxFileName)
        throw Error(Kind::Invalid, "a name in its path is longer than 255 bytes");
      parts.push_back(part);
    }
    if (parts.size() > kMaxDepth) throw Error(Kind::Invalid, "it lies too deep");
    return parts;
  }

  // The directory that holds the last component; missing ones on the way are made.
  NodeId parent_of(std::span<const std::string_view> parts, const Attributes& attributes) {
    NodeId at = kRoot;
    for (const std::string_view part : parts.first(parts.size() - 1)) {
      auto next = tree_.child(at, part);
      if (!next) {
        Attributes made;
        made.uid = attributes.uid;
        made.gid = attributes.gid;
        made.mtime = attributes.mtime;
        next = tree_.add_node(Type::Directory, std::move(made));
        tree_.link(at, part, *next);
        check_tree_limits(tree_, options_.limits);
      }
      if (tree_.node(*next).type != Type::Directory)
        throw Error(Kind::Invalid, "\"" + printable(part) + "\" in its path is " +
                                       (tree_.node(*next).type == Type::Symlink
                                            ? "a symbolic link; those are not followed"
                                            : "no directory"));
      at = *next;
    }
    return at;
  }

  Attributes attributes_of(archive_entry* entry) {
    Attributes attributes;
    attributes.permissions = static_cast<uint16_t>(archive_entry_perm(entry) & 07777U);
    if (options_.owner) {
      attributes.uid = options_.owner->uid;
      attributes.gid = options_.owner->gid;
    } else {
      attributes.uid = id(archive_entry_uid(entry));
      attributes.gid = id(archive_entry_gid(entry));
    }
    attributes.mtime = archive_entry_mtime(entry);
    const long nanoseconds = archive_entry_mtime_nsec(entry);
    if (nanoseconds > 0 && nanoseconds < 1'000'000'000)
      attributes.mtime_nsec = static_cast<uint32_t>(nanoseconds);
    archive_entry_xattr_reset(entry);
    const char* name = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
      const auto* bytes = static_cast<const std::byte*>(value);
      attributes.xattrs.emplace_back(name != nullptr ? name : "", Bytes(bytes, bytes + size));
    }
    keep_xattrs(attributes.xattrs, notes_);
    return attributes;
  }

  static uint32_t id(int64_t value) {
    if (value < 0 || value >= 0xffffffff) throw Error(Kind::Invalid, "its owner is out of range");
    return static_cast<uint32_t>(value);
  }

  void add(const std::string& name, archive_entry* entry) {
    const std::vector<std::string_view> parts = components(name);
    Attributes attributes = attributes_of(entry);
    if (const char* target = archive_entry_hardlink(entry)) {
      add_hard_link(parts, target, attributes);
      drain();
      return;
    }
    const unsigned kind = archive_entry_filetype(entry);
    if (parts.empty()) {
      if (kind != AE_IFDIR) throw Error(Kind::Invalid, "the root must be a directory");
      tree_.node(kRoot).attributes = std::move(attributes);
      return;
    }
    const NodeId parent = parent_of(parts, attributes);
    switch (kind) {
      case AE_IFREG:
        add_file(entry, parent, parts.back(), std::move(attributes));
        return;
      case AE_IFDIR:
        add_directory(parent, parts.back(), std::move(attributes));
        break;
      case AE_IFLNK: {
        const char* target = archive_entry_symlink(entry);
        const std::string_view text = target != nullptr ? target : "";
        if (text.empty() || text.size() > kMaxLinkTarget)
          throw Error(Kind::Invalid, "its target is empty or too long");
        const NodeId node = place(parent, parts.back(), Type::Symlink, std::move(attributes));
        tree_.node(node).target = text;
        break;
      }
      case AE_IFIFO:
        place(parent, parts.back(), Type::Fifo, std::move(attributes));
        break;
      case AE_IFCHR:
      case AE_IFBLK:
        // A guest has its own /dev, and a device node in an image would be a way to its disks for
        // a user who may read it.
        ++notes_["device nodes were left out"];
        dropped_.insert(joined(parts));
        break;
      default:
        ++notes_["entries of unknown kinds were left out"];
        dropped_.insert(joined(parts));
        break;
    }
    drain();
  }

  // A new node under this name. What was there goes, unless it is a directory with children.
  NodeId place(NodeId parent, std::string_view name, Type type, Attributes attributes) {
    refuse_full_directory(parent, name);
    const NodeId node = tree_.add_node(type, std::move(attributes));
    tree_.link(parent, name, node);
    return node;
  }

  void refuse_full_directory(NodeId parent, std::string_view name) const {
    const auto old = tree_.child(parent, name);
    if (old && !tree_.node(*old).children.empty())
      throw Error(Kind::Invalid, "it would replace a directory that is not empty");
  }

  void add_directory(NodeId parent, std::string_view name, Attributes attributes) {
    const auto old = tree_.child(parent, name);
    if (old && tree_.node(*old).type == Type::Directory)
      tree_.node(*old).attributes = std::move(attributes);
    else
      place(parent, name, Type::Directory, std::move(attributes));
  }

  void add_hard_link(std::span<const std::string_view> parts, std::string_view target,
                     const Attributes& attributes) {
    const std::vector<std::string_view> path =
        while_doing("its link target", [&] { return components(target); });
    if (parts.empty()) throw Error(Kind::Invalid, "the root must be a directory");
    if (dropped_.contains(joined(path))) return;
    std::optional<NodeId> found = path.empty() ? std::nullopt : std::optional(kRoot);
    for (const std::string_view part : path) found = found ? tree_.child(*found, part) : found;
    if (!found)
      throw Error(Kind::Invalid, "it links to \"" + printable(target) +
                                     "\", which is not in the archive before it");
    if (tree_.node(*found).type == Type::Directory)
      throw Error(Kind::Invalid, "hard links to directories are refused");
    const NodeId parent = parent_of(parts, attributes);
    refuse_full_directory(parent, parts.back());
    if (tree_.node(*found).links >= kMaxLinks)
      throw Error(Kind::Exhausted, "more than 65000 hard links to one file");
    tree_.link(parent, parts.back(), *found);
  }

  void add_file(archive_entry* entry, NodeId parent, std::string_view name, Attributes attributes) {
    const int64_t declared = archive_entry_size(entry);
    if (declared < 0) throw Error(Kind::Invalid, "its size is negative");
    const auto size = static_cast<uint64_t>(declared);
    refuse_full_directory(parent, name);
    writer_.begin_file(size, attributes, archive_entry_sparse_count(entry) > 0);
    uint64_t position = 0;
    each_block([&](ByteView data, uint64_t offset) {
      if (offset < position || offset > size || data.size() > size - offset)
        throw Error(Kind::Invalid, "its data does not fit its size");
      writer_.skip(offset - position);
      writer_.append(data);
      position = offset + data.size();
    });
    // A sparse file may end in a hole; any other has all its data, or the archive is cut off and
    // reading has failed.
    writer_.skip(size - position);
    const NodeId node = place(parent, name, Type::Regular, std::move(attributes));
    writer_.end_file(tree_.node(node));
  }

  // Reads what an entry without use for it carries.
  void drain() {
    each_block([&](ByteView data, uint64_t) {
      drained_ += data.size();
      if (drained_ > options_.limits.content)
        throw Error(Kind::Exhausted,
                    "more than " + format_size(options_.limits.content) + " of data without use");
    });
  }

  template <typename Use>
  void each_block(Use use) {
    while (true) {
      const void* data = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int result = archive_read_data_block(archive_.get(), &data, &size, &offset);
      if (result == ARCHIVE_EOF) return;
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_format();
      if (offset < 0) throw Error(Kind::Invalid, "its data does not fit its size");
      use(ByteView(static_cast<const std::byte*>(data), size), static_cast<uint64_t>(offset));
      meter_.at(done_);
    }
  }

  static std::string joined(std::span<const std::string_view> parts) {
    std::string path;
    for (const std::string_view part : parts) path.append("/").append(part);
    return path;
  }

  static constexpr uint32_t kMaxLinks = 65000;

  int fd_;
  std::string shown_;
  const ImportOptions& options_;
  Tree& tree_;
  ErofsWriter& writer_;
  Notes& notes_;
  Meter meter_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  Bytes buffer_;
  uint64_t done_ = 0;     // bytes of the file read
  uint64_t drained_ = 0;  // bytes of content without use
  uint64_t entries_ = 0;
  int64_t data_end_ = 0;           // in the unpacked stream: where the last entry's data ended
  std::set<std::string> dropped_;  // paths of what was left out, for links to them
};

}

void read_tar(int fd, const std::string& shown, const ImportOptions& options,
              const Progress& progress, Tree& tree, ErofsWriter& writer, Notes& notes) {
  while_doing(shown, [&] { TarReader(fd, shown, options, progress, tree, writer, notes).read(); });
}

}
