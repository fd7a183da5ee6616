#include "get.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::guest {

using proto::Entry;
using proto::EntryType;

// Tells a mount point from a directory: device numbers do not, for overlayfs gives files several.
static uint64_t mount_of(int fd, const std::string& shown) {
  struct statx status{};
  sys::check(::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status), "reading " + shown);
  return status.stx_mnt_id;
}

static Entry describe(const struct stat& status, const std::string& path) {
  Entry entry;
  entry.mode = status.st_mode & 07777;
  entry.uid = status.st_uid;
  entry.gid = status.st_gid;
  entry.mtime_seconds = status.st_mtim.tv_sec;
  entry.mtime_nanoseconds = static_cast<uint32_t>(status.st_mtim.tv_nsec);
  entry.path = path;
  return entry;
}

Get::Get(Channel& channel, const proto::GetRequest& request)
    : Stream(channel), root_(request.path) {
  std::string path = request.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!add(AT_FDCWD, path, "", request.follow))
    throw Error(Kind::Unsupported, printable(path) + " is neither a file nor a directory");
  pump();
}

std::string Get::shown(const std::string& path) const {
  return printable(path.empty() ? root_ : root_ + "/" + path);
}

static sys::Fd try_open(int parent, const std::string& name, int flags) {
  return sys::Fd(sys::uninterrupted(
      [&] { return ::openat(parent, name.c_str(), flags | O_RDONLY | O_NOCTTY | O_CLOEXEC); }));
}

// Opens a file or directory for reading and learns what it really is: between looking and opening,
// the sandbox may have put something else there.
bool Get::enter(int parent, const std::string& name, Entry& entry, bool follow) {
  const int nofollow = follow ? 0 : O_NOFOLLOW;
  // Without O_NONBLOCK a pipe put there meanwhile would hold us up.
  sys::Fd fd = try_open(parent, name, O_NONBLOCK | nofollow);
  if (!fd) {
    if (errno == ENOENT || errno == ELOOP || errno == ENXIO) return false;
    throw SystemError(errno, "reading " + shown(entry.path));
  }
  struct stat status{};
  sys::check(::fstat(fd.get(), &status), "reading " + shown(entry.path));
  entry = describe(status, entry.path);
  if (S_ISREG(status.st_mode)) {
    entry.type = EntryType::File;
    entry.size = static_cast<uint64_t>(status.st_size);
    proto::append_entry(pending_, entry);
    file_ = sys::SparseReader(std::move(fd), status);
    file_path_ = entry.path;
    return true;
  }
  if (!S_ISDIR(status.st_mode)) return false;
  const uint64_t mount = mount_of(fd.get(), shown(entry.path));
  if (entry.path.empty()) mount_ = mount;
  if (mount != mount_) return false;
  if (levels_.size() >= proto::kMaxCopyDepth)
    throw Error(Kind::Unsupported, shown(entry.path) + " is too deep to be copied");
  entry.type = EntryType::Directory;
  proto::append_entry(pending_, entry);
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), &::closedir);
  if (!directory) throw SystemError(errno, "reading " + shown(entry.path));
  const int borrowed = fd.release();
  levels_.push_back({std::move(directory), borrowed, entry.path});
  return true;
}

bool Get::add(int parent, const std::string& name, const std::string& path, bool follow) {
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    if (path.empty() || errno != ENOENT) throw SystemError(errno, "reading " + shown(path));
    return false;  // removed meanwhile
  }
  Entry entry = describe(status, path);
  bool added = false;
  if (S_ISLNK(status.st_mode)) {
    entry.type = EntryType::Symlink;
    entry.target.resize(proto::kMaxPath + 1);
    const ssize_t length =
        ::readlinkat(parent, name.c_str(), entry.target.data(), entry.target.size());
    // Removed meanwhile, or replaced by what is no link.
    if (length < 0 && errno != ENOENT && errno != EINVAL)
      throw SystemError(errno, "reading " + shown(path));
    if (length <= 0 || static_cast<size_t>(length) > proto::kMaxPath) return false;
    entry.target.resize(static_cast<size_t>(length));
    proto::append_entry(pending_, entry);
    added = true;
  } else if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
    added = enter(parent, name, entry, follow);
  }
  if (added) ++result_.entries;
  return added;
}

void Get::produce_content() {
  const auto piece = while_doing("reading " + shown(file_path_),
                                 [&] { return file_.next(chunk_, proto::kMaxHole); });
  result_.bytes += piece.bytes + piece.hole;
  if (piece.hole > 0) {
    proto::append_hole(pending_, piece.hole);
  } else if (piece.bytes > 0) {
    proto::append_chunk(pending_, ByteView(chunk_).first(piece.bytes));
  } else {
    proto::append_content_end(pending_);
    file_.reset();
  }
}

// Encodes the next piece of the stream.
void Get::produce() {
  if (file_) return produce_content();
  while (!levels_.empty()) {
    const Level& level = levels_.back();
    errno = 0;
    const dirent* entry = ::readdir(level.directory.get());
    if (entry == nullptr) {
      if (errno != 0) throw SystemError(errno, "reading " + shown(level.path));
      levels_.pop_back();
      continue;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = level.path.empty() ? name : level.path + "/" + name;
    if (path.size() > proto::kMaxPath)
      throw Error(Kind::Unsupported, shown(path) + " is too deep to be copied");
    if (add(level.fd, name, path, false)) return;
    ++result_.skipped;
  }
  proto::append_tree_end(pending_);
  done_ = true;
}

// Credit and the connection's queue bound what one call does.
void Get::pump() {
  while (true) {
    if (pending_begin_ == pending_.size()) {
      pending_.clear();
      pending_begin_ = 0;
      if (done_) {
        channel().end(proto::encode_ok(result_.encode()));
        return;
      }
    }
    const size_t room = channel().room();
    if (room == 0) return;
    if (pending_.empty()) produce();
    const auto piece = ByteView(pending_).subspan(pending_begin_);
    const auto sent = piece.first(std::min(piece.size(), room));
    channel().bulk(proto::FrameType::Data, sent);
    pending_begin_ += sent.size();
  }
}

void Get::on_writable() {
  try {
    pump();
  } catch (const Error& error) {
    channel().fail(error.kind(), error.message());
  }
}

void Get::on_frame(const proto::Frame& frame) {
  if (frame.type == proto::FrameType::Cancel)
    throw Error(Kind::Unavailable, "the copy was cancelled");
  if (frame.type == proto::FrameType::Data) channel().consumed(frame.payload.size());
}

}
