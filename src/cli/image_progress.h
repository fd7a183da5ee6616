#pragma once
// How far work on an image is, on a terminal, once it has taken a second: the stage, a bar where
// its end is known, bytes and their rate.

#include <chrono>
#include <string>

#include "mvm/api/types.h"
#include "mvm/cli/context.h"

namespace mvm::cli {

class ImageProgress {
 public:
  using Clock = std::chrono::steady_clock;

  ImageProgress(Console& console, std::string name, bool quiet,
                Clock::time_point now = Clock::now())
      : console_(console), name_(std::move(name)), quiet_(quiet), start_(now), began_(now) {}

  // Notes are printed; the rest is shown at most ten times a second.
  void show(const api::ImportProgress& progress, Clock::time_point now = Clock::now());

 private:
  Console& console_;
  std::string name_;
  bool quiet_;
  Clock::time_point start_;
  std::string stage_;
  Clock::time_point began_;  // of this stage
  uint64_t began_at_ = 0;
  Clock::time_point shown_;
};

// "[=====>    ]" of `width` characters between the brackets.
std::string bar(uint64_t done, uint64_t total, size_t width);

}
