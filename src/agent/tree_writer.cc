// An entry stream from a sandbox as files here; mvm/agent/tree.h says what keeps it in its place.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/agent/tree.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::agent {

using proto::Entry;
using proto::EntryEvent;
using proto::EntryType;

static constexpr uint32_t kPermissions = 0777;
static constexpr uint32_t kOwnerAll = 0700;
// A run of zeros this long becomes a hole: sparse files stay small.
static constexpr size_t kHole = 4096;

struct TreeWriter::Level {
  sys::Fd fd;
  std::string name;
  Entry entry;
  bool ours = false;  // we made it; an older directory keeps what it has
};

// ---- where it goes ----------------------------------------------------------------------------

std::string copy_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "";
  const size_t slash = path.rfind('/', end);
  std::string name = path.substr(slash + 1, end - slash);
  return name == "." || name == ".." ? "" : name;
}

static bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

TreeWriter::TreeWriter(const std::string& path, const std::string& name, TreeWriteOptions options)
    : root_(path), options_(options), is_root_(::geteuid() == 0) {
  if (path.empty()) throw Error(Kind::Invalid, "a path cannot be empty");
  if (is_directory(path)) {
    parent_ = sys::open_file(path, O_RDONLY | O_DIRECTORY);
    leaf_ = name;
    MVM_ASSERT(leaf_.empty() ||
               (proto::is_tree_path(leaf_) && leaf_.find('/') == std::string::npos));
    if (!leaf_.empty()) root_ += (root_.back() == '/' ? "" : "/") + leaf_;
    return;
  }
  must_be_directory_ = path.back() == '/';
  leaf_ = copy_name(path);
  const size_t end = path.find_last_not_of('/');
  if (!proto::is_tree_path(leaf_) || end == std::string::npos)
    throw Error(Kind::NotFound, "no directory " + printable(path));
  const size_t slash = path.rfind('/', end);
  std::string above = slash == std::string::npos ? "." : path.substr(0, slash);
  if (above.empty()) above = "/";
  root_ = path.substr(0, end + 1);
  parent_ = while_doing("copying to " + printable(path),
                        [&] { return sys::open_file(above, O_RDONLY | O_DIRECTORY); });
}

TreeWriter::~TreeWriter() {
  if (file_) ::unlinkat(file_parent_, temporary_.c_str(), 0);
}

std::string TreeWriter::shown(const std::string& path) const {
  if (path.empty()) return printable(root_);
  return printable(root_ + (root_.back() == '/' ? "" : "/") + path);
}

// A directory that is one, and no link to one.
sys::Fd TreeWriter::enter(int parent, const std::string& name, const std::string& path) const {
  sys::Fd fd(sys::uninterrupted([&] {
    return ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }));
  if (fd) return fd;
  const int reason = errno;
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISLNK(status.st_mode))
      throw Error(Kind::Denied, shown(path) + " is a symbolic link, and copies do not follow it");
    if (!S_ISDIR(status.st_mode)) throw Error(Kind::Conflict, shown(path) + " is not a directory");
  }
  throw SystemError(reason, "opening directory " + shown(path));
}

TreeWriter::Place TreeWriter::locate(const std::string& path) {
  if (path.empty()) return {parent_.get(), leaf_};
  if (levels_.empty())
    throw Error(Kind::Unavailable,
                "the sandbox speaks garbage: entries below what is no directory");
  const auto names = split(path, '/');
  // levels_[0] is the copied directory, levels_[i] the i-th component below it.
  size_t depth = 1;
  while (depth < levels_.size() && depth < names.size() && levels_[depth].name == names[depth - 1])
    ++depth;
  leave_to(depth);
  std::string above;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    above += (i > 0 ? "/" : "") + std::string(names[i]);
    if (i + 1 < levels_.size()) continue;
    Level level;
    level.name = names[i];
    level.fd = enter(levels_.back().fd.get(), level.name, above);
    levels_.push_back(std::move(level));
  }
  return {levels_.back().fd.get(), std::string(names.back())};
}

// ---- what it is -------------------------------------------------------------------------------

static std::array<timespec, 2> times_of(const Entry& entry) {
  return {timespec{0, UTIME_OMIT}, timespec{static_cast<time_t>(entry.mtime_seconds),
                                            static_cast<long>(entry.mtime_nanoseconds)}};
}

// The mode is there from birth, cut by the umask; only --archive wants more.
void TreeWriter::set_metadata(int fd, const Entry& entry) const {
  if (options_.archive) {
    if (is_root_)
      sys::check(::fchown(fd, entry.uid, entry.gid), "setting the owner of " + shown(entry.path));
    sys::check(::fchmod(fd, entry.mode), "setting the mode of " + shown(entry.path));
  }
  const auto times = times_of(entry);
  sys::check(::futimens(fd, times.data()), "setting the time of " + shown(entry.path));
}

// Directories get their metadata when nothing more will be written into them.
void TreeWriter::leave_to(size_t depth) {
  while (levels_.size() > depth) {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (!level.ours) continue;
    // Made with all rights for us, so that it could be filled.
    if (!options_.archive && (level.entry.mode & kOwnerAll) != kOwnerAll) {
      struct stat status{};
      sys::check(::fstat(level.fd.get(), &status), "reading " + shown(level.entry.path));
      const mode_t mode = status.st_mode & kPermissions & (level.entry.mode | ~kOwnerAll);
      sys::check(::fchmod(level.fd.get(), mode), "setting the mode of " + shown(level.entry.path));
    }
    set_metadata(level.fd.get(), level.entry);
  }
}

