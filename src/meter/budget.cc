#include "mvm/meter/budget.h"

#include <algorithm>

namespace mvm::meter {
namespace {

// Of 64 bits each, counts times prices need twice that.
__extension__ using Wide = unsigned __int128;

// Nothing here is worth more than this many nanodollars, so sums of a few never overflow.
constexpr Wide kMost = uint64_t{1} << 62;

uint64_t nanodollars(Wide pico) {
  const Wide nano = (pico + 999) / 1000;
  return static_cast<uint64_t>(std::min(nano, kMost));
}

bool fits(const Price& price, std::string_view model) {
  const std::string_view pattern = price.model;
  return pattern.ends_with('*') ? model.starts_with(pattern.substr(0, pattern.size() - 1))
                                : model == pattern;
}

}

std::optional<OnUnknown> on_unknown_from_word(std::string_view word) noexcept {
  for (const OnUnknown one : {OnUnknown::Count, OnUnknown::Estimate, OnUnknown::Refuse})
    if (on_unknown_word(one) == word) return one;
  return std::nullopt;
}

std::string_view on_unknown_word(OnUnknown what) noexcept {
  switch (what) {
    case OnUnknown::Count:
      return "count";
    case OnUnknown::Estimate:
      return "estimate";
    case OnUnknown::Refuse:
      return "refuse";
  }
  return "";
}

// Dollars a million are microdollars a token; a nanodollar a million is a thousandth of our unit.
std::optional<uint64_t> parse_price(std::string_view dollars) {
  const auto nano = parse_nanodollars(dollars);
  if (!nano || *nano % 1000 != 0) return std::nullopt;
  return *nano / 1000;
}

std::string format_dollars(uint64_t nanodollars) {
  constexpr uint64_t kDollar = 1'000'000'000;
  std::string out = std::to_string(nanodollars / kDollar);
  std::string rest = std::to_string(kDollar + nanodollars % kDollar).substr(1);
  while (rest.size() > 2 && rest.back() == '0') rest.pop_back();
  return out + "." + rest;
}

std::optional<uint64_t> PriceTable::cost(std::string_view model, const Usage& usage) const {
  if (usage.cost) return std::min(*usage.cost, static_cast<uint64_t>(kMost));
  const auto price =
      std::ranges::find_if(prices_, [&](const Price& one) { return fits(one, model); });
  if (price == prices_.end()) return std::nullopt;
  const uint64_t apart = std::min(usage.input, usage.cached + usage.cache_written);
  return nanodollars(Wide{usage.input - apart} * price->input +
                     Wide{usage.cached} * price->cached.value_or(price->input) +
                     Wide{usage.cache_written} * price->cache_written.value_or(price->input) +
                     Wide{usage.output} * price->output);
}

uint64_t PriceTable::dearest(uint64_t input, uint64_t output) const {
  Wide most = 0;
  for (const Price& price : prices_) {
    const uint64_t in =
        std::max({price.input, price.cached.value_or(0), price.cache_written.value_or(0)});
    most = std::max(most, Wide{input} * in + Wide{output} * price.output);
  }
  return nanodollars(most);
}

}
