#include "mvm/protect/pattern.h"

#include <algorithm>
#include <array>
#include <re2/re2.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

#include "checks.h"
#include "letters.h"

namespace mvm::protect {
namespace {

constexpr int64_t kMemory = int64_t{2} << 20;  // of one automaton

bool is_class_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && is(name.front(), kLower) &&
         std::ranges::all_of(name, [](char c) { return is(c, kLower | kDigit) || c == '_'; });
}

bool passes(PatternCheck check, std::string_view value) {
  if (check == PatternCheck::None) return true;
  std::string kept;
  for (const char c : value) {
    if (is(c, kDigit)) kept += c;
    if (check == PatternCheck::Mod97 && is(c, kAlpha)) kept += upper(c);
  }
  constexpr size_t kLeast = 5;
  if (kept.size() < kLeast) return false;
  if (check == PatternCheck::Luhn) return luhn(kept);
  return mod97_is_1(kept.substr(4) + kept.substr(0, 4));
}

}

struct PatternSet::Compiled {
  std::string name;
  PatternCheck check;
  std::unique_ptr<RE2> expression;
};

PatternSet::PatternSet(std::vector<Pattern> patterns) {
  if (patterns.size() > kMaxPatterns)
    throw Error(Kind::Invalid,
                "there are more than " + std::to_string(kMaxPatterns) + " patterns of one's own");
  for (Pattern& pattern : patterns) {
    if (!is_class_name(pattern.name))
      throw Error(Kind::Invalid, "'" + printable(pattern.name, 40) +
                                     "' cannot name a pattern: it takes lower-case letters, digits "
                                     "and '_', at most 32, a letter first");
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kMemory);
    auto expression = std::make_unique<RE2>(pattern.expression, options);
    if (pattern.expression.size() > kMaxPatternText || !expression->ok())
      throw Error(Kind::Invalid,
                  "the pattern '" + pattern.name + "' is no expression of RE2: " +
                      (expression->ok() ? "it is too long" : printable(expression->error(), 200)));
    patterns_.push_back({std::move(pattern.name), pattern.check, std::move(expression)});
  }
}
PatternSet::~PatternSet() = default;

std::vector<PatternSet::Match> PatternSet::find(std::string_view text) const {
  std::vector<Match> found;
  for (const Compiled& pattern : patterns_) {
    const int groups = std::min(pattern.expression->NumberOfCapturingGroups(), 1) + 1;
    std::array<re2::StringPiece, 2> groups_at;
    const re2::StringPiece whole(text.data(), text.size());
    for (size_t at = 0; at <= text.size();) {
      if (!pattern.expression->Match(whole, at, text.size(), RE2::UNANCHORED, groups_at.data(),
                                     groups))
        break;
      const auto offset = static_cast<size_t>(groups_at[0].data() - text.data());
      at = std::max(offset + groups_at[0].size(), at + 1);
      const re2::StringPiece value = groups == 2 ? groups_at[1] : groups_at[0];
      if (value.empty() || !passes(pattern.check, {value.data(), value.size()})) continue;
      found.push_back(
          {static_cast<size_t>(value.data() - text.data()), value.size(), pattern.name});
    }
  }
  std::ranges::stable_sort(found, {}, &Match::offset);
  size_t end = 0;
  std::erase_if(found, [&](const Match& match) {
    if (match.offset < end) return true;
    end = match.offset + match.length;
    return false;
  });
  return found;
}

}
