#include "put.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

using proto::Entry;
using proto::EntryEvent;
using proto::EntryType;

static constexpr unsigned kSetId = 06000;
static constexpr unsigned kPermissions = 07777;
// One read of a lane where it is not known to be a large file's content, and how many reads a turn
// takes.
static constexpr size_t kLaneRead = size_t{64} * 1024;
static constexpr int kLaneReads = 16;

static void require(int result, const std::string& doing) { sys::check(result, doing); }

// ---- where it goes ----------------------------------------------------------------------------

Put::Put(loop::Loop& loop, Channel& channel, proto::PutRequest request, Tools& tools)
    : Stream(channel),
      loop_(&loop),
      request_(std::move(request)),
      tools_(&tools),
      is_root_(::geteuid() == 0) {
  const auto found = find_identity(request_.user.empty() ? "0" : request_.user);
  if (!found) throw Error(Kind::Invalid, found.error());
  owner_ = *found;
  find_destination();
}

Put::~Put() {
  // A copy that ended half-way leaves whole files and no temporary ones.
  if (file_) ::unlinkat(file_parent_, temporary_.c_str(), 0);
  if (lane_) --tools_->lanes;
}

static bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The destination is the caller's word and is looked up like any path, links followed.
void Put::find_destination() {
  std::string path = request_.path;
  const bool must_be_directory = path.back() == '/' || path.ends_with("/.");
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (request_.make_parents && must_be_directory) sys::make_directories(path, 0755);
  if (is_directory(path)) {
    parent_ = sys::open_file(path, O_RDONLY | O_DIRECTORY);
    leaf_ = request_.name;
    return;
  }
  if (must_be_directory) throw Error(Kind::NotFound, "no directory " + printable(path));
  const size_t slash = path.rfind('/');
  const std::string above = slash == 0 ? "/" : path.substr(0, slash);
  leaf_ = path.substr(slash + 1);
  if (!proto::is_tree_path(leaf_))
    throw Error(Kind::Invalid, "not a destination: " + printable(request_.path));
  if (request_.make_parents) sys::make_directories(above, 0755);
  parent_ = sys::open_file(above, O_RDONLY | O_DIRECTORY);
}

std::string Put::shown(const std::string& path) const {
  std::string text = request_.path;
  if (!path.empty()) text += (text.back() == '/' ? "" : "/") + path;
  return printable(text);
}

std::pair<int, std::string> Put::locate(const std::string& path) {
  if (path.empty()) return {parent_.get(), leaf_};
  if (levels_.empty())
    throw Error(Kind::Invalid, "the copied thing is not a directory and has entries below it");
  const auto names = split(path, '/');
  // levels_[0] is the copied directory, levels_[i] the i-th component below it.
  size_t depth = 1;
  while (depth < levels_.size() && depth < names.size() && levels_[depth].name == names[depth - 1])
    ++depth;
  leave_to(depth);
  while (levels_.size() < names.size()) {
    const std::string name(names[levels_.size() - 1]);
    Level level;
    level.name = name;
    level.fd = while_doing("copying to " + shown(path), [&] {
      return sys::open_at(levels_.back().fd.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    });
    levels_.push_back(std::move(level));
  }
  return {levels_.back().fd.get(), std::string(names.back())};
}

// ---- what it is -------------------------------------------------------------------------------

static std::array<timespec, 2> times_of(const Entry& entry) {
  return {timespec{0, UTIME_OMIT}, timespec{static_cast<time_t>(entry.mtime_seconds),
                                            static_cast<long>(entry.mtime_nanoseconds)}};
}

// What is right already is left alone: each change is a transaction of the file system, and with
// many small files that is most of the work.
dev_t Put::set_metadata(int fd, const Entry& entry) {
  struct stat now{};
  require(::fstat(fd, &now), "looking at " + shown(entry.path));
  const uid_t uid = request_.preserve_owner ? entry.uid : owner_.uid;
  const gid_t gid = request_.preserve_owner ? entry.gid : owner_.gid;
  const bool change_owner = is_root_ && (now.st_uid != uid || now.st_gid != gid);
  if (change_owner) require(::fchown(fd, uid, gid), "setting the owner of " + shown(entry.path));
  // A program that is set-id for its owner there must not be so for another owner here.
  const uint32_t mode = request_.preserve_owner ? entry.mode : entry.mode & ~kSetId;
  if (change_owner || (now.st_mode & kPermissions) != mode)
    require(::fchmod(fd, mode), "setting the mode of " + shown(entry.path));
  const auto times = times_of(entry);
  require(::futimens(fd, times.data()), "setting the time of " + shown(entry.path));
  return now.st_dev;
}

// Directories get their metadata when nothing more will be written into them.
void Put::leave_to(size_t depth) {
  while (levels_.size() > depth) {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.ours) set_metadata(level.fd.get(), level.entry);
  }
}

