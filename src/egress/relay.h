#pragma once
// Carries bytes between the guest's socket and the upstream one, both ways, as they are: splice(2)
// through a borrowed pipe, so that nothing is copied and an idle relay holds no memory. A side that
// does not read stops the other from being read. The end of one direction is passed on by itself
// (half-close); a reset is passed on as a reset.
//
// Measured against recv and send with buffers of 64 KiB to 1 MiB on loopback: splice moves 5 to 30
// % more, for two thirds of the processor time.

#include <array>
#include <functional>
#include <optional>

#include "mvm/loop/loop.h"
#include "mvm/policy/reason.h"

#include "meter.h"
#include "pipe_pool.h"

namespace mvm::egress {

class Relay {
 public:
  enum class End : uint8_t {
    Closed,     // both directions, by their peers
    Reset,      // by a peer
    Exhausted,  // Limits::total_bytes
  };
  struct Parts {
    loop::Loop& loop;
    PipePool& pipes;
    Meter& meter;
  };
  // `done` is called once, and may drop the relay. Both sockets are connected and non-blocking.
  Relay(Parts parts, sys::Fd guest, sys::Fd upstream, std::function<void(End)> done);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  void start();
  uint64_t sent() const noexcept { return up_.carried; }        // bytes from the guest
  uint64_t received() const noexcept { return down_.carried; }  // bytes to the guest
  loop::Clock::time_point last_use() const noexcept { return last_use_; }
  bool half_closed() const noexcept { return up_.finished || down_.finished; }
  std::array<int, 2> sockets() const noexcept { return {guest_.fd.get(), upstream_.fd.get()}; }
  std::array<sys::Fd, 2> take_sockets() noexcept {  // when it has ended
    return {std::move(guest_.fd), std::move(upstream_.fd)};
  }
  // Both sockets close by a reset, now or when they are dropped.
  void reset() noexcept;

 private:
  struct Side {
    sys::Fd fd;
    loop::Watch watch;
    uint32_t interest = 0;
  };
  struct Direction {
    Side& from;
    Side& to;
    Way way;
    std::optional<Pipe> pipe = std::nullopt;
    size_t in_pipe = 0;
    bool peeked = false;     // no pipe was to be had, and `to` took less than there was
    bool throttled = false;  // by the meter
    bool ended = false;      // nothing more comes from `from`
    bool finished = false;   // and `to` knows
    uint64_t carried = 0;
  };
  enum class Step : uint8_t { More, Wait, Failed };

  void handle(Side& side, uint32_t events);
  bool pump(Direction& direction);  // false: the relay has ended
  Step step(Direction& direction);
  Step drain(Direction& direction);
  Step fill(Direction& direction, size_t allowed);
  Step copy(Direction& direction, size_t allowed);
  Step finish_direction(Direction& direction);
  void account(Direction& direction, size_t allowed, size_t used);
  void return_pipe(Direction& direction) noexcept;
  void update();
  void update(Side& side, uint32_t interest);
  void wait_for_allowance();
  void end(End how);

  Parts parts_;
  Side guest_;
  Side upstream_;
  Direction up_{guest_, upstream_, Way::Send};
  Direction down_{upstream_, guest_, Way::Receive};
  std::function<void(End)> done_;
  loop::Clock::time_point last_use_;
  loop::Watch refill_;
};

}
