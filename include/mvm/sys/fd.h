#pragma once

#include <utility>

namespace mvm::sys {

// Owns a file descriptor. Borrowing is a plain int that is never stored. Every descriptor is
// close-on-exec from birth.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept;
  // A second descriptor for the same open file (F_DUPFD_CLOEXEC); throws SystemError.
  Fd duplicate() const;
  // Holds one; there is no conversion to int, so descriptor 0 cannot be mistaken for "none".
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}
