#include "partings.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

constexpr std::chrono::seconds kPatience{60};

size_t memory_of(const sys::Fd& socket) noexcept {
  const int number = socket.get();
  return egress::memory_of({&number, 1});
}

}

void Partings::take(sys::Fd socket, loop::Clock::time_point now) {
  if (!socket) return;
  const size_t owed = unconfirmed(socket.get());
  if (owed == 0) return;
  if (sockets_.size() >= kMax) settle(now);
  if (sockets_.size() >= kMax) {  // the one that has waited longest
    reset_connection(std::move(sockets_.front().socket));
    sockets_.erase(sockets_.begin());
  }
  sockets_.push_back({std::move(socket), owed, now});
}

size_t Partings::settle(loop::Clock::time_point now) {
  size_t held = 0;
  std::erase_if(sockets_, [&](Parting& parting) {
    const size_t left = unconfirmed(parting.socket.get());
    if (left == 0) return true;
    if (std::exchange(parting.owed, left) != left) parting.since = now;
    if (now - parting.since > kPatience) {
      reset_connection(std::move(parting.socket));
      return true;
    }
    held += memory_of(parting.socket);
    return false;
  });
  return held;
}

size_t Partings::drop() noexcept {
  size_t held = 0;
  for (Parting& parting : sockets_) {
    held += memory_of(parting.socket);
    reset_connection(std::move(parting.socket));
  }
  sockets_.clear();
  return held;
}

}
