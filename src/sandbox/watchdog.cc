#include "watchdog.h"

#include <algorithm>

#include "mvm/proto/control.h"

namespace mvm::sandbox {

// A question wakes an idle guest, so they are rare; the wait between them delays the verdict by
// this much at most.
static constexpr std::chrono::milliseconds kMostBetween{10'000};

Watchdog::Watchdog(loop::Loop& loop, Mux& mux, std::chrono::milliseconds limit,
                   std::function<void()> on_hung)
    : loop_(&loop), mux_(&mux), limit_(limit), on_hung_(std::move(on_hung)) {}

void Watchdog::start() {
  if (limit_.count() > 0) ask();
}

void Watchdog::stop() {
  next_.reset();
  deadline_.reset();
}

void Watchdog::ask() {
  deadline_ = loop_->after(limit_, [this] { on_hung_(); });
  mux_->ask_agent(proto::encode_request(proto::kPingVerb), [this] {
    deadline_.reset();
    next_ = loop_->after(std::min(limit_, kMostBetween), [this] { ask(); });
  });
}

}
