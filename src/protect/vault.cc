#include "mvm/protect/vault.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <string.h>  // explicit_bzero

#include "mvm/crypto/random.h"

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kRandomLetters = kMarkedToken - kTokenMark.size();  // of 5 bits

std::string random_text(std::string_view alphabet, size_t length, Randomness& random) {
  std::string out(length, '\0');
  for (char& c : out) c = random.letter(alphabet);
  return out;
}

std::string random_hex(size_t length, Randomness& random) {
  return random_text("0123456789abcdef", length, random);
}

// The mark, and lowercase base32 (RFC 4648).
std::string random_word(Randomness& random) {
  return std::string(kTokenMark) +
         random_text("abcdefghijklmnopqrstuvwxyz234567", kRandomLetters, random);
}

size_t digits_in(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return is(c, kDigit); }));
}

// The value's layout with other digits, the first of them `fixed`.
std::string like(std::string_view value, std::string_view fixed, Randomness& random) {
  std::string out(value);
  size_t digit = 0;
  for (char& c : out) {
    if (!is(c, kDigit)) continue;
    c = digit < fixed.size() && fixed[digit] != '?' ? fixed[digit] : random.digit();
    ++digit;
  }
  return out;
}

}

SecretBytes::SecretBytes(std::string_view bytes)
    : bytes_(std::make_unique<char[]>(bytes.size())), size_(bytes.size()) {
  std::memcpy(bytes_.get(), bytes.data(), size_);
}
SecretBytes::SecretBytes(SecretBytes&& other) noexcept
    : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)) {}
SecretBytes::~SecretBytes() {
  if (bytes_) explicit_bzero(bytes_.get(), size_);
}

Randomness::~Randomness() { explicit_bzero(bytes_.data(), bytes_.size()); }

uint8_t Randomness::byte() {
  if (left_ == 0) {
    crypto::random_bytes(bytes_);
    left_ = bytes_.size();
  }
  return std::to_integer<uint8_t>(std::exchange(bytes_.at(--left_), std::byte{0}));
}

char Randomness::digit() {
  while (true)
    if (const uint8_t drawn = byte(); drawn < 250) return static_cast<char>('0' + drawn % 10);
}

char Randomness::letter(std::string_view alphabet) {
  return alphabet[byte() & (alphabet.size() - 1)];
}

std::string make_token(PiiClass kind, std::string_view value, Randomness& random) {
  const bool numeric = digits_in(value) >= 9 &&
                       std::ranges::none_of(value, [](char c) { return is(c, kAlpha | kHigh); });
  switch (kind) {
    case PiiClass::Email:
      return random_word(random) + std::string(kTokenDomain);
    case PiiClass::Phone:
      if (!numeric) return random_word(random);
      return like(value, value.starts_with('+') ? "999" : "999999", random);  // +999 is no country
    case PiiClass::UsSsn:
    case PiiClass::UsItin:
      return like(value, "9??0", random);  // neither's area and group
    case PiiClass::Card:
    case PiiClass::UkNhs:
    case PiiClass::NationalId:
    case PiiClass::BankRouting:
      return numeric ? like(value, "9999", random) : random_word(random);
    case PiiClass::Ipv4: {  // 240.0.0.0/4, reserved
      const auto digit = [&random] { return std::string(1, random.digit()); };
      return "25" + std::to_string(random.digit() % 5) + ".1" + digit() + digit() + ".1" + digit() +
             digit() + ".1" + digit() + digit();
    }
    case PiiClass::Ipv6: {  // 100::/64, the prefix of what is discarded (RFC 6666)
      const std::string hex = random_hex(16, random);
      return "100::1" + hex.substr(1, 3) + ":1" + hex.substr(5, 3) + ":1" + hex.substr(9, 3) +
             ":1" + hex.substr(13, 3);
    }
    case PiiClass::Mac: {
      const std::string hex = random_hex(10, random);
      const char mark = value.size() > 2 ? value[2] : ':';
      std::string out = "03";  // a group, locally administered: no card has it
      for (size_t i = 0; i < 10; i += 2) out += mark + hex.substr(i, 2);
      return out;
    }
    default:
      return random_word(random);
  }
}

const std::string* Vault::token(PiiClass kind, std::string_view value, Time now) {
  if (const auto known = by_value_.find(value); known != by_value_.end()) {
    entries_.find(*known->second)->second.expires = now + limits_.lifetime;
    return known->second;
  }
  if (entries_.size() >= limits_.entries || value.size() > limits_.bytes - bytes_) return nullptr;
  // A token that exists, or that says its value, is drawn again; the space of none is that small.
  for (int attempt = 0; attempt < 16; ++attempt) {
    std::string token = make_token(kind, value, random_);
    if (token == value || by_value_.contains(token)) continue;
    const auto [at, fresh] = entries_.try_emplace(
        std::move(token), Entry{kind, SecretBytes(value), now + limits_.lifetime});
    if (!fresh) continue;
    bytes_ += value.size();
    by_value_.emplace(at->second.value.view(), &at->first);
    return &at->first;
  }
  return nullptr;
}

Vault::State Vault::state(const Entry& entry, Time now) const noexcept {
  if (entry.spent) return State::Spent;
  return now >= entry.expires ? State::Expired : State::Live;
}

}
