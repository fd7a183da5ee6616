#pragma once
// What the readers of sources share.

#include "mvm/image/import.h"
#include "mvm/image/source.h"

namespace mvm::image {

// Tells progress at most once per MiB of work.
class Meter {
 public:
  Meter(const Progress& progress, Phase phase, std::optional<uint64_t> total)
      : progress_(progress), phase_(phase), total_(total) {}
  void at(uint64_t done) {
    if (done - told_ < kStep) return;
    tell(done);
  }
  void tell(uint64_t done) {
    told_ = done;
    if (progress_) progress_(done, total_, phase_);
  }

 private:
  static constexpr uint64_t kStep = uint64_t{1} << 20;
  const Progress& progress_;
  Phase phase_;
  std::optional<uint64_t> total_;
  uint64_t told_ = 0;
};

// What both readers check for each node they add.
void check_tree_limits(const Tree& tree, const Limits& limits);

// Sorts, keeps only what an image keeps and checks the bound; `notes` counts what goes.
void keep_xattrs(Xattrs::List& xattrs, Notes& notes);

}
