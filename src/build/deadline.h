#pragma once
// What is left of the time that a build may take, all of its steps together.

#include <algorithm>
#include <chrono>

#include "mvm/agent/connection.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::build {

class Deadline {
 public:
  // From now on; no limit never ends.
  explicit Deadline(agent::Limit limit = {})
      : limit_(limit), start_(std::chrono::steady_clock::now()) {}

  // Throws Error{Timeout} when nothing is left. 0: there is no limit.
  agent::Milliseconds left() const {
    if (!limit_) return agent::Milliseconds(0);
    const auto spent =
        std::chrono::duration_cast<agent::Milliseconds>(std::chrono::steady_clock::now() - start_);
    if (spent >= *limit_) over();
    return *limit_ - spent;
  }
  // Also for a builder that says so where there is no limit: it is hostile.
  [[noreturn]] void over() const {
    const std::string limit =
        limit_ ? format_duration_ms(static_cast<uint64_t>(limit_->count())) : "it may";
    throw Error(Kind::Timeout, "the build took longer than " + limit + " and was ended");
  }

 private:
  agent::Limit limit_;
  std::chrono::steady_clock::time_point start_;
};

}
