#pragma once
// A sandbox's secrets: rules in the words of flags and mvm.toml, which are stored and shown like
// other settings, and the values, which are only handed on. What the words mean is decided in
// mvm/policy/secret.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxSecrets = 64;
inline constexpr size_t kMaxSecretWords = 32;                // of each list of a rule
inline constexpr size_t kMaxSecretText = 1024;               // one word
inline constexpr size_t kMaxSecretRules = size_t{24} << 10;  // bytes of all rules, encoded
// A shorter value would be found in what has nothing to do with it.
inline constexpr size_t kMinSecretValue = 8;
inline constexpr size_t kMaxSecretValue = size_t{8} << 10;
inline constexpr size_t kMaxSecretValues = size_t{28} << 10;  // bytes of all values
// The sandbox process gets them in a message of their own, behind its configuration.
inline constexpr size_t kMaxSecretsMessage = size_t{64} << 10;

struct SecretRule {
  std::string name;                 // the variable that the guest finds a placeholder in
  std::string from;                 // where its value is; empty: stored, else the variable here
  std::vector<std::string> hosts;   // "api.example.com", "*.example.com:8443"
  std::vector<std::string> places;  // "header", "basic", "query", …; empty: header and basic
  std::vector<std::string>
      headers;                // "X-Api-Key", "Authorization: Bearer"; empty: any credential's
  std::string prefix;         // what its placeholder begins with
  bool plaintext = false;     // also over connections without TLS
  std::string on_misuse;      // "refuse", "end"; empty: refuse
  std::string on_unreadable;  // "refuse", "pass"; empty: refuse
  bool require = false;       // no request to its hosts without it
  bool operator==(const SecretRule&) const = default;
};

using SecretValues = std::map<std::string, std::string>;  // by the rule's name
void wipe(SecretValues& values) noexcept;

struct SecretsConfig {
  std::vector<SecretRule> rules;
  SecretValues values;

  Bytes encode() const;
  static std::optional<SecretsConfig> decode(ByteView data);
};

// Bytes of the rules alone, encoded.
size_t encoded_size(const std::vector<SecretRule>& rules);

}
