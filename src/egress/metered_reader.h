#pragma once
// Reads of a flow's channels, as far as the sandbox's limits let them be.

#include <functional>
#include <optional>

#include "mvm/loop/loop.h"

#include "channel.h"
#include "meter.h"

namespace mvm::egress {

class MeteredReader {
 public:
  // `again` is called when there may be more after a wait.
  MeteredReader(loop::Loop& loop, Meter& meter, std::function<void()> again)
      : loop_(loop), meter_(meter), again_(std::move(again)) {}

  struct Result {
    Channel::State state = Channel::State::Open;
    bool moved = false;  // something came, be it only of TLS
    bool used_up = false;
  };
  // Reads once. Nothing moves while waits().
  Result receive(Way way, Channel& from, Bytes& into);
  bool waits() const noexcept { return static_cast<bool>(refill_); }

 private:
  loop::Loop& loop_;
  Meter& meter_;
  std::function<void()> again_;
  loop::Watch refill_;
};

}
