#include <array>

#include "mvm/protect/finding.h"

namespace mvm::protect {
namespace {

struct Row {
  std::string_view name;
  bool checked;
};

constexpr std::array<Row, kPiiClasses> kRows = {{
    {"email", false},
    {"phone", false},
    {"card", true},
    {"iban", true},
    {"us_ssn", true},
    {"us_itin", true},
    {"uk_nino", true},
    {"uk_nhs", true},
    {"national_id", true},
    {"bank_routing", true},
    {"vin", true},
    {"crypto_address", true},
    {"ipv4", false},
    {"ipv6", false},
    {"mac", false},
    {"coordinates", false},
    {"birth_date", false},
    {"passport", false},
    {"driving_licence", false},
    {"jwt", false},
    {"private_key", false},
    {"api_key", false},
    {"high_entropy", false},
    {"custom", false},
}};

}

std::string_view class_name(PiiClass kind) noexcept {
  return kRows[static_cast<size_t>(kind)].name;
}

std::optional<PiiClass> class_from_name(std::string_view name) noexcept {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].name == name) return static_cast<PiiClass>(i);
  return std::nullopt;
}

bool has_check_rule(PiiClass kind) noexcept { return kRows[static_cast<size_t>(kind)].checked; }

}
