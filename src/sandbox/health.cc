#include "health.h"

#include <algorithm>
#include <utility>

#include "mvm/base/text.h"
#include "mvm/proto/exec.h"

namespace mvm::sandbox {

using proto::FrameType;
using proto::Health;
using proto::HealthResult;
using std::chrono::milliseconds;

static constexpr size_t kMaxWhy = 500;

// ---- judging --------------------------------------------------------------------------------

HealthJudge::HealthJudge(const proto::HealthCheck& check, Time started)
    : interval_(check.interval_ms),
      start_interval_(check.start_interval_ms),
      counted_from_(started + milliseconds(check.start_period_ms)),
      retries_(check.retries) {}

bool HealthJudge::in_start_period(Time time) const {
  return status_.health == Health::Starting && time < counted_from_;
}

milliseconds HealthJudge::until_next(Time now) const {
  return in_start_period(now) ? start_interval_ : interval_;
}

void HealthJudge::take(Time begun, HealthResult result) {
  ++status_.checks;
  if (result.exit_code == 0) {
    status_.failures = 0;
    status_.health = Health::Healthy;
  } else if (!in_start_period(begun)) {
    status_.failures += status_.failures < UINT32_MAX ? 1 : 0;
    if (status_.failures >= retries_) status_.health = Health::Unhealthy;
  }
  status_.last = std::move(result);
}

// ---- checking -------------------------------------------------------------------------------

HealthWatch::HealthWatch(loop::Loop& loop, Mux& mux, std::optional<proto::HealthCheck> check,
                         milliseconds margin)
    : loop_(&loop), mux_(&mux), check_(std::move(check)), margin_(margin) {}

void HealthWatch::start() {
  if (!check_ || check_->command.empty()) return;
  judge_.emplace(*check_, loop_->now());
  wait();
}

void HealthWatch::stop() {
  next_.reset();
  deadline_.reset();
  if (stream_ != 0) mux_->drop_stream(std::exchange(stream_, 0));
}

std::optional<proto::HealthStatus> HealthWatch::status() const {
  if (!judge_) return std::nullopt;
  return judge_->status();
}

void HealthWatch::wait() {
  next_ = loop_->after(judge_->until_next(loop_->now()), [this] { begin(); });
}

void HealthWatch::begin() {
  begun_ = loop_->now();
  if (given_up_) return fail("the check before has not ended yet");
  proto::ExecRequest exec;
  exec.argv = check_->command;
  exec.timeout = milliseconds(check_->timeout_ms);
  exec.max_output = proto::kMaxHealthOutput;
  const auto request = mux_->completed(exec.encode());
  if (!request) return fail("its command is too large with the sandbox's environment");
  output_.clear();
  stream_ = mux_->open_stream(*request,
                              {[this](const proto::Frame& frame) { on_frame(frame); }, [] {},
                               [this](const std::optional<proto::End>& end) { on_end(end); }},
                              Use::Uncounted);
  // Its users run as many commands as it can: that says nothing of its health.
  if (stream_ == 0) return wait();
  deadline_ = loop_->after(exec.timeout + exec.kill_grace + margin_, [this] {
    mux_->send(stream_, FrameType::Cancel);
    given_up_ = true;
    fail("it did not end when its time was over");
  });
}

void HealthWatch::on_frame(const proto::Frame& frame) {
  if (given_up_ || (frame.type != FrameType::Stdout && frame.type != FrameType::Stderr)) return;
  // The agent keeps to the bound, or its window closes; credit is never given.
  output_ += as_text(frame.payload).substr(0, proto::kMaxHealthOutput - output_.size());
}

void HealthWatch::on_end(const std::optional<proto::End>& end) {
  stream_ = 0;
  deadline_.reset();
  if (std::exchange(given_up_, false)) return;
  // Whoever loses the agent stops this first.
  if (!end) return fail("the agent's answer does not decode");
  if (end->error) return fail(printable(end->error->message, kMaxWhy));
  const auto result = proto::ExecResult::decode(end->result);
  if (!result) return fail("the agent's answer does not decode");
  if (result->timed_out)
    return fail("it took longer than " + format_duration_ms(check_->timeout_ms));
  if (result->signal != 0) return fail("it was ended by signal " + std::to_string(result->signal));
  conclude({0, result->exit_code, "", std::move(output_)});
}

void HealthWatch::fail(std::string why) {
  conclude({0, std::nullopt, std::move(why), std::move(output_)});
}

void HealthWatch::conclude(HealthResult result) {
  result.ended_unix_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  output_.clear();
  judge_->take(begun_, std::move(result));
  wait();
}

}
