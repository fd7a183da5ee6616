#pragma once
// Checks the health of what runs in a sandbox, with the command that its image names for that
// (HEALTHCHECK of a Dockerfile; the rules of counting are Docker's).
//
// HealthJudge knows when the next check is due and what the results so far say; it has no clock and
// no guest. HealthWatch runs the command through the agent: one at a time, ended when it takes too
// long, its first output kept. It is the sandbox's own doing and nobody's use of it: an idle
// sandbox stays idle. A guest that lets a check hang gets no second one beside it; its failures are
// counted all the same.

#include <chrono>
#include <optional>
#include <string>

#include "mvm/loop/loop.h"
#include "mvm/proto/health.h"

#include "mux.h"

namespace mvm::sandbox {

class HealthJudge {
 public:
  using Time = loop::Clock::time_point;

  HealthJudge(const proto::HealthCheck& check, Time started);

  // From a time at which no check runs, to the next.
  std::chrono::milliseconds until_next(Time now) const;
  // Of a check that began at `begun`.
  void take(Time begun, proto::HealthResult result);
  const proto::HealthStatus& status() const { return status_; }

 private:
  bool in_start_period(Time time) const;

  std::chrono::milliseconds interval_;
  std::chrono::milliseconds start_interval_;
  Time counted_from_;
  uint32_t retries_;
  proto::HealthStatus status_;
};

class HealthWatch {
 public:
  // How long after the time-out of a check its end may take to arrive.
  static constexpr std::chrono::milliseconds kMargin{10'000};

  // Nothing to check: start() does nothing.
  HealthWatch(loop::Loop& loop, Mux& mux, std::optional<proto::HealthCheck> check,
              std::chrono::milliseconds margin = kMargin);

  void start();  // the agent serves
  void stop();
  std::optional<proto::HealthStatus> status() const;

 private:
  void wait();
  void begin();
  void on_frame(const proto::Frame& frame);
  void on_end(const std::optional<proto::End>& end);
  void fail(std::string why);
  void conclude(proto::HealthResult result);

  loop::Loop* loop_;
  Mux* mux_;
  std::optional<proto::HealthCheck> check_;
  std::chrono::milliseconds margin_;
  std::optional<HealthJudge> judge_;
  uint32_t stream_ = 0;    // of the check under way
  bool given_up_ = false;  // it was counted, and is still to end
  HealthJudge::Time begun_;
  std::string output_;
  loop::Watch next_;
  loop::Watch deadline_;
};

}
