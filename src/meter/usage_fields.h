#pragma once
// Where each dialect says what.

#include <optional>
#include <string_view>

#include "mvm/meter/usage.h"

namespace mvm::meter {

// `rank` tells two ways of saying the same apart; only the first that is used counts.
struct UsageField {
  std::string_view path;
  Tally::Field field;
  size_t rank = 0;
};
const UsageField* find_usage_field(Dialect dialect, std::string_view path);

// Of one of the steps that the answer took: Anthropic's own counts leave some of them out.
std::optional<Tally::Field> find_step_field(Dialect dialect, std::string_view path);

// Bedrock's headers.
std::optional<Tally::Field> find_usage_header(std::string_view name);

}
