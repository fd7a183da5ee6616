#include "wire.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include <poll.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::api {

inline constexpr size_t kReadSize = 16 * 1024;

Wire::Wire(sys::Fd socket, int interrupt) : socket_(std::move(socket)), interrupt_(interrupt) {
  sys::set_nonblocking(socket_.get());
}

Wire::Got Wire::wait(short events, std::optional<Clock::time_point> deadline) const {
  std::array<pollfd, 2> entries{pollfd{socket_.get(), events, 0}, pollfd{interrupt_, POLLIN, 0}};
  while (true) {
    int timeout = -1;
    if (deadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0) return Got::Late;
      timeout = static_cast<int>(std::min<int64_t>(left, 3'600'000));
    }
    const int ready = ::poll(entries.data(), entries.size(), timeout);
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a connection");
    if (ready <= 0) continue;
    if (entries[0].revents != 0) return Got::Data;
    return Got::Interrupted;
  }
}

Wire::Got Wire::read(std::optional<Clock::time_point> deadline) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(consumed_));
  consumed_ = 0;
  while (true) {
    const size_t had = buffer_.size();
    buffer_.resize(had + kReadSize);
    std::optional<size_t> got;
    try {
      got = sys::read_some(socket_.get(), std::span(buffer_).subspan(had));
    } catch (const SystemError& error) {
      // The peer closed with our bytes unread.
      if (error.errno_value() != ECONNRESET) throw;
      got = 0;
    }
    buffer_.resize(had + got.value_or(0));
    if (got) return *got == 0 ? Got::Closed : Got::Data;
    if (const Got outcome = wait(POLLIN, deadline); outcome != Got::Data) return outcome;
  }
}

bool Wire::write(std::string_view data, std::chrono::milliseconds stall) {
  ByteView rest = as_bytes(data);
  while (!rest.empty()) {
    std::optional<size_t> put;
    try {
      put = sys::write_some(socket_.get(), rest);
    } catch (const SystemError& error) {
      if (error.errno_value() != EPIPE && error.errno_value() != ECONNRESET) throw;
      return false;
    }
    if (put) {
      rest = rest.subspan(*put);
    } else if (wait(POLLOUT, Clock::now() + stall) != Got::Data) {
      return false;
    }
  }
  return true;
}

bool Wire::peer_gone() const {
  pollfd entry{socket_.get(), 0, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

}
