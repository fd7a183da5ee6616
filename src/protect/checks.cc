#include "checks.h"

#include <array>
#include <bit>
#include <cstring>

#include "mvm/crypto/hash.h"

#include "letters.h"

namespace mvm::protect {

bool luhn(std::string_view digits) noexcept {
  unsigned sum = 0;
  bool twice = false;
  for (size_t i = digits.size(); i-- > 0; twice = !twice) {
    unsigned digit = static_cast<unsigned>(digits[i] - '0');
    if (twice) digit = digit * 2 - (digit > 4 ? 9 : 0);
    sum += digit;
  }
  return sum % 10 == 0;
}

bool verhoeff(std::string_view digits) noexcept {
  // The dihedral group D5: 0-4 rotations, 5-9 reflections.
  const auto times = [](unsigned a, unsigned b) {
    if (a < 5) return b < 5 ? (a + b) % 5 : 5 + (a + b - 5) % 5;
    return b < 5 ? 5 + (a - 5 + 5 - b) % 5 : (a + 5 - b) % 5;
  };
  constexpr std::array<uint8_t, 10> kPermutation = {1, 5, 7, 6, 2, 8, 3, 0, 9, 4};
  unsigned check = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    unsigned digit = static_cast<unsigned>(digits[digits.size() - 1 - i] - '0');
    for (size_t k = 0; k < i % 8; ++k) digit = kPermutation.at(digit);
    check = times(check, digit);
  }
  return check == 0;
}

bool mod97_is_1(std::string_view rearranged) noexcept {
  unsigned rest = 0;
  for (const char c : rearranged) {
    if (is(c, kDigit))
      rest = (rest * 10 + static_cast<unsigned>(c - '0')) % 97;
    else
      rest = (rest * 100 + static_cast<unsigned>(c - 'A') + 10) % 97;
  }
  return rest == 1;
}

bool mod11_10(std::string_view digits) noexcept {
  unsigned product = 10;
  for (size_t i = 0; i + 1 < digits.size(); ++i) {
    unsigned sum = (static_cast<unsigned>(digits[i] - '0') + product) % 10;
    if (sum == 0) sum = 10;
    product = sum * 2 % 11;
  }
  return (product + static_cast<unsigned>(digits.back() - '0')) % 10 == 1;
}

int weighted_sum(std::string_view digits, std::span<const int8_t> weights) noexcept {
  int sum = 0;
  for (size_t i = 0; i < weights.size() && i < digits.size(); ++i)
    sum += weights[i] * (digits[i] - '0');
  return sum;
}

uint64_t number(std::string_view digits) noexcept {
  uint64_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<uint64_t>(c - '0');
  return value;
}

bool all_same(std::string_view text) noexcept {
  return text.find_first_not_of(text.front()) == std::string_view::npos;
}

bool is_sequence(std::string_view digits) noexcept {
  bool up = true;
  bool down = true;
  for (size_t i = 1; i < digits.size(); ++i) {
    up = up && (digits[i] - digits[i - 1] + 10) % 10 == 1;
    down = down && (digits[i - 1] - digits[i] + 10) % 10 == 1;
  }
  return up || down;
}

bool valid_date(unsigned year, unsigned month, unsigned day) noexcept {
  constexpr std::array<uint8_t, 13> kDays = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1 || day > kDays.at(month)) return false;
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month != 2 || day < 29 || leap;
}

unsigned part(std::string_view digits, size_t at, size_t length) noexcept {
  return static_cast<unsigned>(number(digits.substr(at, length)));
}

namespace {

constexpr std::string_view kBase58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
constexpr auto kBase58Values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kBase58.size(); ++i)
    values[static_cast<uint8_t>(kBase58[i])] = static_cast<int8_t>(i);
  return values;
}();

}

bool base58_decode(std::string_view text, std::string& out) {
  std::array<uint8_t, 128> bytes{};  // least significant first
  size_t used = 0;
  if (text.size() > 128) return false;
  for (const char c : text) {
    int carry = kBase58Values[static_cast<uint8_t>(c)];
    if (carry < 0) return false;
    for (size_t i = 0; i < used; ++i) {
      carry += bytes.at(i) * 58;
      bytes.at(i) = static_cast<uint8_t>(carry & 0xff);
      carry >>= 8;
    }
    for (; carry > 0; carry >>= 8) bytes.at(used++) = static_cast<uint8_t>(carry & 0xff);
  }
  out.clear();
  for (size_t i = 0; i < text.size() && text[i] == '1'; ++i) out += '\0';
  for (size_t i = used; i-- > 0;) out += static_cast<char>(bytes.at(i));
  return true;
}

bool base58check(std::string_view text, std::string& payload) {
  std::string bytes;
  if (!base58_decode(text, bytes) || bytes.size() < 5) return false;
  payload = bytes.substr(0, bytes.size() - 4);
  const crypto::Digest once = crypto::sha256(as_bytes(payload));
  const crypto::Digest twice = crypto::sha256(once);
  return std::memcmp(twice.data(), bytes.data() + payload.size(), 4) == 0;
}

Bech32 bech32(std::string_view text) noexcept {
  constexpr std::string_view kAlphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
  const size_t split = text.rfind('1');
  if (split == std::string_view::npos || split == 0 || text.size() - split < 7) return Bech32::None;
  uint32_t check = 1;
  const auto step = [&](unsigned value) {
    constexpr std::array<uint32_t, 5> kGenerator = {0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd,
                                                    0x2a1462b3};
    const uint32_t top = check >> 25;
    check = ((check & 0x1ffffff) << 5) ^ value;
    for (unsigned i = 0; i < 5; ++i)
      if (((top >> i) & 1) != 0) check ^= kGenerator.at(i);
  };
  for (size_t i = 0; i < split; ++i) step(static_cast<uint8_t>(text[i]) >> 5);
  step(0);
  for (size_t i = 0; i < split; ++i) step(static_cast<uint8_t>(text[i]) & 31);
  for (size_t i = split + 1; i < text.size(); ++i) {
    const size_t value = kAlphabet.find(text[i]);
    if (value == std::string_view::npos) return Bech32::None;
    step(static_cast<unsigned>(value));
  }
  if (check == 1) return Bech32::Bech32;
  return check == 0x2bc830a3 ? Bech32::Bech32m : Bech32::None;
}

uint32_t crc32(std::string_view bytes) noexcept {
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

}
