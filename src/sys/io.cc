#include "mvm/sys/io.h"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::sys {

static std::optional<size_t> moved(ssize_t result, const char* doing) {
  if (result >= 0) return static_cast<size_t>(result);
  if (errno == EAGAIN) return std::nullopt;
  throw SystemError(errno, doing);
}

std::optional<size_t> read_some(int fd, std::span<std::byte> into) {
  return moved(uninterrupted([&] { return ::read(fd, into.data(), into.size()); }), "reading");
}

std::optional<size_t> write_some(int fd, ByteView data) {
  return moved(uninterrupted([&] { return ::write(fd, data.data(), data.size()); }), "writing");
}

bool read_exact(int fd, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = uninterrupted([&] { return ::read(fd, into.data(), into.size()); });
    if (got < 0) throw SystemError(errno, "reading");
    if (got == 0) return false;
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

void write_all(int fd, ByteView data) {
  while (!data.empty()) {
    const ssize_t put = uninterrupted([&] { return ::write(fd, data.data(), data.size()); });
    if (put < 0) throw SystemError(errno, "writing");
    data = data.subspan(static_cast<size_t>(put));
  }
}

size_t pread_some(int fd, std::span<std::byte> into, uint64_t offset) {
  const ssize_t got = uninterrupted(
      [&] { return ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset)); });
  if (got < 0) throw SystemError(errno, "reading");
  return static_cast<size_t>(got);
}

bool pread_exact(int fd, std::span<std::byte> into, uint64_t offset) {
  while (!into.empty()) {
    const ssize_t got = uninterrupted(
        [&] { return ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset)); });
    if (got < 0) throw SystemError(errno, "reading");
    if (got == 0) return false;
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

void pwrite_all(int fd, ByteView data, uint64_t offset) {
  while (!data.empty()) {
    const ssize_t put = uninterrupted(
        [&] { return ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset)); });
    if (put < 0) throw SystemError(errno, "writing");
    data = data.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
}

void set_nonblocking(int fd, bool on) {
  const int flags = check(::fcntl(fd, F_GETFL), "reading descriptor flags");
  check(::fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK),
        "setting descriptor flags");
}

void wait_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  if (uninterrupted([&] { return ::poll(&entry, 1, -1); }) < 0) throw SystemError(errno, "waiting");
}

Fd event_fd() { return Fd(check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "making an eventfd")); }

void signal_event(int fd) noexcept {
  const uint64_t one = 1;
  // EAGAIN means the counter is full, so the reader is woken anyway.
  static_cast<void>(uninterrupted([&] { return ::write(fd, &one, sizeof one); }));
}

void drain_event(int fd) noexcept {
  uint64_t count = 0;
  static_cast<void>(uninterrupted([&] { return ::read(fd, &count, sizeof count); }));
}

}