void TreeWriter::add_directory(const Place& place, Entry entry) {
  Level level;
  if (place.name.empty()) {  // merged into the destination itself
    level.fd = parent_.duplicate();
  } else {
    const mode_t mode = (entry.mode & kPermissions) | kOwnerAll;
    level.ours = ::mkdirat(place.parent, place.name.c_str(), mode) == 0;
    if (!level.ours && errno != EEXIST)
      throw SystemError(errno, "making directory " + shown(entry.path));
    level.fd = enter(place.parent, place.name, entry.path);
  }
  level.name = place.name;
  level.entry = std::move(entry);
  levels_.push_back(std::move(level));
}

// What a file may replace: a file or a link. Never a directory or a device.
static void check_replaceable(int parent, const std::string& name, const std::string& shown) {
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISDIR(status.st_mode)) throw Error(Kind::Conflict, shown + " is a directory");
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
    throw Error(Kind::Conflict, shown + " is not a regular file");
}

// Unforeseeable: the destination may be a directory that others write to, and the sandbox must not
// be able to name it either.
static std::string temporary_name() {
  std::array<std::byte, 12> random{};
  sys::check(::getrandom(random.data(), random.size(), 0), "making a file name");
  return ".mvm-" + hex(random) + ".tmp";
}

void TreeWriter::add_symlink(const Place& place, const Entry& entry) {
  check_replaceable(place.parent, place.name, shown(entry.path));
  const std::string doing = "making link " + shown(entry.path);
  const std::string temporary = temporary_name();
  sys::check(::symlinkat(entry.target.c_str(), place.parent, temporary.c_str()), doing);
  ScopeExit remove([&] { ::unlinkat(place.parent, temporary.c_str(), 0); });
  if (options_.archive && is_root_)
    sys::check(
        ::fchownat(place.parent, temporary.c_str(), entry.uid, entry.gid, AT_SYMLINK_NOFOLLOW),
        doing);
  const auto times = times_of(entry);
  sys::check(::utimensat(place.parent, temporary.c_str(), times.data(), AT_SYMLINK_NOFOLLOW),
             doing);
  sys::check(::renameat(place.parent, temporary.c_str(), place.parent, place.name.c_str()), doing);
  remove.release();
}

void TreeWriter::begin_file(const Place& place, Entry entry) {
  check_replaceable(place.parent, place.name, shown(entry.path));
  temporary_ = temporary_name();
  // Our descriptor may write whatever the mode says. A file that will get its mode and owner at the
  // end must not be open to others before.
  const uint32_t mode = options_.archive ? 0600 : entry.mode & kPermissions;
  file_ = while_doing("copying to " + shown(entry.path), [&] {
    return sys::open_at(place.parent, temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  });
  file_parent_ = place.parent;
  file_name_ = place.name;
  file_entry_ = std::move(entry);
  hole_at_end_ = false;
}

static bool is_zero(ByteView data) {
  return data.front() == std::byte{0} &&
         std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

void TreeWriter::count(uint64_t bytes) {
  counts_.bytes += bytes;
  if (counts_.bytes > options_.max_bytes)
    throw Error(Kind::Exhausted,
                "the copy is larger than the limit of " + format_size(options_.max_bytes));
}

void TreeWriter::write_content(ByteView content) {
  if (content.size() >= kHole && is_zero(content)) return write_hole(content.size());
  count(content.size());
  hole_at_end_ = false;
  while_doing("copying to " + shown(file_entry_.path),
              [&] { sys::write_all(file_.get(), content); });
}

void TreeWriter::write_hole(uint64_t length) {
  count(length);
  hole_at_end_ = true;
  if (::lseek(file_.get(), static_cast<off_t>(length), SEEK_CUR) < 0)
    throw SystemError(errno, "copying to " + shown(file_entry_.path));
}

void TreeWriter::finish_file() {
  const std::string doing = "copying to " + shown(file_entry_.path);
  if (hole_at_end_)
    sys::resize_file(file_.get(), static_cast<uint64_t>(::lseek(file_.get(), 0, SEEK_CUR)), doing);
  set_metadata(file_.get(), file_entry_);
  sys::check(::renameat(file_parent_, temporary_.c_str(), file_parent_, file_name_.c_str()), doing);
  file_.reset();
}

void TreeWriter::add(Entry entry) {
  if (++counts_.entries > options_.max_entries)
    throw Error(Kind::Exhausted,
                "the copy has more than " + std::to_string(options_.max_entries) + " files");
  const Place place = locate(entry.path);
  if (entry.type == EntryType::Directory) return add_directory(place, std::move(entry));
  if (entry.path.empty() && must_be_directory_)
    throw Error(Kind::NotFound, "no directory " + shown(""));
  if (place.name.empty())
    throw Error(Kind::Conflict, shown("") + " is a directory, and the copy has no name in it");
  if (entry.type == EntryType::Symlink) return add_symlink(place, entry);
  begin_file(place, std::move(entry));
}

void TreeWriter::take(ByteView data) {
  while (auto event = decoder_.next(data)) {
    switch (event->what) {
      case EntryEvent::What::Entry:
        add(std::move(event->entry));
        break;
      case EntryEvent::What::Content:
        write_content(event->content);
        break;
      case EntryEvent::What::Hole:
        write_hole(event->hole);
        break;
      case EntryEvent::What::ContentEnd:
        finish_file();
        break;
      case EntryEvent::What::TreeEnd:
        leave_to(0);
        break;
    }
  }
  if (decoder_.faulted())
    throw Error(Kind::Unavailable, "the sandbox speaks garbage: a copy that does not decode");
}

}
