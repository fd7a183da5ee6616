#pragma once
// How much a sandbox may use, and what it costs: values from mvm.toml.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/meter/usage.h"

namespace mvm::meter {

// Each may be missing: no limit.
struct Budget {
  std::optional<uint64_t> total_tokens;
  std::optional<uint64_t> input_tokens;
  std::optional<uint64_t> output_tokens;
  std::optional<uint64_t> requests;
  std::optional<uint64_t> cost;  // nanodollars

  bool any() const { return total_tokens || input_tokens || output_tokens || requests || cost; }
  bool operator==(const Budget&) const = default;
};

// What becomes of an answer that does not say what was used.
enum class OnUnknown : uint8_t {
  Count,     // it is counted as unknown, and the budget as what is known at least
  Estimate,  // the budget is charged the most that it can have been
  Refuse,    // the next request is refused
};
std::optional<OnUnknown> on_unknown_from_word(std::string_view word) noexcept;
std::string_view on_unknown_word(OnUnknown what) noexcept;

// Of models whose names match, in picodollars a token, which is microdollars a million.
struct Price {
  std::string model;  // "gpt-4o", or "gpt-4o*" for all that begin so
  uint64_t input = 0;
  uint64_t output = 0;
  std::optional<uint64_t> cached;         // of input; nothing: as input
  std::optional<uint64_t> cache_written;  // likewise

  bool operator==(const Price&) const = default;
};
// "2.50" dollars a million tokens, as picodollars a token.
std::optional<uint64_t> parse_price(std::string_view dollars);
// "2.5" from nanodollars.
std::string format_dollars(uint64_t nanodollars);

class PriceTable {
 public:
  static constexpr size_t kMaxPrices = 256;
  PriceTable() = default;
  explicit PriceTable(std::vector<Price> prices) : prices_(std::move(prices)) {}

  bool empty() const noexcept { return prices_.empty(); }
  // In nanodollars, rounded up: what the provider says, else by the first price that fits. Nothing
  // without either.
  std::optional<uint64_t> cost(std::string_view model, const Usage& usage) const;
  // The most that so many tokens can cost, whatever the model.
  uint64_t dearest(uint64_t input, uint64_t output) const;

 private:
  std::vector<Price> prices_;
};

}
