#pragma once
// Patterns of the user's own, in RE2's syntax: linear time whatever the text.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::protect {

inline constexpr size_t kMaxPatterns = 64;
inline constexpr size_t kMaxPatternText = 1024;

enum class PatternCheck : uint8_t {
  None,
  Luhn,   // the digits of the value, ISO/IEC 7812-1
  Mod97,  // its letters and digits, ISO 7064 MOD 97-10, checked as an IBAN is
};

struct Pattern {
  std::string name;        // as a class is named: [a-z][a-z0-9_]*
  std::string expression;  // its first group, when it has one, is the value
  PatternCheck check = PatternCheck::None;
};

class PatternSet {
 public:
  struct Match {
    size_t offset = 0;
    size_t length = 0;
    std::string_view name;  // lives as long as the set
  };

  // Throws Error{Invalid} that names the pattern and says what is wrong with it.
  explicit PatternSet(std::vector<Pattern> patterns);
  ~PatternSet();

  // In order, never overlapping, none empty; of two at one place the earlier pattern's.
  std::vector<Match> find(std::string_view text) const;

 private:
  struct Compiled;
  std::vector<Compiled> patterns_;
};

}
