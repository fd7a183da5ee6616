#pragma once
// Tokens that a sandbox's flows were given, and of which class; never their values. By these a
// token that turns up in another flow is told from a number that only looks like one. The last kMax
// are remembered.

#include <array>
#include <cstdint>
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

  PastTokens() { chains_.fill(kEnd); }

  // Not one of less than four bytes, which looks like any word. Costs little: it is filed by
  // file(), or when somebody looks for one.
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
  // A hash table of chains through a ring of the last kMax: a request's tokens touch a few lines of
  // memory that has long left the caches, and what is no token none.
  static constexpr size_t kMaxFresh = 256;
  static constexpr size_t kKey = 4;  // bytes at the front, by which they are filed
  static constexpr uint16_t kEnd = UINT16_MAX;
  struct Token {
    std::string text;
    PiiClass kind;
    uint16_t next;  // of its chain, or kEnd
  };
  static_assert(kMax < kEnd);
  uint16_t& chain(std::string_view text) noexcept;
  void forget_oldest();
  template <typename Matches>
  const Token* longest(std::string_view text, Matches matches);

  std::vector<Token> ring_;
  size_t oldest_ = 0;  // when the ring is full
  std::array<uint16_t, kMax> chains_;
  PairSieve starts_;  // also of some that are forgotten
  std::vector<std::pair<std::string, PiiClass>> fresh_;
};

}
