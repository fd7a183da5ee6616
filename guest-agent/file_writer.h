#pragma once
// Writes the content of one new file from front to back.
//
// A large one is gathered in a buffer and written in large pieces, past the page cache (O_DIRECT)
// where the file system lets it: the pages of the cache would have to be found, cleared by the host
// the first time and copied into, only to be written out a moment later. Its last piece, and all
// that follows one that does not end with a block, goes by the cache.

#include <cstdint>
#include <span>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/mapping.h"

namespace mvm::guest {

class FileWriter {
 public:
  static constexpr uint64_t kLarge = 1 << 20;
  static constexpr size_t kBuffer = 1 << 20;

  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  int fd() const noexcept { return file_.get(); }

  // `size` is a guess at how long it will be.
  void begin(sys::Fd file, uint64_t size);
  void write(ByteView content);
  // Room for content that is read straight into it, and then counted with commit(); empty where
  // that is not worth it.
  std::span<std::byte> space();
  void commit(size_t length);
  void hole(uint64_t length);
  // All is with the kernel, and the file as long as what was written. The descriptor stays.
  void finish();
  void close() noexcept;

 private:
  void flush();
  void write_through(ByteView data);
  void leave_direct();

  sys::Fd file_;
  sys::Mapping buffer_;  // stays for the next large file
  size_t filled_ = 0;
  uint64_t at_ = 0;      // where in the file the buffer's first byte goes
  uint64_t length_ = 0;  // of the file, so far as it was made that long
  bool large_ = false;
  bool direct_ = false;
};

}
