#include "copy_file.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::image {

static void copy_range(int from, int to, off_t start, off_t end, const std::string& target) {
  bool kernel_copies = true;
  Bytes buffer;
  while (start < end) {
    const auto length = static_cast<size_t>(end - start);
    off_t in = start;
    off_t out = start;
    if (kernel_copies) {
      const ssize_t moved = ::copy_file_range(from, &in, to, &out, length, 0);
      if (moved > 0) {
        start += moved;
        continue;
      }
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == ENOSPC) throw SystemError(errno, "writing " + target);
      kernel_copies = false;  // another file system, or one that cannot
    }
    buffer.resize(std::min(length, size_t{1} << 20));
    const size_t got = sys::pread_some(from, buffer, static_cast<uint64_t>(start));
    if (got == 0) return;
    sys::pwrite_all(to, ByteView(buffer).first(got), static_cast<uint64_t>(start));
    start += static_cast<off_t>(got);
  }
}

void copy_file(const std::string& source, const std::string& target) {
  // Not blocking: a FIFO in its place would keep us. (No regular file is changed by that.)
  const sys::Fd from = sys::open_file(source, O_RDONLY | O_NONBLOCK);
  if (!sys::is_regular_file(from.get()))
    throw Error(Kind::Invalid, source + " is not a regular file");
  const sys::Fd to = sys::open_file(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  ScopeExit undo([&] { ::unlink(target.c_str()); });
  if (::ioctl(to.get(), FICLONE, from.get()) != 0) {
    const auto size = static_cast<off_t>(sys::file_size(from.get()));
    sys::resize_file(to.get(), static_cast<uint64_t>(size), "sizing " + target);
    off_t position = 0;
    while (position < size) {
      off_t start = ::lseek(from.get(), position, SEEK_DATA);
      if (start < 0 && errno == ENXIO) break;  // only a hole is left
      off_t end = size;
      if (start < 0)
        start = position;  // no holes to be told here
      else if (const off_t hole = ::lseek(from.get(), start, SEEK_HOLE); hole > start)
        end = hole;
      copy_range(from.get(), to.get(), start, end, target);
      position = end;
    }
  }
  undo.release();
}

}
