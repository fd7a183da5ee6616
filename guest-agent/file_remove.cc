// fs.remove: a tree is taken down from its leaves, some entries a turn. Each directory is entered
// from its parent's descriptor, without following links and without crossing to another file
// system, so nothing outside the tree is ever touched, whoever moves things meanwhile.
#include <cerrno>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/proto/copy.h"
#include "mvm/sys/error.h"

#include "decoded.h"
#include "files.h"
#include "place.h"

namespace mvm::guest {

namespace {

constexpr int kEntriesPerTurn = 128;

class Remove final : public Stream {
 public:
  Remove(loop::Loop& loop, Channel& channel, const proto::RemoveRequest& request)
      : Stream(channel), loop_(&loop), what_(shown(request.place)), top_(leaf_of(request.place)) {
    if (remove_plain(top_.directory.get(), top_.name, request.recursive)) {
      finish();
    } else {
      enter(top_.directory.get(), top_.name);
      schedule();
    }
  }

  void on_writable() override {}
  void on_lost() override { channel().end({}); }
  void on_frame(const proto::Frame& frame) override {
    if (frame.type == proto::FrameType::Cancel)
      channel().fail(Kind::Unavailable, "cancelled; some of it may be gone");
    else if (frame.type == proto::FrameType::Data)
      channel().consumed(frame.payload.size());
  }

 private:
  struct Level {
    std::string name;
    std::unique_ptr<DIR, int (*)(DIR*)> directory;
  };

  void schedule() {
    next_ = loop_->after(std::chrono::milliseconds(0), [this] { turn(); });
  }

  void finish() { channel().end(proto::encode_ok(result_.encode())); }

  // True when the entry is gone; false when it is a directory that has to be emptied first.
  bool remove_plain(int parent, const std::string& name, bool recursive) {
    if (::unlinkat(parent, name.c_str(), 0) == 0) return ++result_.entries, true;
    if (errno != EISDIR && errno != EPERM) throw SystemError(errno, "removing " + what_);
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0) return ++result_.entries, true;
    if (errno == ENOTEMPTY && !recursive)
      throw Error(Kind::Conflict, what_ + " is a directory and not empty");
    if (errno != ENOTEMPTY) throw SystemError(errno, "removing " + what_);
    return false;
  }

  void enter(int parent, const std::string& name) {
    if (levels_.size() >= proto::kMaxCopyDepth)
      throw Error(Kind::Exhausted, "removing " + what_ + ": directories are nested deeper than " +
                                       std::to_string(proto::kMaxCopyDepth));
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
    const long raw = ::syscall(SYS_openat2, parent, name.c_str(), &how, sizeof how);
    if (raw < 0 && errno == EXDEV)
      throw Error(Kind::Conflict,
                  "removing " + what_ + ": " + printable(name) + " in it is another file system");
    sys::Fd fd(static_cast<int>(sys::check(raw, "removing " + what_)));
    Level level{name, {::fdopendir(fd.get()), &::closedir}};
    if (!level.directory) throw SystemError(errno, "removing " + what_);
    fd.release();
    levels_.push_back(std::move(level));
  }

  void turn() {
    next_.reset();
    if (!channel().is_open()) return;
    try {
      for (int i = 0; i < kEntriesPerTurn && !levels_.empty(); ++i) step();
      if (!levels_.empty()) return schedule();
      finish();
    } catch (const Error& error) {
      channel().fail(error.kind(), error.message());
    }
  }

  void step() {
    DIR* const directory = levels_.back().directory.get();
    const int fd = sys::check(::dirfd(directory), "emptying a directory");
    errno = 0;
    const dirent* found = ::readdir(directory);
    if (found == nullptr && errno != 0) throw SystemError(errno, "emptying a directory");
    if (found == nullptr) return leave();
    const std::string name = found->d_name;
    if (name == "." || name == "..") return;
    if (!remove_plain(fd, name, true)) enter(fd, name);
  }

  // The directory has been read to its end. It may have got new entries, or a file system that
  // loses its place in a directory that shrinks may have passed over some: then once more.
  void leave() {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    const int parent = levels_.empty() ? top_.directory.get()
                                       : sys::check(::dirfd(levels_.back().directory.get()),
                                                    "emptying a directory");
    if (!remove_plain(parent, level.name, true)) enter(parent, level.name);
  }

  loop::Loop* loop_;
  std::string what_;
  Leaf top_;
  std::vector<Level> levels_;
  proto::RemoveResult result_;
  loop::Watch next_;
};

}

std::unique_ptr<Stream> open_remove(loop::Loop& loop, Channel& channel, ByteView payload) {
  return std::make_unique<Remove>(loop, channel, decoded<proto::RemoveRequest>(payload));
}

}
