// The epoll loop. Level-triggered, tokens instead of pointers, a frozen clock a turn: see the
// header for the contract.
#include "mvm/loop/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::loop {

static constexpr uint64_t kWakeToken = 0;

Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), token_(other.token_) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    token_ = other.token_;
  }
  return *this;
}

void Watch::reset() noexcept {
  if (loop_ != nullptr) std::exchange(loop_, nullptr)->remove(token_);
}

void Watch::set_events(uint32_t events) {
  MVM_ASSERT(loop_ != nullptr);
  loop_->set_events(token_, events);
}

Loop::Loop()
    : epoll_(sys::check(::epoll_create1(EPOLL_CLOEXEC), "making an event loop")),
      wake_(sys::event_fd()) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeToken;
  sys::check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event),
             "watching a descriptor");
}

Loop::~Loop() = default;

Watch Loop::watch(int fd, uint32_t events, std::function<void(uint32_t)> handler) {
  const uint64_t token = next_token_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  sys::check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "watching a descriptor");
  entries_[token] = {fd, std::make_shared<std::function<void(uint32_t)>>(std::move(handler)),
                     timers_.end()};
  return {this, token};
}

Watch Loop::at(Clock::time_point when, std::function<void()> handler) {
  const uint64_t token = next_token_++;
  auto call = [task = std::move(handler)](uint32_t) { task(); };
  entries_[token] = {-1, std::make_shared<std::function<void(uint32_t)>>(std::move(call)),
                     timers_.emplace(when, token)};
  return {this, token};
}

void Loop::remove(uint64_t token) noexcept {
  const auto found = entries_.find(token);
  if (found == entries_.end()) return;  // a timer that has run
  if (found->second.fd >= 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  } else {
    timers_.erase(found->second.timer);
  }
  entries_.erase(found);
}

void Loop::set_events(uint64_t token, uint32_t events) {
  const auto found = entries_.find(token);
  MVM_ASSERT(found != entries_.end() && found->second.fd >= 0);
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  sys::check(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event),
             "watching a descriptor");
}

void Loop::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
  }
  sys::signal_event(wake_.get());
}

void Loop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  sys::signal_event(wake_.get());
}

void Loop::run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(stopped_, false)) return;
    }
    run_once(std::chrono::milliseconds(-1));
  }
}

void Loop::run_timers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    const uint64_t token = timers_.begin()->second;
    const auto handler = entries_.at(token).handler;
    timers_.erase(timers_.begin());
    entries_.erase(token);
    (*handler)(0);
  }
}

void Loop::run_posted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (auto& task : tasks) task();
}

void Loop::run_once(std::chrono::milliseconds timeout) {
  now_ = Clock::now();
  if (!timers_.empty()) {
    // Rounded up: waking a fraction early would only spin.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - now_);
    const auto due = std::max(left, std::chrono::milliseconds(0));
    if (timeout.count() < 0 || due < timeout) timeout = due;
  }
  constexpr int kLongest = 1 << 30;
  const int wait = timeout.count() > kLongest ? kLongest : static_cast<int>(timeout.count());
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait);
  if (count < 0 && errno != EINTR) throw SystemError(errno, "waiting for events");
  now_ = Clock::now();
  run_timers();
  for (int i = 0; i < count; ++i) {
    const auto& event = events.at(static_cast<size_t>(i));
    // Copied: the kernel's struct is packed, so a reference to its field is misaligned.
    const uint64_t token = event.data.u64;
    if (token == kWakeToken) {
      sys::drain_event(wake_.get());
      run_posted();
      continue;
    }
    const auto found = entries_.find(token);
    if (found == entries_.end()) continue;  // dropped by an earlier handler of this batch
    const auto handler = found->second.handler;
    (*handler)(event.events);
  }
}

}
