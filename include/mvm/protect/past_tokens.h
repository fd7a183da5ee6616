#pragma once
// Tokens that a sandbox's flows were given, and of which class; never their values. By these a
// token that turns up in another flow is told from a number that only looks like one. The last kMax
// are remembered.

#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/protect/finding.h"

namespace mvm::protect {

class PastTokens {
 public:
  static constexpr size_t kMax = 4096;

  void add(std::string_view token, PiiClass kind);

  struct Known {
    size_t length;
    PiiClass kind;
  };
  // The one that `text` begins with.
  std::optional<Known> at(std::string_view text) const;
  // The class of one that `text` is a true beginning of.
  std::optional<PiiClass> begun(std::string_view text) const;
  // Whether one may begin with two bytes.
  bool may_start(uint16_t bytes) const noexcept { return starts_[bytes]; }

 private:
  using Tokens = std::map<std::string, PiiClass, std::less<>>;
  Tokens tokens_;
  std::deque<Tokens::iterator> order_;
  std::bitset<65536> starts_;  // also of those that are forgotten
};

}
