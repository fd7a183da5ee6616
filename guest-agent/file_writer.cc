#include "file_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

// Of memory, of places in the file and of lengths: enough for every disk.
static constexpr size_t kBlock = 4096;

void FileWriter::begin(sys::Fd file, uint64_t size) {
  file_ = std::move(file);
  filled_ = 0;
  at_ = length_ = 0;
  large_ = size >= kLarge;
  direct_ = false;
  if (!large_) return;
  if (buffer_.size() == 0)
    buffer_ =
        sys::Mapping::map(-1, 0, kBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  // As long as it will be: each piece would else be a change of its length, which goes to the
  // journal. A guess that is too large for the file system is no more than that.
  if (::ftruncate(file_.get(), static_cast<off_t>(std::min<uint64_t>(size, INT64_MAX))) == 0)
    length_ = size;
  direct_ = ::fcntl(file_.get(), F_SETFL, O_DIRECT) == 0;
}

void FileWriter::leave_direct() {
  direct_ = false;
  sys::check(::fcntl(file_.get(), F_SETFL, 0), "writing");
}

void FileWriter::write_through(ByteView data) {
  if (direct_) {
    const size_t whole = at_ % kBlock == 0 ? data.size() - data.size() % kBlock : 0;
    try {
      sys::pwrite_all(file_.get(), data.first(whole), at_);
      at_ += whole;
      length_ = std::max(length_, at_);
      data = data.subspan(whole);
    } catch (const SystemError& error) {
      if (error.errno_value() != EINVAL) throw;  // refused only now: overlayfs on a tmpfs
    }
    if (data.empty()) return;
    leave_direct();
  }
  sys::pwrite_all(file_.get(), data, at_);
  at_ += data.size();
  length_ = std::max(length_, at_);
}

void FileWriter::flush() {
  write_through(ByteView(buffer_.bytes()).first(std::exchange(filled_, 0)));
}

std::span<std::byte> FileWriter::space() {
  return large_ ? buffer_.bytes().subspan(filled_) : std::span<std::byte>();
}

void FileWriter::commit(size_t length) {
  filled_ += length;
  if (filled_ == kBuffer) flush();
}

void FileWriter::write(ByteView content) {
  if (!large_) return write_through(content);
  while (!content.empty()) {
    const auto room = space();
    const size_t length = std::min(room.size(), content.size());
    std::memcpy(room.data(), content.data(), length);
    commit(length);
    content = content.subspan(length);
  }
}

// The file is new, so what is passed over is a hole.
void FileWriter::hole(uint64_t length) {
  if (filled_ > 0) flush();
  if (length > static_cast<uint64_t>(INT64_MAX) - at_) throw SystemError(EFBIG, "writing");
  at_ += length;
}

void FileWriter::finish() {
  if (filled_ > 0) flush();
  if (length_ != at_) sys::check(::ftruncate(file_.get(), static_cast<off_t>(at_)), "writing");
}

void FileWriter::close() noexcept { file_.reset(); }

}
