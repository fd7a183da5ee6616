// fs.list: one walk over a directory of any size, in pieces, nothing remembered but the place.
#include <cerrno>

#include <dirent.h>
#include <fcntl.h>

#include "mvm/sys/error.h"

#include "decoded.h"
#include "files.h"
#include "place.h"

namespace mvm::guest {

namespace {

constexpr size_t kEntriesPerTurn = 256;
constexpr size_t kBytesPerTurn = 32 * 1024;

class List final : public Producer {
 public:
  List(loop::Loop& loop, Channel& channel, const proto::ListRequest& request)
      : Producer(loop, channel),
        limit_(request.limit == 0 ? proto::kMaxListEntries : request.limit),
        directory_(nullptr, &::closedir) {
    sys::Fd fd = open_place(request.place, O_RDONLY | O_DIRECTORY);
    directory_.reset(::fdopendir(fd.get()));
    if (!directory_) throw SystemError(errno, "listing " + shown(request.place));
    fd.release();  // the stream's now
    schedule();
  }

 private:
  bool produce() override {
    for (size_t i = 0; !over_ && i < kEntriesPerTurn && pending_.size() < kBytesPerTurn; ++i) {
      errno = 0;
      const dirent* found = ::readdir(directory_.get());
      if (found == nullptr && errno != 0) throw SystemError(errno, "reading a directory");
      const std::string_view name = found == nullptr ? std::string_view() : found->d_name;
      if (name == "." || name == "..") continue;
      if (found == nullptr || result_.entries == limit_) {
        result_.truncated = found != nullptr;
        over_ = true;
        continue;
      }
      add(std::string(name));
    }
    if (over_ && pending_.empty()) channel().end(proto::encode_ok(result_.encode()));
    return true;
  }

  void add(std::string name) {
    proto::ListEntry entry;
    try {
      entry.status = status_at(::dirfd(directory_.get()), name);
    } catch (const SystemError& error) {
      if (error.errno_value() == ENOENT) return;  // removed meanwhile
      throw;
    }
    entry.name = std::move(name);
    proto::append_record(pending_, entry.encode());
    ++result_.entries;
  }

  uint64_t limit_;
  std::unique_ptr<DIR, int (*)(DIR*)> directory_;
  proto::ListResult result_;
  bool over_ = false;
};

}

std::unique_ptr<Stream> open_list(loop::Loop& loop, Channel& channel, ByteView payload) {
  return std::make_unique<List>(loop, channel, decoded<proto::ListRequest>(payload));
}

}
