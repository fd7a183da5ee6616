#include "mvm/audit/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>

#include "mvm/audit/log.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::audit {

Reader::Reader(std::string directory, uint64_t after)
    : directory_(std::move(directory)), number_(after) {}

// False: there is nothing more for now.
bool Reader::open_next_file() {
  const auto numbers = file_numbers(directory_);
  const auto after = std::upper_bound(numbers.begin(), numbers.end(), number_);
  if (after == numbers.end()) return false;
  // The end of the file before may have been written since it was read to there; where there is a
  // next file it is the end for good.
  if (file_ && fill()) return true;
  number_ = *after;
  file_ = sys::open_own_file(directory_ + "/" + file_name(number_), O_RDONLY);
  offset_ = 0;
  buffer_.clear();
  consumed_ = 0;
  return true;
}

// More of the file behind what is in the buffer; false at its end.
bool Reader::fill() {
  constexpr size_t kPiece = 64 * 1024;
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  // No record is longer than a line may be: what stands there without an end is none.
  if (buffer_.size() > kMaxLine + kPiece) buffer_.erase(0, buffer_.size() - kMaxLine);
  const size_t have = buffer_.size();
  buffer_.resize(have + kPiece);
  const size_t got = sys::pread_some(
      file_.get(), std::as_writable_bytes(std::span(buffer_).subspan(have)), offset_);
  buffer_.resize(have + got);
  offset_ += got;
  return got != 0;
}

std::optional<Reader::Read> Reader::next() {
  while (true) {
    const size_t end = file_ ? buffer_.find('\n', consumed_) : buffer_.npos;
    if (end == buffer_.npos) {
      if ((file_ && fill()) || open_next_file()) continue;
      return std::nullopt;
    }
    const auto text = std::string_view(buffer_).substr(consumed_, end - consumed_);
    consumed_ = end + 1;
    if (auto line = parse(text)) return Read{text, std::move(*line)};
  }
}

bool Reader::wait(int stop) {
  if (!watch_) {
    watch_ = sys::watch_directory(directory_);
    return true;
  }
  std::array<pollfd, 2> events{pollfd{watch_.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
  while (::poll(events.data(), events.size(), -1) < 0)
    if (errno != EINTR) throw SystemError(errno, "waiting for audit records");
  sys::drain_watch(watch_.get());
  return events[1].revents == 0;
}

void for_each_record(const std::string& directory,
                     const std::function<void(std::string_view text, const Line& line)>& take) {
  Reader reader(directory);
  while (const auto read = reader.next()) take(read->text, read->line);
}

}
