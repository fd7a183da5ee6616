// Checks of a sandbox's health: how results are judged, with times that the tests name; and how
// they come about, between a mux and an agent that the test plays.
#include "../../../src/sandbox/health.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "mvm/proto/exec.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

using proto::FrameType;
using proto::Health;
using std::chrono::milliseconds;
using std::chrono::seconds;

// ---- judging --------------------------------------------------------------------------------

static proto::HealthResult exited(uint8_t code) { return {1, code, "", ""}; }

class HealthJudgeTest : public testing::Test {
 protected:
  static proto::HealthCheck check(uint64_t start_period_ms) {
    proto::HealthCheck check{{"true"}, 30'000, 1'000, start_period_ms, 2'000, 2};
    return check;
  }
  Health after(HealthJudge& judge, seconds begun, const proto::HealthResult& result) const {
    judge.take(start_ + begun, result);
    return judge.status().health;
  }
  HealthJudge::Time start_{};
};

TEST_F(HealthJudgeTest, StartsAndBecomesHealthyWithTheFirstSuccess) {
  HealthJudge judge(check(0), start_);
  EXPECT_EQ(judge.status().health, Health::Starting);
  EXPECT_EQ(judge.until_next(start_), seconds(30));
  EXPECT_EQ(after(judge, seconds(30), exited(1)), Health::Starting);
  EXPECT_EQ(judge.status().failures, 1U);
  EXPECT_EQ(after(judge, seconds(60), exited(0)), Health::Healthy);
  EXPECT_EQ(judge.status().failures, 0U);
  EXPECT_EQ(judge.status().checks, 2U);
}

TEST_F(HealthJudgeTest, SoManyFailuresInARowMakeItUnhealthyAndOneSuccessHealthy) {
  HealthJudge judge(check(0), start_);
  EXPECT_EQ(after(judge, seconds(1), exited(0)), Health::Healthy);
  EXPECT_EQ(after(judge, seconds(2), exited(1)), Health::Healthy);
  EXPECT_EQ(after(judge, seconds(3), exited(0)), Health::Healthy);
  EXPECT_EQ(after(judge, seconds(4), exited(1)), Health::Healthy);
  // One without an exit code is a failure like another.
  EXPECT_EQ(after(judge, seconds(5), {1, std::nullopt, "timed out", ""}), Health::Unhealthy);
  EXPECT_EQ(judge.status().failures, 2U);
  EXPECT_EQ(judge.status().last->why, "timed out");
  EXPECT_EQ(after(judge, seconds(6), exited(2)), Health::Unhealthy);
  EXPECT_EQ(after(judge, seconds(7), exited(0)), Health::Healthy);
}

TEST_F(HealthJudgeTest, FailuresOfTheStartPeriodAreNotCounted) {
  HealthJudge judge(check(60'000), start_);
  EXPECT_EQ(judge.until_next(start_), seconds(2));
  for (int at = 2; at < 60; at += 2)
    EXPECT_EQ(after(judge, seconds(at), exited(1)), Health::Starting) << at;
  EXPECT_EQ(judge.status().failures, 0U);
  EXPECT_EQ(judge.status().last->exit_code, 1);
  EXPECT_EQ(judge.until_next(start_ + seconds(60)), seconds(30));
  EXPECT_EQ(after(judge, seconds(60), exited(1)), Health::Starting);
  EXPECT_EQ(after(judge, seconds(90), exited(1)), Health::Unhealthy);
}

TEST_F(HealthJudgeTest, TheFirstSuccessEndsTheStartPeriod) {
  HealthJudge judge(check(60'000), start_);
  EXPECT_EQ(after(judge, seconds(2), exited(0)), Health::Healthy);
  EXPECT_EQ(judge.until_next(start_ + seconds(3)), seconds(30));
  EXPECT_EQ(after(judge, seconds(4), exited(1)), Health::Healthy);
  EXPECT_EQ(after(judge, seconds(6), exited(1)), Health::Unhealthy);
}

// ---- checking -------------------------------------------------------------------------------

class HealthWatchTest : public testing::Test {
 protected:
  HealthWatchTest()
      : mux_(loop_, config_,
             {[](Asker, ByteView) {}, [this] { ready_ = true; },
              [this](AgentLoss, const std::string& why) { lost_ = why; }, [] {},
              [this](bool) { used_ = true; }}) {
    config_.env = {{"MODE", "test"}};
    config_.user = "app";
    config_.workdir = "/srv";
    config_.exec_pids = 7;
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    mux_.set_agent(std::move(ours));
    agent_ = std::move(theirs);
    sys::set_nonblocking(agent_.get());
    proto::Hello hello;
    hello.role = "agent";
    say(proto::kConnectionStream, FrameType::Hello, hello.encode());
    while (!ready_) loop_.run_once(milliseconds(10));
  }

  static proto::HealthCheck quick(uint64_t timeout_ms = 60'000) {
    return {{"check", "--now"}, 1, timeout_ms, 0, 1, 2};
  }
  void say(uint32_t stream, FrameType type, ByteView payload) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    sys::write_all(agent_.get(), out);
  }
  // The next frame of this type that the agent gets, turning the loop until there is one.
  proto::Frame next(FrameType type) {
    while (true) {
      while (const auto frame = decoder_.next())
        if (frame->type == type) return *frame;
      if (const auto got = sys::read_some(agent_.get(), decoder_.space())) {
        decoder_.commit(*got);
      } else {
        loop_.run_once(milliseconds(10));
      }
    }
  }
  uint32_t check() { return next(FrameType::Request).stream; }
  void end(uint32_t stream, const proto::ExecResult& result) {
    say(stream, FrameType::End, proto::encode_ok(result.encode()));
  }
  void turn_until_checks(const HealthWatch& watch, uint64_t count) {
    while (watch.status()->checks < count) loop_.run_once(milliseconds(10));
  }

  loop::Loop loop_;
  proto::SandboxConfig config_;
  bool ready_ = false;
  bool used_ = false;
  std::string lost_;
  Mux mux_;
  sys::Fd agent_;
  proto::FrameDecoder decoder_;
};

TEST_F(HealthWatchTest, RunsTheCommandAsTheSandboxRunsItsOwn) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  EXPECT_EQ(watch.status()->health, Health::Starting);
  const proto::Frame request = next(FrameType::Request);
  const auto exec = proto::ExecRequest::decode(request.payload);
  ASSERT_TRUE(exec);
  EXPECT_EQ(exec->argv, (std::vector<std::string>{"check", "--now"}));
  EXPECT_EQ(exec->env, config_.env);
  EXPECT_EQ(exec->user, "app");
  EXPECT_EQ(exec->cwd, "/srv");
  EXPECT_EQ(exec->timeout, seconds(60));
  EXPECT_EQ(exec->max_output, proto::kMaxHealthOutput);
  EXPECT_EQ(exec->limits.processes, 7U);
  say(request.stream, FrameType::Stdout, as_bytes("all "));
  say(request.stream, FrameType::Stderr, as_bytes("well"));
  end(request.stream, {});
  turn_until_checks(watch, 1);
  EXPECT_EQ(watch.status()->health, Health::Healthy);
  EXPECT_EQ(watch.status()->last->exit_code, 0);
  EXPECT_EQ(watch.status()->last->output, "all well");
}

TEST_F(HealthWatchTest, WhatFailsSaysWhy) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  const auto why = [&](ByteView payload) {
    const uint64_t before = watch.status()->checks;
    say(check(), FrameType::End, payload);
    turn_until_checks(watch, before + 1);
    EXPECT_EQ(watch.status()->last->exit_code, std::nullopt);
    return watch.status()->last->why;
  };
  EXPECT_EQ(why(proto::encode_error({Kind::NotFound, "no\x1b such command"})),
            "no\\x1b such command");
  EXPECT_EQ(why(proto::encode_ok(proto::ExecResult{0, 9, false, false}.encode())),
            "it was ended by signal 9");
  EXPECT_EQ(why(proto::encode_ok(proto::ExecResult{0, 15, true, false}.encode())),
            "it took longer than 1m0s");
  EXPECT_EQ(why(as_bytes("nonsense")), "the agent's answer does not decode");
  EXPECT_EQ(watch.status()->health, Health::Unhealthy);
}

TEST_F(HealthWatchTest, OutputIsKeptUpToItsBound) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  const uint32_t stream = check();
  // More than the agent was told to send, and less than breaks the protocol.
  for (int i = 0; i < 3; ++i)
    say(stream, FrameType::Stdout, as_bytes(std::string(3'000, static_cast<char>('a' + i))));
  end(stream, {1, 0, false, true});
  turn_until_checks(watch, 1);
  EXPECT_EQ(watch.status()->last->output, std::string(3'000, 'a') + std::string(1'096, 'b'));
  EXPECT_EQ(lost_, "");
}

TEST_F(HealthWatchTest, AnAgentThatFloodsIsCutOff) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  const uint32_t stream = check();
  const std::string piece(32'768, 'x');
  for (int i = 0; i < 9; ++i) {
    say(stream, FrameType::Stdout, as_bytes(piece));
    loop_.run_once(milliseconds(10));
  }
  EXPECT_EQ(lost_, "the guest's agent sent more than it was allowed to");
}

TEST_F(HealthWatchTest, OneThatHangsIsEndedAndGetsNoSecondBesideIt) {
  proto::HealthCheck check_of = quick(1);
  HealthWatch watch(loop_, mux_, check_of, milliseconds(-2'000));  // takes the grace away
  watch.start();
  const uint32_t hanging = check();
  EXPECT_EQ(next(FrameType::Cancel).stream, hanging);
  EXPECT_EQ(watch.status()->last->why, "it did not end when its time was over");
  turn_until_checks(watch, 4);
  EXPECT_EQ(watch.status()->health, Health::Unhealthy);
  EXPECT_EQ(watch.status()->last->why, "the check before has not ended yet");
  while (const auto got = sys::read_some(agent_.get(), decoder_.space())) decoder_.commit(*got);
  EXPECT_FALSE(decoder_.next()) << "the agent was asked for more";
  // Late, it is of no interest; but now there is room for another.
  say(hanging, FrameType::Stdout, as_bytes("late"));
  end(hanging, {});
  const uint32_t second = check();
  EXPECT_NE(second, hanging);
  const uint64_t before = watch.status()->checks;
  end(second, {});
  turn_until_checks(watch, before + 1);
  EXPECT_EQ(watch.status()->health, Health::Healthy);
  EXPECT_EQ(watch.status()->last->output, "");
}

TEST_F(HealthWatchTest, IsNobodysUseOfTheSandbox) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  for (int round = 0; round < 3; ++round) {
    const uint32_t stream = check();
    EXPECT_FALSE(mux_.in_use());
    end(stream, {});
  }
  check();
  watch.stop();
  EXPECT_FALSE(used_);
  EXPECT_FALSE(mux_.in_use());
}

TEST_F(HealthWatchTest, StopEndsTheCheckUnderWayAndKeepsWhatIsKnown) {
  HealthWatch watch(loop_, mux_, quick());
  watch.start();
  end(check(), {});
  turn_until_checks(watch, 1);
  const uint32_t stream = check();
  watch.stop();
  EXPECT_EQ(next(FrameType::Cancel).stream, stream);
  EXPECT_EQ(watch.status()->health, Health::Healthy);
}

TEST_F(HealthWatchTest, WithoutACommandThereIsNoHealth) {
  HealthWatch none(loop_, mux_, std::nullopt);
  none.start();
  HealthWatch off(loop_, mux_, proto::HealthCheck{});
  off.start();
  for (int turn = 0; turn < 3; ++turn) loop_.run_once(milliseconds(2));
  EXPECT_EQ(none.status(), std::nullopt);
  EXPECT_EQ(off.status(), std::nullopt);
}

}
