#pragma once
// The table of providers' keys: what they start with, what follows, what proves it.

#include <cstdint>
#include <span>
#include <string_view>

namespace mvm::protect {

enum class Alphabet : uint8_t {
  Hex,     // 0-9 a-f
  HexAny,  // and A-F
  Upper,   // A-Z 0-9
  Lower,   // a-z 0-9
  Alnum,
  Dash,     // and _ -
  Dot,      // and .
  Base64,   // A-Z a-z 0-9 + / = _ -
  Percent,  // Base64 as URLs have it
};

enum class KeyCheck : uint8_t { None, GithubCrc };

struct KeyForm {
  std::string_view provider;
  std::string_view prefix;  // one that ends in '.' stands before the long run that triggers
  Alphabet alphabet;
  uint16_t least;  // characters behind the prefix
  uint16_t most;
  KeyCheck check = KeyCheck::None;
};

// Keys without a shape of their own: found where the provider's name stands before them.
struct LabelledKey {
  std::string_view provider;
  std::string_view label;  // lowercase, within 64 bytes before the value
  Alphabet alphabet;
  uint16_t least;
  uint16_t most;
};

std::span<const KeyForm> key_forms();
std::span<const LabelledKey> labelled_keys();

}
