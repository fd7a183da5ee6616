#include "progress.h"

#include <chrono>

namespace mvm::cli {

Waiting::Waiting(Console& console, std::string what, bool quiet)
    : console_(console), what_(std::move(what)) {
  if (!quiet && console.look().err_terminal) thread_ = std::thread([this] { show(); });
}

Waiting::~Waiting() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  console_.clear_progress();
}

void Waiting::show() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (int second = 1;; ++second) {
    if (changed_.wait_until(lock, start + std::chrono::seconds(second), [this] { return done_; }))
      return;
    console_.progress(what_ + ": " + std::to_string(second) + " s");
  }
}

}
