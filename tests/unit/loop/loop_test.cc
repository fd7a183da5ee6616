#include "mvm/loop/loop.h"

#include <thread>

#include <gtest/gtest.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::loop {

TEST(Loop, CallsHandlerForReadableDescriptor) {
  Loop loop;
  auto [a, b] = sys::socket_pair(sys::SocketType::Stream);
  std::string got;
  const Watch watch = loop.watch(b.get(), EPOLLIN, [&, fd = b.get()](uint32_t) {
    std::array<std::byte, 10> buffer{};
    got = as_text(std::span(buffer).first(sys::read_some(fd, buffer).value_or(0)));
    loop.stop();
  });
  sys::write_all(a.get(), as_bytes("hi"));
  loop.run();
  EXPECT_EQ(got, "hi");
}

TEST(Loop, HandlerMayDropAWatchWhoseEventIsInTheSameBatch) {
  Loop loop;
  auto [a, b] = sys::socket_pair(sys::SocketType::Stream);
  auto [c, d] = sys::socket_pair(sys::SocketType::Stream);
  sys::write_all(a.get(), as_bytes("x"));
  sys::write_all(c.get(), as_bytes("x"));
  Watch first, second;
  int calls = 0;
  first = loop.watch(b.get(), EPOLLIN, [&](uint32_t) {
    ++calls;
    first.reset();
    second.reset();
  });
  second = loop.watch(d.get(), EPOLLIN, [&](uint32_t) {
    ++calls;
    first.reset();
    second.reset();
  });
  loop.run_once(std::chrono::milliseconds(1000));
  loop.run_once(std::chrono::milliseconds(0));
  EXPECT_EQ(calls, 1);
}

TEST(Loop, TimersRunInOrderAndOnce) {
  Loop loop;
  std::string order;
  const Watch late = loop.after(std::chrono::milliseconds(2), [&] {
    order += "b";
    loop.stop();
  });
  const Watch early = loop.after(std::chrono::milliseconds(1), [&] { order += "a"; });
  Watch never = loop.after(std::chrono::milliseconds(0), [&] { order += "x"; });
  never.reset();
  loop.run();
  EXPECT_EQ(order, "ab");
}

TEST(Loop, ATimerMaySetTheNext) {
  Loop loop;
  int left = 3;
  Watch timer;
  std::function<void()> tick = [&] {
    if (--left == 0) {
      loop.stop();
    } else {
      timer = loop.after(std::chrono::milliseconds(0), tick);
    }
  };
  timer = loop.after(std::chrono::milliseconds(0), tick);
  loop.run();
  EXPECT_EQ(left, 0);
}

TEST(Loop, OtherThreadsPostTasksThatRunOnTheLoop) {
  Loop loop;
  std::thread::id ran_on;
  std::thread other([&] {
    loop.post([&] {
      ran_on = std::this_thread::get_id();
      loop.stop();
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(Loop, EventsCanBeSwitchedOffAndOn) {
  Loop loop;
  auto [a, b] = sys::socket_pair(sys::SocketType::Stream);
  int calls = 0;
  Watch watch = loop.watch(b.get(), EPOLLIN, [&](uint32_t) { ++calls; });
  sys::write_all(a.get(), as_bytes("x"));
  watch.set_events(0);
  loop.run_once(std::chrono::milliseconds(0));
  EXPECT_EQ(calls, 0);
  watch.set_events(EPOLLIN);
  loop.run_once(std::chrono::milliseconds(0));
  EXPECT_EQ(calls, 1);
}

}
