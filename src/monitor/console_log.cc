#include "console_log.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::monitor {

static constexpr size_t kMaxPending = 16 * 1024;
static constexpr size_t kMaxLine = 512;
static constexpr std::string_view kPanic = "Kernel panic - not syncing";

ConsoleLog::ConsoleLog(sys::Fd file) : file_(std::move(file)), end_(sys::file_size(file_.get())) {
  pending_.reserve(kMaxPending);
  line_.reserve(kMaxLine);
}

void ConsoleLog::write(ByteView output) noexcept {
  const std::lock_guard lock(mutex_);
  bool line_ended = false;
  for (const char c : as_text(output)) {
    pending_ += c;
    if (c != '\n' && line_.size() < kMaxLine) line_ += c;
    if (pending_.size() == kMaxPending) flush_locked();
    if (c != '\n') continue;
    line_ended = true;
    const size_t at = line_.find(kPanic);
    if (at != std::string::npos && panic_.empty()) panic_ = line_.substr(at);
    line_.clear();
  }
  // A write a call, not a write a line: lines are the guest's to choose.
  if (line_ended) flush_locked();
}

void ConsoleLog::flush() noexcept {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

void ConsoleLog::flush_locked() noexcept {
  if (pending_.empty()) return;
  try {
    if (end_ - released_ < kMost) {
      sys::pwrite_all(file_.get(), as_bytes(pending_), end_);
      end_ += pending_.size();
    }
  } catch (const Error&) {
    // A full disk costs the operator console output, never the guest its run.
  }
  pending_.clear();
  if (end_ - released_ < kKeep + kStep || cannot_release_) return;
  const uint64_t keep_from = (end_ - kKeep) / kStep * kStep;
  if (::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(released_), static_cast<off_t>(keep_from - released_)) == 0)
    released_ = keep_from;
  else
    cannot_release_ = errno == EOPNOTSUPP || errno == ENOSYS;
}

std::string ConsoleLog::panic_message() const {
  const std::lock_guard lock(mutex_);
  const size_t at = line_.find(kPanic);
  if (panic_.empty() && at != std::string::npos) return line_.substr(at);
  return panic_;
}

}
