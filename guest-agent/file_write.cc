// fs.write: into a new file that then takes the old one's place, or into the file itself at an
// offset. Long runs of zeros become holes where the file is new.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

#include "decoded.h"
#include "files.h"
#include "passwd.h"
#include "place.h"

namespace mvm::guest {

namespace {

constexpr unsigned kNewFileMode = 0644;
constexpr size_t kBlock = 4096;

bool is_zero(ByteView data) {
  return std::all_of(data.begin(), data.end(), [](std::byte b) { return b == std::byte{0}; });
}

class Write final : public Stream {
 public:
  Write(Channel& channel, proto::WriteRequest request)
      : Stream(channel), request_(std::move(request)) {
    const auto owner = find_identity(request_.user.empty() ? "0" : request_.user);
    if (!owner) throw Error(Kind::Invalid, owner.error());
    owner_ = *owner;
    if (request_.offset || request_.append) {
      open_existing();
    } else {
      begin_replacement();
    }
  }
  ~Write() override {
    if (!temporary_.empty()) ::unlinkat(leaf_.directory.get(), temporary_.c_str(), 0);
  }

  void on_writable() override {}
  void on_lost() override { channel().end({}); }
  void on_frame(const proto::Frame& frame) override {
    switch (frame.type) {
      case proto::FrameType::Data:
        write(frame.payload);
        channel().consumed(frame.payload.size());
        return;
      case proto::FrameType::Eof:
        return finish();
      case proto::FrameType::Cancel:
        return channel().fail(Kind::Unavailable, "cancelled before the content was complete");
      default:
        return;
    }
  }

 private:
  std::string what() const { return shown(request_.place); }

  void set_owner_and_mode(uid_t uid, gid_t gid, uint32_t mode) {
    if (::geteuid() == 0)
      sys::check(::fchown(file_.get(), uid, gid), "setting the owner of " + what());
    sys::check(::fchmod(file_.get(), mode), "setting the mode of " + what());
  }

  void open_existing() {
    leaf_ = leaf_of(request_.place);
    const int flags = O_WRONLY | (request_.append ? O_APPEND : 0);
    bool made = false;
    if (request_.exclusive) {
      file_ = open_place(request_.place, flags | O_CREAT | O_EXCL, 0600);
      made = true;
    } else {
      try {
        file_ = open_place(request_.place, flags);
      } catch (const SystemError& error) {
        if (error.errno_value() != ENOENT) throw;
        file_ = open_place(request_.place, flags | O_CREAT, 0600);
        made = true;
      }
    }
    if (!sys::is_regular_file(file_.get()))
      throw Error(Kind::Conflict, what() + " is not a regular file");
    if (made)
      set_owner_and_mode(owner_.uid, owner_.gid, request_.mode.value_or(kNewFileMode));
    else if (request_.mode)
      sys::check(::fchmod(file_.get(), *request_.mode), "setting the mode of " + what());
    at_ = request_.offset.value_or(0);
  }

  void begin_replacement() {
    leaf_ = leaf_of(request_.place);
    struct stat old{};
    const bool exists =
        ::fstatat(leaf_.directory.get(), leaf_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && request_.exclusive) throw Error(Kind::Conflict, what() + " exists already");
    if (exists && S_ISDIR(old.st_mode)) throw Error(Kind::Conflict, what() + " is a directory");
    if (exists && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
      throw Error(Kind::Conflict, what() + " is not a regular file");
    const std::string name = temporary_name();
    file_ = while_doing("writing " + what(), [&] {
      return sys::open_at(leaf_.directory.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    });
    temporary_ = name;
    const bool keep = exists && S_ISREG(old.st_mode);
    // Not set-id bits: the content is another one's.
    const uint32_t mode = request_.mode.value_or(keep ? old.st_mode & 0777 : kNewFileMode);
    const bool keep_owner = keep && request_.user.empty();
    set_owner_and_mode(keep_owner ? old.st_uid : owner_.uid, keep_owner ? old.st_gid : owner_.gid,
                       mode);
  }

  void write(ByteView data) {
    if (data.size() > request_.limit - result_.bytes)
      throw Error(Kind::Exhausted,
                  "writing " + what() + ": more than the limit of " + format_size(request_.limit));
    while_doing("writing " + what(), [&] {
      while (!data.empty()) {
        // Up to the next block boundary, so that a whole block of zeros is seen as one.
        const size_t length =
            temporary_.empty() ? data.size()
                               : std::min(data.size(), kBlock - static_cast<size_t>(at_ % kBlock));
        put(data.first(length));
        data = data.subspan(length);
      }
    });
  }

  void put(ByteView piece) {
    const bool hole = !temporary_.empty() && piece.size() == kBlock && is_zero(piece);
    if (request_.append) {
      sys::write_all(file_.get(), piece);
    } else if (!hole) {
      sys::pwrite_all(file_.get(), piece, at_);
    }
    ends_in_hole_ = hole;
    at_ += piece.size();
    result_.bytes += piece.size();
  }

  void finish() {
    if (ends_in_hole_)
      sys::check(::ftruncate(file_.get(), static_cast<off_t>(at_)), "writing " + what());
    if (request_.sync)
      sys::check(sys::uninterrupted([&] { return ::fsync(file_.get()); }), "writing " + what());
    if (!temporary_.empty()) {
      const unsigned flags = request_.exclusive ? RENAME_NOREPLACE : 0;
      const int directory = leaf_.directory.get();
      sys::check(::syscall(SYS_renameat2, directory, temporary_.c_str(), directory,
                           leaf_.name.c_str(), flags),
                 "writing " + what());
      temporary_.clear();
      if (request_.sync) {
        const sys::Fd above = sys::open_at(directory, ".", O_RDONLY | O_DIRECTORY);
        sys::check(sys::uninterrupted([&] { return ::fsync(above.get()); }), "writing " + what());
      }
    }
    channel().end(proto::encode_ok(result_.encode()));
  }

  proto::WriteRequest request_;
  Identity owner_;
  Leaf leaf_;
  sys::Fd file_;
  std::string temporary_;  // of a replacement, until it is in place
  bool ends_in_hole_ = false;
  uint64_t at_ = 0;
  proto::WriteResult result_;
};

}

std::unique_ptr<Stream> open_write(Channel& channel, ByteView payload) {
  return std::make_unique<Write>(channel, decoded<proto::WriteRequest>(payload));
}

}
