// A file or tree here as an entry stream. It is read as it is found; what changes under way ends up
// in the copy one way or the other, but never makes a stream that lies about its structure.

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/agent/tree.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::agent {

// Whole pages, and with what is around it within one frame.
static constexpr size_t kChunk = 60 * 1024;
static_assert(kChunk + 4 <= proto::kMaxPayload && kChunk <= proto::kMaxChunk);

using proto::Entry;
using proto::EntryType;

struct TreeReader::Level {
  std::unique_ptr<DIR, int (*)(DIR*)> directory;
  std::string path;
  std::vector<std::string> names;  // with a view: what is left of them, the next one last
};

static std::optional<std::string> next_name(DIR* directory, const std::string& shown) {
  while (true) {
    errno = 0;
    const dirent* found = ::readdir(directory);
    if (found == nullptr) {
      if (errno != 0) throw SystemError(errno, "reading " + shown);
      return std::nullopt;
    }
    std::string name = found->d_name;
    if (name != "." && name != "..") return name;
  }
}

static Entry describe(const struct stat& status, std::string path) {
  Entry entry;
  entry.mode = status.st_mode & 07777;
  entry.uid = status.st_uid;
  entry.gid = status.st_gid;
  entry.mtime_seconds = status.st_mtim.tv_sec;
  entry.mtime_nanoseconds = static_cast<uint32_t>(status.st_mtim.tv_nsec);
  entry.path = std::move(path);
  return entry;
}

TreeReader::TreeReader(const std::string& path, bool follow, Note note,
                       std::optional<TreeView> view)
    : root_(path), note_(std::move(note)), view_(std::move(view)), chunk_(kChunk) {
  if (path.empty()) throw Error(Kind::Invalid, "a path cannot be empty");
  // The kernel follows a link with a slash behind it.
  add(AT_FDCWD, path, "", follow || path.back() == '/');
  if (counts_.entries == 0)
    throw Error(Kind::Unsupported, printable(path) + " is neither a file, a directory nor a link");
}

TreeReader::~TreeReader() = default;

std::string TreeReader::shown(const std::string& path) const {
  if (path.empty()) return printable(root_);
  return printable(root_ + (root_.back() == '/' ? "" : "/") + path);
}

void TreeReader::skip(const std::string& path, const char* why) {
  ++counts_.skipped;
  if (note_) note_(shown(path) + why);
}

void TreeReader::add(int parent, const std::string& name, const std::string& path, bool follow) {
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT && !path.empty()) return skip(path, " went away and is left out");
    throw SystemError(errno, "reading " + shown(path));
  }
  if (!kept(path, S_ISDIR(status.st_mode))) return;
  if (S_ISLNK(status.st_mode)) return add_symlink(parent, name, describe(status, path));
  // Opening a device can do things, and opening a pipe can wait.
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return skip(path, " is a socket, pipe or device and is left out");
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW);
  sys::Fd fd(sys::uninterrupted([&] { return ::openat(parent, name.c_str(), flags); }));
  if (!fd) {
    const bool changed = errno == ENOENT || errno == ELOOP || errno == ENXIO;
    if (changed && !path.empty()) return skip(path, " went away and is left out");
    throw SystemError(errno, "reading " + shown(path));
  }
  // What it was and what it is now may differ.
  sys::check(::fstat(fd.get(), &status), "reading " + shown(path));
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return skip(path, " is a socket, pipe or device and is left out");
  Entry entry = describe(status, path);
  entry.type = S_ISDIR(status.st_mode) ? EntryType::Directory : EntryType::File;
  entry.size = S_ISDIR(status.st_mode) ? 0 : static_cast<uint64_t>(status.st_size);
  add_opened(std::move(fd), status, std::move(entry));
}

bool TreeReader::kept(const std::string& path, bool directory) const {
  return path.empty() || !view_ || !view_->keep || view_->keep(path, directory);
}

void TreeReader::show(Entry& entry) const {
  if (!view_) return;
  const bool executable = (entry.mode & 0100) != 0 || entry.type == EntryType::Directory;
  entry.mode = entry.type == EntryType::Symlink ? 0777 : executable ? 0755 : 0644;
  entry.uid = entry.gid = 0;
  if (!view_->mtime) return;
  entry.mtime_seconds = *view_->mtime;
  entry.mtime_nanoseconds = 0;
}