void Put::add_directory(int parent, const std::string& name, Entry entry) {
  Level level;
  if (name.empty()) {  // merged into the destination itself
    level.fd = parent_.duplicate();
  } else {
    const bool made = ::mkdirat(parent, name.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) throw SystemError(errno, "making directory " + shown(entry.path));
    level.ours = made;
    level.fd = while_doing("copying to " + shown(entry.path), [&] {
      return sys::open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    });
  }
  level.name = name;
  level.entry = std::move(entry);
  levels_.push_back(std::move(level));
}

// What a file may replace: a file or a link. Never a directory, and never a device: "replacing"
// /dev/null would be no favour to anybody. Returns the device of a regular file.
static std::optional<dev_t> check_replaceable(int parent, const std::string& name,
                                              const std::string& shown) {
  struct stat status{};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (S_ISDIR(status.st_mode)) throw Error(Kind::Conflict, shown + " is a directory");
  if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
    throw Error(Kind::Conflict, shown + " is not a regular file");
  return S_ISREG(status.st_mode) ? std::optional(status.st_dev) : std::nullopt;
}

// Unforeseeable, so that nobody in the sandbox can be there first.
static std::string temporary_name() {
  std::array<std::byte, 12> random;
  if (::getrandom(random.data(), random.size(), 0) < 0)
    throw SystemError(errno, "making a file name");
  return ".mvm-" + hex(random) + ".tmp";
}

void Put::add_symlink(int parent, const std::string& name, const Entry& entry) {
  check_replaceable(parent, name, shown(entry.path));
  const std::string temporary = temporary_name();
  require(::symlinkat(entry.target.c_str(), parent, temporary.c_str()),
          "making link " + shown(entry.path));
  ScopeExit remove([&] { ::unlinkat(parent, temporary.c_str(), 0); });
  if (is_root_) {
    const uid_t uid = request_.preserve_owner ? entry.uid : owner_.uid;
    const gid_t gid = request_.preserve_owner ? entry.gid : owner_.gid;
    require(::fchownat(parent, temporary.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW),
            "setting the owner of " + shown(entry.path));
  }
  const auto times = times_of(entry);
  require(::utimensat(parent, temporary.c_str(), times.data(), AT_SYMLINK_NOFOLLOW),
          "setting the time of " + shown(entry.path));
  require(::renameat(parent, temporary.c_str(), parent, name.c_str()),
          "making link " + shown(entry.path));
  remove.release();
}

void Put::begin_file(int parent, const std::string& name, Entry entry) {
  replaced_device_ = check_replaceable(parent, name, shown(entry.path));
  temporary_ = temporary_name();
  file_parent_ = parent;
  file_name_ = name;
  file_entry_ = std::move(entry);
  while_doing("copying to " + shown(file_entry_.path), [&] {
    file_.begin(sys::open_at(parent, temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                             file_entry_.mode & 0777),
                file_entry_.size);
  });
}

void Put::write_content(ByteView content) {
  while_doing("copying to " + shown(file_entry_.path), [&] { file_.write(content); });
  result_.bytes += content.size();
}

void Put::finish_file() {
  while_doing("copying to " + shown(file_entry_.path), [&] { file_.finish(); });
  const dev_t device = set_metadata(file_.fd(), file_entry_);
  // On another device is a file of the image: exchanged, it would first be copied up to the
  // writable layer.
  if (replaced_device_ != device || !exchange())
    require(::renameat(file_parent_, temporary_.c_str(), file_parent_, file_name_.c_str()),
            "putting " + shown(file_entry_.path) + " in place");
  file_.close();
}

