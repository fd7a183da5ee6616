// A directory of the host as a source. It is walked by descriptors (openat, O_NOFOLLOW), names in
// sorted order, so that what is read is what was looked at even while others rename things, and so
// that the same tree gives the same image.

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/image/source.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "reading.h"

namespace mvm::image {
namespace {

class DirectoryReader {
 public:
  DirectoryReader(const ImportOptions& options, const Progress& progress, Tree& tree,
                  ErofsWriter& writer, Notes& notes)
      : options_(options),
        tree_(tree),
        writer_(writer),
        notes_(notes),
        meter_(progress, Phase::Reading, std::nullopt) {}

  void read(const std::string& path) {
    const sys::Fd root = sys::open_file(path, O_RDONLY | O_DIRECTORY);
    const struct stat status = status_of(root.get(), path);
    device_ = status.st_dev;
    tree_.node(kRoot).attributes = attributes_of(status, root.get(), path);
    walk(root.get(), kRoot, path, 1);
    meter_.tell(done_);
  }

 private:
  static struct stat status_of(int fd, const std::string& shown) {
    struct stat status{};
    sys::check(::fstat(fd, &status), "reading status of " + shown);
    return status;
  }

  static std::vector<std::string> names_in(int directory, const std::string& shown) {
    // A descriptor of its own: fdopendir takes it and moves its offset.
    sys::Fd own = sys::open_at(directory, ".", O_RDONLY | O_DIRECTORY);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), &::closedir);
    if (!stream) throw SystemError(errno, "reading " + shown);
    own.release();
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) throw SystemError(errno, "reading " + shown);
    std::sort(names.begin(), names.end());
    return names;
  }

  void walk(int directory, NodeId node, const std::string& shown, size_t depth) {
    if (depth > kMaxDepth) throw Error(Kind::Invalid, shown + " lies too deep");
    for (const std::string& name : names_in(directory, shown)) {
      std::string path = shown;
      path.append("/").append(name);
      add(directory, node, name, path, depth);
      check_tree_limits(tree_, options_.limits);
    }
  }

  void add(int directory, NodeId parent, const std::string& name, const std::string& shown,
           size_t depth) {
    struct stat status{};
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) changed(shown);
      throw SystemError(errno, "reading status of " + shown);
    }
    if (!S_ISDIR(status.st_mode) && status.st_nlink > 1) {
      const auto known = links_.find({status.st_dev, status.st_ino});
      if (known != links_.end()) {
        tree_.link(parent, name, known->second);
        return;
      }
    }
    std::optional<NodeId> made;
    switch (status.st_mode & S_IFMT) {
      case S_IFREG:
        made = add_file(directory, name, status, shown);
        break;
      case S_IFDIR:
        add_directory(directory, parent, name, status, shown, depth);
        return;
      case S_IFLNK:
        made = tree_.add_node(Type::Symlink, attributes_of(status, -1, shown));
        tree_.node(*made).set_target(target_of(directory, name, shown));
        tree_.charge(tree_.node(*made).target().size());
        break;
      case S_IFIFO:
        made = tree_.add_node(Type::Fifo, attributes_of(status, -1, shown));
        break;
      case S_IFSOCK:
        ++notes_["sockets were left out"];
        return;
      default:
        ++notes_["device nodes were left out"];
        return;
    }
    tree_.link(parent, name, *made);
    if (status.st_nlink > 1) links_.emplace(std::pair(status.st_dev, status.st_ino), *made);
  }

  [[noreturn]] static void changed(const std::string& shown) {
    throw Error(Kind::Conflict, shown + " changed while it was read; try again when it is quiet");
  }

  // Opens what `status` describes, and nothing that took its place. O_NONBLOCK: a FIFO in its
  // place must not make us wait.
  static sys::Fd open_same(int directory, const std::string& name, const struct stat& status,
                           const std::string& shown, int flags) {
    const int all = flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    int raw = -1;
    do {
      raw = ::openat(directory, name.c_str(), all);
    } while (raw < 0 && errno == EINTR);
    if (raw < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) changed(shown);
    if (raw < 0 && errno == EACCES)
      throw Error(Kind::Denied, shown +
                                    " cannot be read by this user; import it as one who may, "
                                    "or from a tar archive");
    if (raw < 0) throw SystemError(errno, "opening " + shown);
    sys::Fd fd(raw);
    const struct stat now = status_of(fd.get(), shown);
    if (now.st_dev != status.st_dev || now.st_ino != status.st_ino) changed(shown);
    return fd;
  }

  void add_directory(int directory, NodeId parent, const std::string& name,
                     const struct stat& status, const std::string& shown, size_t depth) {
    const sys::Fd fd = open_same(directory, name, status, shown, O_DIRECTORY);
    const NodeId node = tree_.add_node(Type::Directory, attributes_of(status, fd.get(), shown));
    tree_.link(parent, name, node);
    if (options_.one_file_system && status.st_dev != device_) {
      ++notes_["directories of other file systems were left empty"];
      return;
    }
    walk(fd.get(), node, shown, depth + 1);
  }

  static std::string target_of(int directory, const std::string& name, const std::string& shown) {
    std::string target(kMaxLinkTarget + 1, '\0');
    const ssize_t length = ::readlinkat(directory, name.c_str(), target.data(), target.size());
    if (length < 0 && errno == EINVAL) changed(shown);
    if (length < 0) throw SystemError(errno, "reading the link " + shown);
    target.resize(static_cast<size_t>(length));
    if (target.empty() || target.size() > kMaxLinkTarget)
      throw Error(Kind::Invalid, shown + ": the link's target is empty or too long");
    return target;
  }

  NodeId add_file(int directory, const std::string& name, const struct stat& seen,
                  const std::string& shown) {
    const sys::Fd fd = open_same(directory, name, seen, shown, 0);
    const struct stat before = status_of(fd.get(), shown);
    const auto size = static_cast<uint64_t>(before.st_size);
    Attributes attributes = attributes_of(before, fd.get(), shown);
    const bool sparse = static_cast<uint64_t>(before.st_blocks) * 512 < size;
    while_doing(shown, [&] {
      writer_.begin_file(size, attributes, sparse);
      uint64_t position = 0;
      while (position < size) {
        const auto [start, end] = sparse ? next_data(fd.get(), position, size)
                                         : std::pair(position, std::min(size, position + kStep));
        writer_.skip(start - position);
        if (writer_.append_from(fd.get(), start, end - start) < end - start) changed(shown);
        position = end;
        meter_.at(done_ + position);
      }
    });
    done_ += size;
    const struct stat after = status_of(fd.get(), shown);
    if (after.st_size != before.st_size || after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
      changed(shown);
    const NodeId node = tree_.add_node(Type::Regular, std::move(attributes));
    writer_.end_file(tree_.node(node));
    tree_.charge(tree_.node(node).chunks().size() * sizeof(uint32_t));
    return node;
  }

  // The next range of data at or after `position`; {size, size} when only a hole is left.
  static std::pair<uint64_t, uint64_t> next_data(int fd, uint64_t position, uint64_t size) {
    const off_t start = ::lseek(fd, static_cast<off_t>(position), SEEK_DATA);
    if (start < 0 && errno == ENXIO) return {size, size};
    if (start < 0) return {position, std::min(size, position + kStep)};  // not supported here
    const off_t hole = ::lseek(fd, start, SEEK_HOLE);
    const uint64_t from = std::min(size, static_cast<uint64_t>(start));
    const uint64_t to = hole < 0 ? size : std::min(size, static_cast<uint64_t>(hole));
    return {from, std::min(to, from + kStep)};
  }

  // `fd` is -1 for what cannot be opened for reading; only files and directories carry attributes
  // that an image keeps.
  Attributes attributes_of(const struct stat& status, int fd, const std::string& shown) {
    Attributes attributes;
    attributes.permissions = static_cast<uint16_t>(status.st_mode & 07777U);
    attributes.uid = options_.owner ? options_.owner->uid : status.st_uid;
    attributes.gid = options_.owner ? options_.owner->gid : status.st_gid;
    attributes.mtime = status.st_mtim.tv_sec;
    attributes.mtime_nsec = static_cast<uint32_t>(status.st_mtim.tv_nsec);
    if (fd >= 0) while_doing(shown, [&] { read_xattrs(fd, attributes); });
    return attributes;
  }

  void read_xattrs(int fd, Attributes& attributes) {
    std::string names(kMaxAttributes, '\0');
    const ssize_t length = ::flistxattr(fd, names.data(), names.size());
    if (length < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) return;
    if (length < 0) throw SystemError(errno, "listing extended attributes");
    names.resize(static_cast<size_t>(length));
    Xattrs::List list;
    for (const std::string_view name : split(names, '\0')) {
      if (name.empty()) continue;
      const std::string text(name);
      Bytes value(keeps_xattr(name) ? kMaxAttributes : 0);
      if (!value.empty()) {
        const ssize_t got = ::fgetxattr(fd, text.c_str(), value.data(), value.size());
        if (got < 0 && errno == ENODATA) continue;
        if (got < 0) throw SystemError(errno, "reading extended attribute " + text);
        value.resize(static_cast<size_t>(got));
      }
      list.emplace_back(text, std::move(value));
    }
    keep_xattrs(list, notes_);
    attributes.xattrs = Xattrs(std::move(list));
  }

  static constexpr uint64_t kStep = uint64_t{16} << 20;

  const ImportOptions& options_;
  Tree& tree_;
  ErofsWriter& writer_;
  Notes& notes_;
  Meter meter_;
  uint64_t done_ = 0;
  dev_t device_ = 0;
  std::map<std::pair<dev_t, ino_t>, NodeId> links_;
};

}

void read_directory(const std::string& path, const ImportOptions& options, const Progress& progress,
                    Tree& tree, ErofsWriter& writer, Notes& notes) {
  DirectoryReader(options, progress, tree, writer, notes).read(path);
}

}