void TreeReader::add_opened(sys::Fd fd, const struct stat& status, Entry entry) {
  show(entry);
  proto::append_entry(headers_, entry);
  ++counts_.entries;
  if (entry.type == EntryType::File) {
    large_ = entry.size >= kLargeFile;
    file_ = sys::SparseReader(std::move(fd), status);
    file_path_ = std::move(entry.path);
    return;
  }
  if (levels_.size() >= proto::kMaxCopyDepth)
    throw Error(Kind::Unsupported, shown(entry.path) + " is too deep to be copied");
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), &::closedir);
  if (!directory) throw SystemError(errno, "reading " + shown(entry.path));
  fd.release();
  levels_.push_back({std::move(directory), std::move(entry.path), {}});
  if (!view_) return;
  Level& level = levels_.back();
  while (auto name = next_name(level.directory.get(), shown(level.path)))
    level.names.push_back(std::move(*name));
  std::sort(level.names.begin(), level.names.end(), std::greater<>());
}

void TreeReader::add_symlink(int parent, const std::string& name, Entry entry) {
  entry.type = EntryType::Symlink;
  entry.target.resize(proto::kMaxPath + 1);
  const ssize_t length =
      ::readlinkat(parent, name.c_str(), entry.target.data(), entry.target.size());
  if (length < 0 && errno != ENOENT && errno != EINVAL)
    throw SystemError(errno, "reading " + shown(entry.path));
  if (length <= 0 || static_cast<size_t>(length) > proto::kMaxPath)
    return skip(entry.path, " is a link that cannot be read and is left out");
  entry.target.resize(static_cast<size_t>(length));
  show(entry);
  proto::append_entry(headers_, entry);
  ++counts_.entries;
}

bool TreeReader::produce_content(Bytes& out) {
  const auto piece = while_doing("reading " + shown(file_path_),
                                 [&] { return file_.next(chunk_, proto::kMaxHole); });
  if (piece.bytes == 0) {
    produce_no_data(out, piece.hole);
  } else {
    counts_.bytes += piece.bytes;
    proto::append_chunk(out, ByteView(chunk_).first(piece.bytes));
  }
  return true;
}

void TreeReader::produce_no_data(Bytes& out, uint64_t hole) {
  counts_.bytes += hole;
  if (hole > 0) return proto::append_hole(out, hole);
  proto::append_content_end(out);
  file_.reset();
}

size_t TreeReader::produce_into_pipe(Bytes& out, int pipe, size_t room) {
  MVM_ASSERT(at_large_file());
  const auto piece = while_doing("reading " + shown(file_path_),
                                 [&] { return file_.next_into_pipe(pipe, room, proto::kMaxHole); });
  if (!piece) {
    large_ = false;
    produce_content(out);
    return 0;
  }
  if (piece->bytes == 0) {
    produce_no_data(out, piece->hole);
  } else {
    counts_.bytes += piece->bytes;
    proto::append_chunk_head(out, piece->bytes);
  }
  return piece->bytes;
}

bool TreeReader::produce(Bytes& out) {
  if (done_) return false;
  if (!headers_.empty()) {
    Writer(out).bytes(headers_);
    headers_.clear();
    return true;
  }
  if (file_) return produce_content(out);
  while (!levels_.empty()) {
    Level& level = levels_.back();
    std::optional<std::string> name;
    if (!view_) {
      name = next_name(level.directory.get(), shown(level.path));
    } else if (!level.names.empty()) {
      name = std::move(level.names.back());
      level.names.pop_back();
    }
    if (name) return produce_next(*name);
    levels_.pop_back();
  }
  proto::append_tree_end(out);
  done_ = true;
  return true;
}

bool TreeReader::produce_next(const std::string& name) {
  const Level& level = levels_.back();
  const std::string path = level.path.empty() ? name : level.path + "/" + name;
  if (path.size() > proto::kMaxPath)
    throw Error(Kind::Unsupported, shown(path) + " has too long a path to be copied");
  const int directory = sys::check(::dirfd(level.directory.get()), "reading a directory");
  add(directory, name, path, false);
  return true;
}

}
