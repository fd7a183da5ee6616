#include "tar_entries.h"

#include "mvm/base/error.h"
#include "mvm/base/text.h"

#include "reading.h"

namespace mvm::image {

static constexpr uint32_t kMaxLinks = 65000;
static constexpr uint64_t kDroppedOverhead = 80;  // of an entry in a set, roughly
static constexpr std::string_view kWhiteout = ".wh.";
static constexpr std::string_view kWhiteoutMeta = ".wh..wh.";
static constexpr std::string_view kOpaque = ".wh..wh..opq";

static std::string joined(std::span<const std::string_view> parts) {
  std::string path;
  for (const std::string_view part : parts) path.append("/").append(part);
  return path;
}

static uint32_t id(int64_t value) {
  if (value < 0 || value >= 0xffffffff) throw Error(Kind::Invalid, "its owner is out of range");
  return static_cast<uint32_t>(value);
}

template <typename Use>
void TarEntries::each_block(Use use) {
  while (true) {
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int result = archive_read_data_block(archive_, &data, &size, &offset);
    if (result == ARCHIVE_EOF) return;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) fail_tar(archive_);
    if (offset < 0) throw Error(Kind::Invalid, "its data does not fit its size");
    use(ByteView(static_cast<const std::byte*>(data), size), static_cast<uint64_t>(offset));
    tick_();
  }
}

// Reads what an entry without use for it carries.
void TarEntries::drain() {
  each_block([&](ByteView data, uint64_t) {
    drained_ += data.size();
    if (drained_ > options_.limits.content)
      throw Error(Kind::Exhausted,
                  "more than " + format_size(options_.limits.content) + " of data without use");
  });
}

// The components of a path; refuses what points out of the tree.
std::vector<std::string_view> TarEntries::components(std::string_view path) const {
  if (path.empty()) throw Error(Kind::Invalid, "it has no name");
  if (path.size() > kMaxPath) throw Error(Kind::Invalid, "its path is too long");
  // "/" alone is what some builders call the root.
  if (path.front() == '/' && path.find_first_not_of('/') != path.npos)
    throw Error(Kind::Invalid, "absolute paths are refused");
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

static void refuse_way(const Node& node, std::string_view part) {
  throw Error(Kind::Invalid,
              "\"" + printable(part) + "\" in its path is " +
                  (node.type == Type::Symlink ? "a symbolic link; those are not followed"
                                              : "no directory"));
}

// The directory that holds the last component; missing ones on the way are made.
NodeId TarEntries::parent_of(Parts parts, const Attributes& attributes) {
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
    if (tree_.node(*next).type != Type::Directory) refuse_way(tree_.node(*next), part);
    at = *next;
  }
  return at;
}

std::optional<NodeId> TarEntries::find(Parts parts) const {
  std::optional<NodeId> found(kRoot);
  for (const std::string_view part : parts) found = found ? tree_.child(*found, part) : found;
  return found;
}

// True when the entry is a whiteout, which is then done.
bool TarEntries::take_whiteout(Parts parts) {
  if (stacking_ != Stacking::Layer || parts.empty()) return false;
  for (const std::string_view part : parts.first(parts.size() - 1))
    if (part.starts_with(kWhiteout)) throw Error(Kind::Invalid, "a whiteout is no directory");
  const std::string_view name = parts.back();
  if (!name.starts_with(kWhiteout)) return false;
  NodeId parent = kRoot;
  for (const std::string_view part : parts.first(parts.size() - 1)) {
    const auto next = tree_.child(parent, part);
    if (!next) return true;  // nothing there to hide
    if (tree_.node(*next).type != Type::Directory) refuse_way(tree_.node(*next), part);
    parent = *next;
  }
  if (name == kOpaque) {
    tree_.hide_lower_in(parent);
  } else if (!name.starts_with(kWhiteoutMeta)) {  // the rest of those is AUFS's own
    const std::string_view hidden = name.substr(kWhiteout.size());
    if (hidden.empty() || hidden == "." || hidden == "..")
      throw Error(Kind::Invalid, "a whiteout that hides nothing");
    tree_.hide_lower(parent, hidden);
  }
  return true;
}

Attributes TarEntries::attributes_of(archive_entry* entry) {
  Attributes attributes;
  attributes.permissions = static_cast<uint16_t>(archive_entry_perm(entry) & 07777U);
  if (options_.drop_set_id && archive_entry_filetype(entry) != AE_IFDIR &&
      (attributes.permissions & 06000U) != 0) {
    attributes.permissions &= 01777U;
    ++notes_["set-id bits were dropped"];
  }
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
  // libarchive 3.6 reads "-5.25" as -5 s and 250 ms more.
  if (attributes.mtime < 0 && attributes.mtime_nsec > 0) {
    --attributes.mtime;
    attributes.mtime_nsec = 1'000'000'000 - attributes.mtime_nsec;
  }
  archive_entry_xattr_reset(entry);
  Xattrs::List list;
  const char* name = nullptr;
  const void* value = nullptr;
  size_t size = 0;
  while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
    const auto* bytes = static_cast<const std::byte*>(value);
    list.emplace_back(name != nullptr ? name : "", Bytes(bytes, bytes + size));
  }
  keep_xattrs(list, notes_);
  attributes.xattrs = Xattrs(std::move(list));
  return attributes;
}

