#pragma once

#include <utility>

namespace mvm {

// Runs `action` when the scope ends, unless released.
template <typename Action>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(Action action) : action_(std::move(action)) {}
  ~ScopeExit() {
    if (armed_) action_();
  }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  void release() noexcept { armed_ = false; }

 private:
  Action action_;
  bool armed_ = true;
};

}
