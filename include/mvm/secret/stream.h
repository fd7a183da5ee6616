#pragma once
// One body that passes in pieces, with what a Finder finds in it replaced. Held back between two
// pieces is the true beginning of a hit and nothing else.

#include <functional>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/secret/finder.h"

namespace mvm::secret {

class Stream {
 public:
  // Appends to `out` what is to stand in place of `found`. False: nothing more may pass.
  using OnHit = std::function<bool(const Finder::Hit& hit, std::string_view found, Bytes& out)>;

  // `finder` outlives the stream.
  Stream(const Finder& finder, OnHit on_hit) : finder_(finder), on_hit_(std::move(on_hit)) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // False once `on_hit` has said so.
  bool feed(std::string_view in, bool last, Bytes& out);
  size_t held() const noexcept { return held_.size(); }

 private:
  const Finder& finder_;
  OnHit on_hit_;
  std::string held_;
  bool refused_ = false;
};

}