void TarEntries::add(const std::string& name, archive_entry* entry) {
  const std::vector<std::string_view> parts = components(name);
  if (take_whiteout(parts)) return drain();
  Attributes attributes = attributes_of(entry);
  if (const char* target = archive_entry_hardlink(entry)) {
    add_hard_link(parts, target, attributes);
    drain();
    return;
  }
  if (parts.empty()) {
    if (archive_entry_filetype(entry) != AE_IFDIR)
      throw Error(Kind::Invalid, "the root must be a directory");
    tree_.node(kRoot).attributes = std::move(attributes);
    return;
  }
  add_named(parts, entry, std::move(attributes));
}

void TarEntries::add_named(Parts parts, archive_entry* entry, Attributes attributes) {
  const NodeId parent = parent_of(parts, attributes);
  switch (archive_entry_filetype(entry)) {
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
      tree_.node(node).set_target(text);
      tree_.charge(text.size());
      break;
    }
    case AE_IFIFO:
      place(parent, parts.back(), Type::Fifo, std::move(attributes));
      break;
    case AE_IFCHR:
    case AE_IFBLK:
      // A guest has its own /dev, and a device node in an image would be a way to its disks for
      // a user who may read it.
      drop(parts, "device nodes were left out");
      break;
    default:
      drop(parts, "entries of unknown kinds were left out");
      break;
  }
  drain();
}

void TarEntries::drop(Parts parts, const char* note) {
  ++notes_[note];
  // It is kept for links to it.
  const std::string path = joined(parts);
  if (dropped_.insert(path).second) tree_.charge(kDroppedOverhead + path.size());
  if (stacking_ != Stacking::Layer) return;
  // It would have taken the place of what lies below.
  if (const auto parent = find(parts.first(parts.size() - 1))) tree_.remove(*parent, parts.back());
}

// A new node under this name, in the place of what was there.
NodeId TarEntries::place(NodeId parent, std::string_view name, Type type, Attributes attributes) {
  make_room(parent, name);
  const NodeId node = tree_.add_node(type, std::move(attributes));
  tree_.link(parent, name, node);
  return node;
}

void TarEntries::make_room(NodeId parent, std::string_view name) {
  const auto old = tree_.child(parent, name);
  if (!old) return;
  if (stacking_ == Stacking::Layer) return tree_.remove(parent, name);
  if (!tree_.node(*old).children().empty())
    throw Error(Kind::Invalid, "it would replace a directory that is not empty");
}

void TarEntries::add_directory(NodeId parent, std::string_view name, Attributes attributes) {
  const auto old = tree_.child(parent, name);
  if (!old || tree_.node(*old).type != Type::Directory) {
    place(parent, name, Type::Directory, std::move(attributes));
    return;
  }
  tree_.node(*old).attributes = std::move(attributes);
  tree_.touch(parent, name);
}

void TarEntries::add_hard_link(Parts parts, std::string_view target, const Attributes& attributes) {
  const std::vector<std::string_view> path =
      while_doing("its link target", [&] { return components(target); });
  if (parts.empty()) throw Error(Kind::Invalid, "the root must be a directory");
  const std::optional<NodeId> found = path.empty() ? std::nullopt : find(path);
  if (!found && dropped_.contains(joined(path))) return;
  if (!found)
    throw Error(Kind::Invalid,
                "it links to \"" + printable(target) + "\", which is not " +
                    (stacking_ == Stacking::Layer ? "there" : "in the archive before it"));
  if (tree_.node(*found).type == Type::Directory)
    throw Error(Kind::Invalid, "hard links to directories are refused");
  const NodeId parent = parent_of(parts, attributes);
  if (tree_.child(parent, parts.back()) == found) return tree_.touch(parent, parts.back());
  make_room(parent, parts.back());
  if (tree_.node(*found).links >= kMaxLinks)
    throw Error(Kind::Exhausted, "more than 65000 hard links to one file");
  tree_.link(parent, parts.back(), *found);
}

void TarEntries::add_file(archive_entry* entry, NodeId parent, std::string_view name,
                          Attributes attributes) {
  const int64_t declared = archive_entry_size(entry);
  if (declared < 0) throw Error(Kind::Invalid, "its size is negative");
  const auto size = static_cast<uint64_t>(declared);
  make_room(parent, name);
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
  tree_.charge(tree_.node(node).chunks().size() * sizeof(uint32_t));
}

}
