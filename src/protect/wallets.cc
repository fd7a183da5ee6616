// Addresses and keys of crypto currencies, by their checksums.

#include <algorithm>
#include <string>

#include "checks.h"
#include "detectors.h"
#include "letters.h"

namespace mvm::protect {
namespace {

std::string_view base58_kind(std::string_view payload) {
  if (payload.size() == 21) {
    switch (static_cast<uint8_t>(payload[0])) {
      case 0x00:
      case 0x05:
        return "bitcoin";
      case 0x30:
      case 0x32:
        return "litecoin";
      case 0x1e:
      case 0x16:
        return "dogecoin";
      case 0x4c:
      case 0x10:
        return "dash";
      case 0x41:
        return "tron";
      case 0x6f:
      case 0xc4:
        return "bitcoin_test";
      default:
        return {};
    }
  }
  if (payload.size() == 22 && payload[0] == 0x1c &&
      (static_cast<uint8_t>(payload[1]) == 0xb8 || static_cast<uint8_t>(payload[1]) == 0xbd))
    return "zcash";
  return {};
}

Found segwit(const Token& token) {
  constexpr std::string_view kSegwit[] = {"bc1", "tb1", "ltc1"};
  constexpr std::string_view kOthers[] = {"cosmos1", "osmo1", "addr1", "celestia1", "inj1"};
  for (const std::string_view prefix : kSegwit) {
    if (!token.text.starts_with(prefix) || token.text.size() > 90) continue;
    const Bech32 kind = bech32(token.text);
    // BIP 350: version 0 ('q') uses Bech32, later ones Bech32m.
    const bool first = token.text[prefix.size()] == 'q';
    if (kind == (first ? Bech32::Bech32 : Bech32::Bech32m))
      return Hit{token.start, token.end, PiiClass::CryptoAddress,
                 prefix == "ltc1" ? "litecoin" : "bitcoin"};
  }
  for (const std::string_view prefix : kOthers)
    if (token.text.starts_with(prefix) && bech32(token.text) == Bech32::Bech32)
      return Hit{token.start, token.end, PiiClass::CryptoAddress,
                 prefix.substr(0, prefix.size() - 1)};
  return std::nullopt;
}

}

Found match_wallet(const Window& window, const Token& token) {
  const std::string_view text = token.text;
  if (text.size() == 42 && text[0] == '0' && text[1] == 'x') {
    const std::string_view digits = text.substr(2);
    if (!std::ranges::all_of(digits, is_hex) || all_same(digits.substr(0, 38))) return std::nullopt;
    const bool upper = std::ranges::any_of(digits, [](char c) { return is(c, kUpper); });
    const bool lower = std::ranges::any_of(digits, [](char c) { return is(c, kLower); });
    if (upper && lower && !eip55(digits)) return std::nullopt;
    return Hit{token.start, token.end, PiiClass::CryptoAddress, "ethereum"};
  }
  if (window.before(token.start) == '/' || window.before(token.start) == '+' ||
      window.at(token.end) == '+' || window.at(token.end) == '=')
    return std::nullopt;
  if (Found found = segwit(token)) return found;
  if (text.size() < 26 || text.size() > 52 ||
      !std::ranges::all_of(text, [](char c) { return is(c, kAlnum); }))
    return std::nullopt;
  // Most words end here: the first letters that addresses have.
  if (std::string_view("13LMDXTtmn2A97K5c").find(text[0]) == std::string_view::npos)
    return std::nullopt;
  std::string payload;
  if (!base58check(text, payload)) return std::nullopt;
  // A private key in wallet import format.
  if ((payload.size() == 33 || payload.size() == 34) && static_cast<uint8_t>(payload[0]) == 0x80)
    return Hit{token.start, token.end, PiiClass::PrivateKey, "bitcoin"};
  const std::string_view kind = base58_kind(payload);
  if (kind.empty()) return std::nullopt;
  return Hit{token.start, token.end, PiiClass::CryptoAddress, kind};
}

}
