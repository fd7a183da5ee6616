#include "relay.h"

#include <array>
#include <cerrno>

#include <fcntl.h>

#include "scratch.h"
#include "sockets.h"

namespace mvm::egress {
namespace {

// What one direction may move before others get their turn.
constexpr int kStepsPerTurn = 8;
constexpr std::chrono::milliseconds kRefill{5};

bool would_block() noexcept { return errno == EAGAIN || errno == EINTR; }

}

Relay::Relay(Parts parts, sys::Fd guest, sys::Fd upstream, std::function<void(End)> done)
    : parts_(parts),
      guest_{std::move(guest), {}},
      upstream_{std::move(upstream), {}},
      done_(std::move(done)),
      last_use_(parts.loop.now()) {}

Relay::~Relay() {
  return_pipe(up_);
  return_pipe(down_);
}

void Relay::start() { update(); }

void Relay::handle(Side& side, uint32_t events) {
  last_use_ = parts_.loop.now();
  if ((events & EPOLLERR) != 0) return end(End::Reset);
  Direction& from = &side == &guest_ ? up_ : down_;
  Direction& to = &side == &guest_ ? down_ : up_;
  // A hang-up without data to read is of a side that has ended both ways.
  if ((events & (EPOLLIN | EPOLLHUP)) != 0 && !pump(from)) return;
  if ((events & EPOLLOUT) != 0 && !pump(to)) return;
  // Told of a hang-up again and again, while what it sent waits for the other side: look later.
  if ((events & EPOLLHUP) != 0 && (side.interest & (EPOLLIN | EPOLLOUT)) == 0) side.watch.reset();
}

bool Relay::pump(Direction& direction) {
  for (int i = 0; i < kStepsPerTurn; ++i) {
    const Step result = step(direction);
    if (result == Step::Failed) {
      end(parts_.meter.used_up() ? End::Exhausted : End::Reset);
      return false;
    }
    if (result == Step::Wait) break;
  }
  if (up_.finished && down_.finished) {
    end(End::Closed);
    return false;
  }
  update();
  return true;
}

Relay::Step Relay::step(Direction& direction) {
  direction.peeked = false;
  if (direction.in_pipe > 0) return drain(direction);
  if (direction.ended) return finish_direction(direction);
  const size_t allowed = parts_.meter.allow(direction.way, PipePool::kCapacity, parts_.loop.now());
  if (allowed == 0) {
    direction.throttled = true;
    wait_for_allowance();
    return Step::Wait;
  }
  if (!direction.pipe) direction.pipe = parts_.pipes.take();
  return direction.pipe ? fill(direction, allowed) : copy(direction, allowed);
}

Relay::Step Relay::fill(Direction& direction, size_t allowed) {
  const ssize_t got = ::splice(direction.from.fd.get(), nullptr, direction.pipe->write.get(),
                               nullptr, allowed, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  account(direction, allowed, got > 0 ? static_cast<size_t>(got) : 0);
  if (parts_.meter.used_up()) return Step::Failed;
  if (got > 0) {
    direction.in_pipe = static_cast<size_t>(got);
    const Step drained = drain(direction);
    // After a short message there is rarely another one; the loop tells when there is.
    constexpr ssize_t kShort = 16 * 1024;
    return drained == Step::More && direction.in_pipe == 0 && got < kShort ? Step::Wait : drained;
  }
  return_pipe(direction);
  if (got < 0) return would_block() ? Step::Wait : Step::Failed;
  direction.ended = true;
  return finish_direction(direction);
}

Relay::Step Relay::drain(Direction& direction) {
  const ssize_t put = ::splice(direction.pipe->read.get(), nullptr, direction.to.fd.get(), nullptr,
                               direction.in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (put < 0) return would_block() ? Step::Wait : Step::Failed;
  direction.in_pipe -= static_cast<size_t>(put);
  if (direction.in_pipe == 0) return_pipe(direction);
  return Step::More;
}

// Without a pipe: what `to` takes is taken out of `from`, and the rest stays there.
Relay::Step Relay::copy(Direction& direction, size_t allowed) {
  MVM_UNCLEARED std::array<std::byte, 32 * 1024> buffer;
  const size_t wanted = std::min(allowed, buffer.size());
  const ssize_t seen = ::recv(direction.from.fd.get(), buffer.data(), wanted, MSG_PEEK);
  if (seen <= 0) {
    account(direction, allowed, 0);
    if (seen < 0) return would_block() ? Step::Wait : Step::Failed;
    direction.ended = true;
    return finish_direction(direction);
  }
  const ssize_t put =
      ::send(direction.to.fd.get(), buffer.data(), static_cast<size_t>(seen), MSG_NOSIGNAL);
  account(direction, allowed, put > 0 ? static_cast<size_t>(put) : 0);
  if (parts_.meter.used_up()) return Step::Failed;
  if (put < 0 && !would_block()) return Step::Failed;
  // MSG_TRUNC: thrown away, and not copied once more.
  if (put > 0 &&
      ::recv(direction.from.fd.get(), nullptr, static_cast<size_t>(put), MSG_TRUNC) != put)
    return Step::Failed;
  direction.peeked = put < seen;
  return direction.peeked ? Step::Wait : Step::More;
}

Relay::Step Relay::finish_direction(Direction& direction) {
  if (direction.finished) return Step::Wait;
  direction.finished = true;
  // A peer that has gone meanwhile will be told of by the socket itself.
  static_cast<void>(::shutdown(direction.to.fd.get(), SHUT_WR));
  return Step::Wait;
}

void Relay::account(Direction& direction, size_t allowed, size_t used) {
  parts_.meter.count(direction.way, allowed, used);
  direction.carried += used;
}

void Relay::return_pipe(Direction& direction) noexcept {
  if (!direction.pipe) return;
  parts_.pipes.give_back(std::move(*direction.pipe), direction.in_pipe == 0);
  direction.pipe.reset();
}

void Relay::wait_for_allowance() {
  if (refill_) return;
  refill_ = parts_.loop.after(kRefill, [this] {
    refill_.reset();
    for (Direction* direction : {&up_, &down_})
      if (std::exchange(direction->throttled, false) && !pump(*direction)) return;
  });
}

void Relay::update() {
  const auto reads = [](const Direction& direction) {
    return !direction.ended && direction.in_pipe == 0 && !direction.throttled && !direction.peeked;
  };
  const auto writes = [](const Direction& direction) {
    return direction.in_pipe > 0 || direction.peeked;
  };
  update(guest_, (reads(up_) ? EPOLLIN : 0U) | (writes(down_) ? EPOLLOUT : 0U));
  update(upstream_, (reads(down_) ? EPOLLIN : 0U) | (writes(up_) ? EPOLLOUT : 0U));
}

void Relay::update(Side& side, uint32_t interest) {
  if (!side.watch) {
    // Not watched since it hung up, and still nothing to do with it.
    if (interest == 0 && side.interest == 0 && (up_.ended || down_.ended)) return;
    side.watch = parts_.loop.watch(side.fd.get(), interest,
                                   [this, &side](uint32_t events) { handle(side, events); });
  } else if (side.interest != interest) {
    side.watch.set_events(interest);
  }
  side.interest = interest;
}

void Relay::reset() noexcept {
  for (Side* side : {&guest_, &upstream_}) {
    side->watch.reset();
    reset_connection(std::move(side->fd));
  }
}

void Relay::end(End how) {
  if (how == End::Closed) {
    guest_.watch.reset();
    upstream_.watch.reset();
  } else {
    reset();
  }
  refill_.reset();
  const auto done = std::move(done_);
  done(how);
}

}
