// fs.read: a range of a regular file, a chunk a turn.
#include <algorithm>

#include <fcntl.h>

#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "decoded.h"
#include "files.h"
#include "place.h"

namespace mvm::guest {

namespace {

class Read final : public Producer {
 public:
  Read(loop::Loop& loop, Channel& channel, const proto::ReadRequest& request)
      : Producer(loop, channel),
        file_(open_place(request.place, O_RDONLY)),
        at_(request.offset),
        left_(request.length.value_or(proto::kMaxFileSize)) {
    if (sys::is_directory(file_.get()))
      throw Error(Kind::Invalid, shown(request.place) + " is a directory");
    // A device or a pipe has no end, no offset and no haste.
    if (!sys::is_regular_file(file_.get()))
      throw Error(Kind::Invalid, shown(request.place) + " is not a regular file");
    schedule();
  }

 private:
  bool produce() override {
    // Not more than can leave at once, so that nothing is read ahead of a host that does not read.
    const uint64_t wanted = std::min<uint64_t>({channel().room(), left_, proto::kMaxPayload});
    if (wanted == 0 && left_ > 0) return false;
    pending_.resize(static_cast<size_t>(wanted));
    const size_t got = wanted == 0 ? 0 : sys::pread_some(file_.get(), pending_, at_);
    pending_.resize(got);
    at_ += got;
    left_ -= got;
    result_.bytes += got;
    if (got == 0) {
      result_.size = sys::file_size(file_.get());
      channel().end(proto::encode_ok(result_.encode()));
    }
    return true;
  }

  sys::Fd file_;
  uint64_t at_;
  uint64_t left_;
  proto::ReadResult result_;
};

}

std::unique_ptr<Stream> open_read(loop::Loop& loop, Channel& channel, ByteView payload) {
  return std::make_unique<Read>(loop, channel, decoded<proto::ReadRequest>(payload));
}

}
