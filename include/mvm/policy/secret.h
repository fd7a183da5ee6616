#pragma once
// Which secret may go where: rules of mvm.toml and of flags (proto/secrets.h) as values, and the
// providers that mvm knows. Pure; the values of secrets are nowhere near.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/policy/policy.h"
#include "mvm/proto/secrets.h"

namespace mvm::policy {

enum class SecretPlace : uint8_t {
  Header,   // a field that carries credentials
  Basic,    // the name or the password of Basic credentials, inside their base64
  Query,    // of the target
  UrlPath,  // of the target
  Form,     // a body that is a form (application/x-www-form-urlencoded)
  Body,     // any body, forms included
};
inline constexpr size_t kSecretPlaces = 6;
std::string_view secret_place_word(SecretPlace place) noexcept;
std::optional<SecretPlace> parse_secret_place(std::string_view word) noexcept;

// "Authorization: Bearer": a field, and the scheme before the placeholder, if any.
struct SecretHeader {
  std::string name;
  std::string scheme;
};

struct SecretBinding {
  std::string name;
  std::vector<HostRule> hosts;
  std::vector<SecretPlace> places;
  std::vector<SecretHeader> headers;  // empty: every field that is_credential_field()
  std::string prefix;
  bool plaintext = false;
  bool end_on_misuse = false;
  bool pass_unreadable = false;  // what comes back in a content coding that cannot be read
  bool require = false;          // no request to its hosts without it

  bool has(SecretPlace place) const noexcept;
  bool covers(const dns::Name& host, uint16_t port) const noexcept;
};

// Fields that carry credentials, by their name, and that servers do not show around.
bool is_credential_field(std::string_view name) noexcept;

// What a rule leaves open is the provider's, where its variable is one that mvm knows.
proto::SecretRule with_provider(proto::SecretRule rule);
// Throws Error{Invalid} that names the entry: "secrets.GITHUB_TOKEN.hosts: …".
SecretBinding compile_secret(const proto::SecretRule& rule);
// All of them; also that there are not too many, and no two for one variable.
std::vector<SecretBinding> compile_secrets(const std::vector<proto::SecretRule>& rules);

// What is inspected because of them: connections to their hosts. Belongs in front of other rules.
std::vector<InspectRule> inspected_for(const std::vector<SecretBinding>& bindings);

// "NAME", "NAME@host" or "NAME@host,host". Nothing: it is none.
std::optional<proto::SecretRule> parse_secret_flag(std::string_view text);

// ---- complaints about one word, or nothing
std::optional<std::string> secret_name_complaint(std::string_view text);
std::optional<std::string> secret_reference_complaint(std::string_view text);
std::optional<std::string> secret_place_complaint(std::string_view text);
std::optional<std::string> secret_header_complaint(std::string_view text);
std::optional<std::string> secret_prefix_complaint(std::string_view text);
std::optional<std::string> secret_misuse_complaint(std::string_view text);
std::optional<std::string> secret_unreadable_complaint(std::string_view text);
// Of the value for a rule; says nothing of the value itself.
std::optional<std::string> secret_value_complaint(const SecretBinding& binding,
                                                  std::string_view value);

// ---- the catalogue: variables that programs look for, and where their values belong
struct SecretProvider {
  std::string_view name;     // "OPENAI_API_KEY"
  std::string_view hosts;    // separated by blanks
  std::string_view places;   // likewise; "": header and basic
  std::string_view headers;  // separated by '|'; "": any field that carries credentials
  std::string_view prefix;   // what clients check
};
std::span<const SecretProvider> secret_providers() noexcept;
const SecretProvider* find_secret_provider(std::string_view name) noexcept;

}
