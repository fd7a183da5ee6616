#include "mvm/base/error.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace mvm {

static constexpr std::array<std::string_view, 9> kKindNames = {
    "invalid",     "not_found", "conflict",    "denied",  "exhausted",
    "unavailable", "timeout",   "unsupported", "internal"};
static_assert(kKindNames.size() == static_cast<size_t>(Kind::Internal) + 1);

std::string_view kind_name(Kind kind) { return kKindNames.at(static_cast<size_t>(kind)); }

Kind kind_from_name(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames.at(i) == name) return static_cast<Kind>(i);
  return Kind::Internal;
}

void Error::add_context(std::string_view doing) {
  message_.insert(0, ": ");
  message_.insert(0, doing);
}

void assertion_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "mvm: internal error: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}
