#include "../../../src/daemon/start_queue.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"

namespace mvm::daemon {
namespace {

using std::chrono::milliseconds;

class StartQueueTest : public ::testing::Test {
 protected:
  StartQueue::Turn turn(milliseconds limit = milliseconds(10'000)) {
    return queue_.wait(limit, [] {});
  }
  Kind refusal(milliseconds limit = milliseconds(10'000)) {
    try {
      turn(limit);
    } catch (const Error& error) {
      return error.kind();
    }
    return Kind::Internal;
  }

  sys::Fd stopping_ = sys::event_fd();
  StartQueue queue_{1, stopping_.get()};
};

TEST_F(StartQueueTest, ADroppedTurnIsTheNextOnes) {
  {
    const auto first = turn();
  }
  const auto second = turn();
  EXPECT_EQ(refusal(milliseconds(20)), Kind::Timeout);
}

// Whoever holds the turn gives it up at the stop as well, perhaps before another has come to wait.
TEST_F(StartQueueTest, AFreeTurnIsNobodysAfterTheStop) {
  {
    const auto first = turn();
  }
  sys::signal_event(stopping_.get());
  EXPECT_EQ(refusal(), Kind::Unavailable);
}

TEST_F(StartQueueTest, ATurnThatTheStopSetsFreeIsNobodys) {
  for (int round = 0; round < 50; ++round) {
    const sys::Fd stopping = sys::event_fd();
    StartQueue queue(1, stopping.get());
    auto first = queue.wait(milliseconds(10'000), [] {});
    bool waits = false;
    Kind told = Kind::Internal;
    std::thread second([&] {
      try {
        queue.wait(milliseconds(10'000), [&] { std::atomic_ref(waits).store(true); });
      } catch (const Error& error) {
        told = error.kind();
      }
    });
    while (!std::atomic_ref(waits).load()) std::this_thread::yield();
    sys::signal_event(stopping.get());
    first = {};
    second.join();
    EXPECT_EQ(told, Kind::Unavailable) << round;
  }
}

}
}
