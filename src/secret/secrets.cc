#include "mvm/secret/secrets.h"

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/crypto/random.h"
#include "mvm/secret/text.h"

namespace mvm::secret {

static constexpr size_t kRandomLetters = 26;  // of 5 bits: 130

std::string make_placeholder(std::string_view prefix) {
  return crypto::random_id(std::string(prefix) + std::string(kMark), kRandomLetters);
}

static std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Secrets::Secrets(proto::SecretsConfig& config) {
  const ScopeExit forget([&] { proto::wipe(config.values); });
  for (policy::SecretBinding& binding : policy::compile_secrets(config.rules)) {
    const auto value = config.values.find(binding.name);
    const std::string where = "secrets." + binding.name + ": ";
    if (value == config.values.end()) throw Error(Kind::Invalid, where + "it has no value");
    if (const auto complaint = policy::secret_value_complaint(binding, value->second))
      throw Error(Kind::Invalid, where + *complaint);
    std::string placeholder = make_placeholder(binding.prefix);
    all_.push_back({std::move(binding), locked_.keep(value->second), std::move(placeholder)});
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    const auto id = static_cast<uint32_t>(i);
    std::string small = small_letters(all_[i].value);
    in_name_.add(small, id, Finder::Written::Never);
    std::erase(small, '.');
    if (small.size() >= Finder::kMinText) in_name_.add(small, id, Finder::Written::Never);
    wipe(small);
    values_.add(all_[i].value, id, Finder::Written::Twice);
    in_head_.add(all_[i].placeholder, id | kPlaceholder, Finder::Written::Once);
    in_body_.add(all_[i].placeholder, id | kPlaceholder, Finder::Written::Never);
  }
  in_head_.include(values_);
  in_body_.include(values_);
}

std::optional<size_t> Secrets::in_name(std::string_view name) const {
  const std::string labels = small_letters(name);
  std::string joined = labels;
  std::erase(joined, '.');
  for (const std::string_view text : {std::string_view(labels), std::string_view(joined)})
    for (const Finder* finder : {&in_name_, &values_})
      if (const auto hit = finder->find(text, 0, true); hit.kind == Finder::Hit::Kind::Whole)
        return hit.id;
  return std::nullopt;
}

bool Secrets::locked() const noexcept {
  return locked_.whole() && values_.locked().whole() && in_name_.locked().whole();
}

std::vector<std::pair<std::string, std::string>> Secrets::environment() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Secret& secret : all_) out.emplace_back(secret.binding.name, secret.placeholder);
  return out;
}

}
