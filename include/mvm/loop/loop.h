#pragma once
// One epoll loop per thread. Handlers drain what is there and return; nothing in a handler blocks.
//
// Everything here belongs to the loop's thread, except post() and stop(), which any thread may
// call.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <sys/epoll.h>

#include "mvm/sys/fd.h"

namespace mvm::loop {

using Clock = std::chrono::steady_clock;

class Loop;

// A descriptor being watched, or a timer that is set; dropping it ends that. Must not outlive its
// loop.
class Watch {
 public:
  Watch() = default;
  ~Watch() { reset(); }
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void reset() noexcept;
  // Changes the events of a watched descriptor (EPOLLIN, EPOLLOUT, or 0 to be told of errors and
  // hang-ups only).
  void set_events(uint32_t events);
  explicit operator bool() const noexcept { return loop_ != nullptr; }

 private:
  friend class Loop;
  Watch(Loop* loop, uint64_t token) : loop_(loop), token_(token) {}
  Loop* loop_ = nullptr;
  uint64_t token_ = 0;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Calls `handler` with the ready events (level-triggered). `fd` is borrowed and must stay open
  // until the watch is dropped. EPOLLHUP and EPOLLERR are always reported.
  [[nodiscard]] Watch watch(int fd, uint32_t events, std::function<void(uint32_t)> handler);
  // Calls `handler` once, at or after `when`.
  [[nodiscard]] Watch at(Clock::time_point when, std::function<void()> handler);
  [[nodiscard]] Watch after(std::chrono::milliseconds delay, std::function<void()> handler) {
    return at(now() + delay, std::move(handler));
  }

  // Runs `task` on the loop's thread, in a later turn.
  void post(std::function<void()> task);
  // Time is frozen within a turn.
  Clock::time_point now() const { return now_; }

  // Handles events until stop(). An exception leaving a handler leaves run().
  void run();
  // One turn: waits at most `timeout` (forever when negative) and handles what came.
  void run_once(std::chrono::milliseconds timeout);
  void stop();

 private:
  friend class Watch;
  // A token is a serial number, never a pointer: an earlier handler of the same batch may have
  // dropped a later watch.
  struct Entry {
    int fd = -1;
    // Shared, so that a handler may drop its own watch while it runs.
    std::shared_ptr<std::function<void(uint32_t)>> handler;
    std::multimap<Clock::time_point, uint64_t>::iterator timer;
  };
  void remove(uint64_t token) noexcept;
  void set_events(uint64_t token, uint32_t events);
  void run_timers();
  void run_posted();

  sys::Fd epoll_;
  sys::Fd wake_;
  Clock::time_point now_ = Clock::now();
  uint64_t next_token_ = 1;
  std::unordered_map<uint64_t, Entry> entries_;
  std::multimap<Clock::time_point, uint64_t> timers_;
  std::mutex mutex_;  // guards posted_ and stopped_
  std::vector<std::function<void()>> posted_;
  bool stopped_ = false;
};

}
