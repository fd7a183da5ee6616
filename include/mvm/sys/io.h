#pragma once
// Reading and writing descriptors. All retry EINTR. All throw SystemError, except where a value
// says what happened.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"

namespace mvm::sys {

// One read or write. Bytes moved (0 is end of file for a read); nothing when the descriptor would
// block.
std::optional<size_t> read_some(int fd, std::span<std::byte> into);
std::optional<size_t> write_some(int fd, ByteView data);

// Blocking descriptors: all of it. read_exact is false when the end came first.
bool read_exact(int fd, std::span<std::byte> into);
void write_all(int fd, ByteView data);
// Regular files: what one pread gives, 0 at the end of the file.
size_t pread_some(int fd, std::span<std::byte> into, uint64_t offset);
bool pread_exact(int fd, std::span<std::byte> into, uint64_t offset);
void pwrite_all(int fd, ByteView data, uint64_t offset);

void set_nonblocking(int fd, bool on = true);
void wait_readable(int fd);
Fd event_fd();
void signal_event(int fd) noexcept;  // adds 1 to an eventfd
void drain_event(int fd) noexcept;

}
