#include "acceptor.h"

#include <cerrno>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

constexpr std::chrono::milliseconds kPause{50};

bool is_exhaustion(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}

Acceptor::Acceptor(loop::Loop& loop, sys::Fd listener, std::function<void(sys::Fd)> accepted,
                   std::function<void()> exhausted)
    : loop_(loop),
      listener_(std::move(listener)),
      accepted_(std::move(accepted)),
      exhausted_(std::move(exhausted)),
      reserve_(sys::event_fd()),
      watch_(loop.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept(); })) {}

void Acceptor::accept() {
  for (int i = 0; i < kPerTurn; ++i) {
    try {
      auto socket = sys::accept_connection(listener_.get());
      if (!socket) return;
      accepted_(std::move(*socket));
    } catch (const SystemError& error) {
      if (!is_exhaustion(error.errno_value())) throw;
      if (!turn_away()) return;
    }
  }
}

// False: not even that; others may have taken the descriptor. Then the rest waits a while.
bool Acceptor::turn_away() {
  reserve_.reset();
  bool taken = false;
  try {
    if (auto socket = sys::accept_connection(listener_.get())) {
      reset_connection(std::move(*socket));
      taken = true;
    }
    reserve_ = sys::event_fd();
  } catch (const SystemError& error) {
    if (!is_exhaustion(error.errno_value())) throw;
  }
  if (taken && exhausted_) exhausted_();
  if (taken && reserve_) return true;
  watch_.set_events(0);
  pause_ = loop_.after(kPause, [this] {
    if (watch_) watch_.set_events(EPOLLIN);
  });
  return false;
}

}
