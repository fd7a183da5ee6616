#pragma once
// When what filters have told goes on record: Settings::commit.

#include <functional>
#include <utility>

#include "mvm/egress/proxy.h"

namespace mvm::egress {

class Commit {
 public:
  explicit Commit(std::function<bool(Passage)> commit) : commit_(std::move(commit)) {}

  // Before something passes. False: it may not.
  bool before() {
    after_is_due_ = static_cast<bool>(commit_);
    return !commit_ || commit_(Passage::Before);
  }
  // When it has been handed on. What cannot be recorded by then is no reason to refuse anything.
  void after() {
    if (std::exchange(after_is_due_, false)) static_cast<void>(commit_(Passage::After));
  }
  // An exchange has ended, and its filters have had their last word.
  void end() {
    after_is_due_ = static_cast<bool>(commit_);
    after();
  }

 private:
  std::function<bool(Passage)> commit_;
  bool after_is_due_ = false;
};

}
