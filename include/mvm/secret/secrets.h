#pragma once
// The secrets of one sandbox from its start to its end: values, and the placeholders that the guest
// has instead. A placeholder is new at every start and says nothing of its value.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mvm/policy/secret.h"
#include "mvm/secret/finder.h"
#include "mvm/secret/locked.h"

namespace mvm::secret {

// In every placeholder, behind the prefix that its provider's clients look for. Only letters that
// no encoding changes: [A-Za-z0-9_-].
inline constexpr std::string_view kMark = "mvm-secret-";
std::string make_placeholder(std::string_view prefix);

struct Secret {
  policy::SecretBinding binding;
  std::string_view value;  // in the locked memory of the Secrets that it is of
  std::string placeholder;
};

class Secrets {
 public:
  // Ids that finders tell: of a value, its place in all(); of a placeholder, that and kPlaceholder.
  static constexpr uint32_t kPlaceholder = 1U << 31;
  static size_t index_of(uint32_t id) noexcept { return id & ~kPlaceholder; }

  // Wipes the values that it is given. Throws Error{Invalid} that names the rule.
  explicit Secrets(proto::SecretsConfig& config);

  const std::vector<Secret>& all() const noexcept { return all_; }
  bool empty() const noexcept { return all_.empty(); }
  // What the guest's commands get.
  std::vector<std::pair<std::string, std::string>> environment() const;

  const Finder& values() const noexcept { return values_; }  // in all forms
  // For heads: values and placeholders in all forms. For bodies: placeholders only as they are.
  const Finder& in_head() const noexcept { return in_head_; }
  const Finder& in_body() const noexcept { return in_body_; }

  // Whose value a domain name holds, if any: in its labels, each by itself or one after the other,
  // in any case, as it is or in hexadecimal digits.
  std::optional<size_t> in_name(std::string_view name) const;

  // Whether all that is made of the values is in locked memory.
  bool locked() const noexcept;

 private:
  Locked locked_;
  std::vector<Secret> all_;
  Finder values_;
  // Placeholders are no secrets; of values they have what is in the other's memory.
  Finder in_head_{Finder::Memory::Plain};
  Finder in_body_{Finder::Memory::Plain};
  Finder in_name_;  // of small letters
};

}
