#pragma once
// What is to become of personal data in a sandbox's traffic, as it is asked for: in the words of
// flags and mvm.toml. What the words mean is decided in mvm/privacy; here they are bounded text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxPiiEntries = 256;  // of each list
inline constexpr size_t kMaxPiiText = 2048;    // one word
inline constexpr uint64_t kMaxPiiTimeMs = uint64_t{24} * 3600 * 1000;

inline constexpr uint64_t kMinPiiValue = uint64_t{4} << 10;
inline constexpr uint64_t kMaxPiiValue = uint64_t{16} << 20;
inline constexpr uint64_t kMinPiiGrowth = 2;
inline constexpr uint64_t kMaxPiiGrowth = 10'000;

struct PiiConfig {
  std::string mode = "disabled";        // "detect", "tokenize", "redact", "refuse"
  std::vector<std::string> categories;  // what `mode` is about; empty: all classes
  // "allow email,phone at *.example.com"; asked before `mode`, the first that matches decides.
  std::vector<std::string> rules;
  std::vector<std::string> patterns;    // "ticket TCK-\d+", "member:luhn M(\d{8})"
  std::vector<std::string> bypass;      // not looked into: "*.example.com:8443", "*:22"
  std::string on_mismatch = "keep";     // "redact", "deny"
  std::string on_undecodable = "deny";  // "allow"
  uint64_t token_lifetime_ms = uint64_t{600} * 1000;
  bool token_once = false;       // a token is restored a single time
  uint64_t token_window_ms = 0;  // exchanges with one destination share tokens so long; 0: none do
  uint64_t max_value = uint64_t{1} << 20;  // bytes of one value that are held
  uint64_t max_growth = 200;               // times, of a body that is decoded
  bool operator==(const PiiConfig&) const = default;

  bool enabled() const { return mode != "disabled" || !rules.empty(); }

  Bytes encode() const;
  static std::optional<PiiConfig> decode(ByteView data);
};

}
