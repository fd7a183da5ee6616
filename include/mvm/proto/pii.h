#pragma once
// What is to become of personal data in a sandbox's traffic, as it is asked for: in the words of
// flags and mvm.toml. What the words mean is decided in mvm/privacy; here they are bounded text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxPiiRules = 256;
inline constexpr size_t kMaxPiiWords = 64;   // classes of one rule, patterns, hosts of a list
inline constexpr size_t kMaxPiiText = 1024;  // one word
inline constexpr uint64_t kMaxPiiTimeMs = uint64_t{24} * 3600 * 1000;

struct PiiRule {
  std::string id;
  std::string host;                  // "*.example.com:8443"; empty: every host
  std::vector<std::string> classes;  // classes and groups of them; empty: all
  std::string action = "tokenize";   // "allow", "detect", "tokenize", "redact", "deny"
  bool operator==(const PiiRule&) const = default;
};

struct PiiPattern {
  std::string name;
  std::string expression;  // RE2
  std::string check;       // "", "luhn", "mod97"
  bool operator==(const PiiPattern&) const = default;
};

struct PiiConfig {
  std::string mode = "disabled";        // "detect", "tokenize", "redact", "refuse"
  std::vector<std::string> categories;  // what `mode` is about; empty: all classes
  std::vector<PiiRule> rules;           // asked before `mode`; the first that matches decides
  std::vector<PiiPattern> patterns;
  std::vector<std::string> bypass;   // hosts that are not looked into: "*.example.com:8443", "*:22"
  std::string on_mismatch = "keep";  // "redact", "deny"
  std::string on_undecodable = "deny";  // "allow"
  uint64_t token_lifetime_ms = uint64_t{600} * 1000;
  bool token_once = false;  // a token is restored a single time
  uint64_t token_window_ms =
      0;  // exchanges with one destination that share tokens; 0: each its own
  bool operator==(const PiiConfig&) const = default;

  bool enabled() const { return mode != "disabled" || !rules.empty(); }

  Bytes encode() const;
  static std::optional<PiiConfig> decode(ByteView data);
};

}
