#pragma once
// Tokens that a sandbox's flows were given, and of which class; never their values. By these a
// token that turns up in another flow is told from a number that only looks like one. The last kMax
// are remembered.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/base/pair_sieve.h"
#include "mvm/protect/finding.h"

namespace mvm::protect {

class PastTokens {
 public:
  static constexpr size_t kMax = 4096;

  // Costs little: it is filed by file(), or when somebody looks for one.
  void add(std::string_view token, PiiClass kind);
  void file();

  struct Known {
    size_t length;
    PiiClass kind;
  };
  // The one that `text` begins with.
  std::optional<Known> at(std::string_view text);
  // The class of one that `text` is a true beginning of.
  std::optional<PiiClass> begun(std::string_view text);
  // Whether one that is filed may begin with two bytes.
  bool may_start(char first, char second) const noexcept { return starts_.may_hold(first, second); }

 private:
  static constexpr size_t kMaxFresh = 256;
  using Tokens = std::map<std::string, PiiClass, std::less<>>;
  Tokens tokens_;
  std::deque<Tokens::iterator> order_;
  PairSieve starts_;  // also of those that are forgotten
  std::vector<std::pair<std::string, PiiClass>> fresh_;
};

}
