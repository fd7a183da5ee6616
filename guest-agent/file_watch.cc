// fs.watch: inotify(7) events of one file or directory. What the host does not take in time is
// dropped and said so by one Overflow, as the kernel does with its own queue.
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "mvm/sys/error.h"

#include "decoded.h"
#include "files.h"
#include "place.h"

namespace mvm::guest {

namespace {

constexpr size_t kMaxHeld = 64 * 1024;  // bytes of events that wait for credit
constexpr uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_DELETE_SELF |
                             IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_CLOSE_WRITE;

using proto::WatchEvent;
using proto::WatchKind;

struct Meaning {
  uint32_t mask;
  WatchKind kind;
};
constexpr std::array<Meaning, 7> kMeanings{{{IN_CREATE, WatchKind::Created},
                                            {IN_MODIFY, WatchKind::Modified},
                                            {IN_ATTRIB, WatchKind::Attributes},
                                            {IN_DELETE, WatchKind::Removed},
                                            {IN_MOVED_FROM, WatchKind::MovedFrom},
                                            {IN_MOVED_TO, WatchKind::MovedTo},
                                            {IN_CLOSE_WRITE, WatchKind::Closed}}};

class FileWatch final : public Producer {
 public:
  FileWatch(loop::Loop& loop, Channel& channel, const proto::WatchRequest& request)
      : Producer(loop, channel),
        events_(sys::check(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "watching files")) {
    const sys::Fd target = open_place(request.place, O_PATH);
    // The kernel takes a path only; this one names what was opened, whatever happens to the name.
    const std::string path = "/proc/self/fd/" + std::to_string(target.get());
    sys::check(::inotify_add_watch(events_.get(), path.c_str(), kEvents),
               "watching " + shown(request.place));
    add({WatchKind::Ready, "", 0});
    watch_ = loop.watch(events_.get(), EPOLLIN, [this](uint32_t) { read_events(); });
    schedule();
  }

 private:
  bool produce() override {
    pending_.swap(waiting_);
    if (overflowed_ && pending_.size() < kMaxHeld) {
      overflowed_ = false;
      proto::append_record(pending_, WatchEvent{WatchKind::Overflow, "", 0}.encode());
    }
    if (gone_ && pending_.empty()) channel().end(proto::encode_ok());
    return gone_ || !pending_.empty();
  }

  void add(const WatchEvent& event) {
    if (waiting_.size() + held() >= kMaxHeld || overflowed_) {
      overflowed_ = true;
      return;
    }
    proto::append_record(waiting_, event.encode());
  }

  void read_events() {
    // Aligned for the structs in it: inotify(7).
    alignas(inotify_event) std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::read(events_.get(), buffer.data(), buffer.size());
    for (ssize_t at = 0; at < got;) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* const name = buffer.data() + at + sizeof event;
      take(event, event.len == 0 ? std::string() : std::string(name, ::strnlen(name, event.len)));
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
    schedule();
  }

  void take(const inotify_event& event, const std::string& name) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) overflowed_ = true;
    for (const auto& meaning : kMeanings)
      if ((event.mask & meaning.mask) != 0) add({meaning.kind, name, event.cookie});
    if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) == 0 || gone_)
      return;
    add({WatchKind::Gone, "", 0});
    gone_ = true;
    watch_.reset();
  }

  sys::Fd events_;
  loop::Watch watch_;
  Bytes waiting_;  // records not yet being sent
  bool overflowed_ = false;
  bool gone_ = false;
};

}

std::unique_ptr<Stream> open_watch(loop::Loop& loop, Channel& channel, ByteView payload) {
  return std::make_unique<FileWatch>(loop, channel, decoded<proto::WatchRequest>(payload));
}

}
