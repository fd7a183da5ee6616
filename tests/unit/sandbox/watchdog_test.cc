// The watchdog between a mux and an agent that the test plays.
#include "../../../src/sandbox/watchdog.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

using proto::FrameType;
using std::chrono::milliseconds;

class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest()
      : mux_(loop_, config_,
             {[](Asker, ByteView) {}, [this] { ready_ = true; },
              [](AgentLoss, const std::string&) {}, [] {}}) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    mux_.set_agent(std::move(ours));
    agent_ = std::move(theirs);
    sys::set_nonblocking(agent_.get());
    proto::Hello hello;
    hello.role = "agent";
    say(proto::kConnectionStream, FrameType::Hello, hello.encode());
    while (!ready_) loop_.run_once(milliseconds(10));
  }

  void say(uint32_t stream, FrameType type, ByteView payload) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    sys::write_all(agent_.get(), out);
  }
  // The stream of the next question, turning the loop until there is one.
  uint32_t question() {
    while (true) {
      while (const auto frame = decoder_.next()) {
        if (frame->type != FrameType::Request) continue;
        EXPECT_EQ(proto::request_verb(frame->payload), proto::kPingVerb);
        return frame->stream;
      }
      if (const auto got = sys::read_some(agent_.get(), decoder_.space())) {
        decoder_.commit(*got);
      } else {
        loop_.run_once(milliseconds(10));
      }
    }
  }
  void answer(uint32_t stream) { say(stream, FrameType::End, proto::encode_ok()); }

  loop::Loop loop_;
  proto::SandboxConfig config_;
  bool ready_ = false;
  int hung_ = 0;
  Mux mux_;
  sys::Fd agent_;
  proto::FrameDecoder decoder_;
};

TEST_F(WatchdogTest, AnAgentThatDoesNotAnswerHangsOnce) {
  Watchdog watchdog(loop_, mux_, milliseconds(1), [this] { ++hung_; });
  watchdog.start();
  question();
  while (hung_ == 0) loop_.run_once(milliseconds(10));
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(2));
  EXPECT_EQ(hung_, 1);
}

TEST_F(WatchdogTest, EveryAnswerIsFollowedByAnotherQuestion) {
  Watchdog watchdog(loop_, mux_, milliseconds(5), [this] { ++hung_; });
  watchdog.start();
  for (int round = 0; round < 5; ++round) answer(question());
}

TEST_F(WatchdogTest, AnAnswerTakesTheDeadlineAway) {
  constexpr auto kNever = std::chrono::hours(1);
  Watchdog watchdog(loop_, mux_, kNever, [this] { ++hung_; });
  watchdog.start();
  answer(question());
  loop_.run_once(milliseconds(10));
  EXPECT_EQ(hung_, 0);
}

TEST_F(WatchdogTest, IsSilentWithoutALimitAndAfterStop) {
  Watchdog off(loop_, mux_, milliseconds(0), [this] { ++hung_; });
  off.start();
  Watchdog stopped(loop_, mux_, milliseconds(1), [this] { ++hung_; });
  stopped.start();
  stopped.stop();
  for (int turn = 0; turn < 5; ++turn) loop_.run_once(milliseconds(2));
  EXPECT_EQ(hung_, 0);
}

}