// False when nothing has changed: the file system cannot, or the old file has gone.
bool Put::exchange() {
  const auto swap = [this] {
    return ::syscall(SYS_renameat2, file_parent_, temporary_.c_str(), file_parent_,
                     file_name_.c_str(), RENAME_EXCHANGE) == 0;
  };
  if (!swap()) return false;
  // Fails where somebody put a directory there meanwhile, which then stays.
  if (::unlinkat(file_parent_, temporary_.c_str(), 0) != 0) {
    const int error = errno;
    swap();
    throw SystemError(error, "putting " + shown(file_entry_.path) + " in place");
  }
  exchanged_ = true;
  return true;
}

void Put::add(Entry entry) {
  const auto [parent, name] = locate(entry.path);
  ++result_.entries;
  if (entry.type == EntryType::Directory) return add_directory(parent, name, std::move(entry));
  if (name.empty())
    throw Error(Kind::Conflict, shown("") + " is a directory, and the copy has no name in it");
  if (entry.type == EntryType::Symlink) return add_symlink(parent, name, entry);
  begin_file(parent, name, std::move(entry));
}

// ---- the stream -------------------------------------------------------------------------------

void Put::take(ByteView data) {
  while (auto event = decoder_.next(data)) {
    switch (event->what) {
      case EntryEvent::What::Entry:
        add(std::move(event->entry));
        break;
      case EntryEvent::What::Content:
        write_content(event->content);
        break;
      case EntryEvent::What::Hole:
        while_doing("copying to " + shown(file_entry_.path), [&] { file_.hole(event->hole); });
        result_.bytes += event->hole;
        break;
      case EntryEvent::What::ContentEnd:
        finish_file();
        break;
      case EntryEvent::What::TreeEnd:
        leave_to(0);
        channel().end(proto::encode_ok(result_.encode()));
        if (exchanged_ && tools_->write_out) tools_->write_out();
        return;
    }
  }
  if (decoder_.faulted()) throw Error(Kind::Invalid, "the copy's data is malformed");
}

void Put::open_lane() {
  if (lane_ || !tools_->listen_lane) throw Error(Kind::Invalid, "the copy's data ended early");
  if (tools_->lanes == kMaxLanes)
    throw Error(Kind::Exhausted, "the sandbox takes as many large copies at once as it can");
  lane_.emplace(*loop_, tools_->listen_lane(), channel(), [this] { on_lane(); });
  ++tools_->lanes;
  from_lane_ = std::make_unique_for_overwrite<std::byte[]>(kLaneRead);
  channel().event(proto::LaneOpened{lane_->port()}.encode());
}

// A bounded piece a turn, as everything here.
void Put::on_lane() {
  for (int reads = 0; reads < kLaneReads && channel().is_open(); ++reads)
    if (!read_lane()) return;
}

// The content of a large file goes straight to where it is written from.
bool Put::read_lane() {
  std::span<std::byte> into(from_lane_.get(), kLaneRead);
  const std::span<std::byte> room = file_ ? file_.space() : std::span<std::byte>();
  const bool content = !room.empty() && decoder_.content_left() > 0;
  if (content) {
    into = room.first(std::min(room.size(), decoder_.content_left()));
  } else if (!room.empty() && decoder_.chunk_head_left() > 0) {
    into = into.first(decoder_.chunk_head_left());
  }
  const auto got = sys::read_some(lane_->socket(), into);
  if (!got) return false;
  if (*got == 0) throw Error(Kind::Unavailable, "the copy's data ended early");
  if (content) {
    decoder_.skip(*got);
    result_.bytes += *got;
    while_doing("copying to " + shown(file_entry_.path), [&] { file_.commit(*got); });
  } else {
    take(ByteView(into).first(*got));
  }
  // One that is not filled has emptied the socket.
  return *got == into.size();
}

void Put::on_frame(const proto::Frame& frame) {
  switch (frame.type) {
    case proto::FrameType::Data:
      if (lane_) throw Error(Kind::Invalid, "the copy's data comes by its lane");
      take(frame.payload);
      channel().consumed(frame.payload.size());
      return;
    case proto::FrameType::Eof:
      return open_lane();
    case proto::FrameType::Cancel:
      throw Error(Kind::Unavailable, "the copy was cancelled");
    default:
      return;
  }
}

}
