#pragma once
// Where console and serial output of one guest ends up. A guest may print without end: the file
// keeps its tail and gives the space of older output back, so its use of the disk is bounded.

#include <mutex>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"

namespace mvm::monitor {

class ConsoleLog {
 public:
  // What stays on disk is between kKeep and kKeep + kStep bytes.
  static constexpr uint64_t kKeep = 4 << 20;
  static constexpr uint64_t kStep = 1 << 20;
  // And no more than this where the file system cannot give space back: what follows is lost.
  static constexpr uint64_t kMost = 64 << 20;

  // Appends to `file`, a regular file.
  explicit ConsoleLog(sys::Fd file);

  // From any thread. A file that cannot be written (disk full) drops output; the guest must not
  // notice.
  void write(ByteView output) noexcept;
  // Writes out what is held back to make fewer, larger writes.
  void flush() noexcept;

  // The kernel's own words, when it printed "Kernel panic - not syncing: …"; else empty.
  std::string panic_message() const;

 private:
  void flush_locked() noexcept;

  mutable std::mutex mutex_;
  sys::Fd file_;
  uint64_t end_ = 0;
  uint64_t released_ = 0;  // bytes given back at the front
  bool cannot_release_ = false;
  std::string pending_;  // a partial line
  std::string line_;     // the current line, bounded, to look for a panic
  std::string panic_;
};

}
