#include "mvm/protect/vault.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <string.h>  // explicit_bzero

#include "mvm/crypto/random.h"

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kRandomLetters = kMarkedToken - kTokenMark.size();  // of 5 bits

// Random digits without bias. Drawn many at a time: each draw is a system call.
class Digits {
 public:
  ~Digits() { explicit_bzero(bytes_.data(), bytes_.size()); }
  char next() {
    while (true) {
      if (at_ == bytes_.size()) {
        crypto::random_bytes(bytes_);
        at_ = 0;
      }
      const auto byte = std::to_integer<unsigned>(bytes_.at(at_++));
      if (byte < 250) return static_cast<char>('0' + byte % 10);
    }
  }

 private:
  std::array<std::byte, 32> bytes_{};
  size_t at_ = 32;
};

std::string random_hex(size_t length) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(length, '0');
  std::vector<std::byte> bytes(length);
  crypto::random_bytes(bytes);
  for (size_t i = 0; i < length; ++i) out[i] = kDigits[std::to_integer<size_t>(bytes[i]) & 15];
  return out;
}

size_t digits_in(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return is(c, kDigit); }));
}

// The value's layout with other digits, the first of them `fixed`.
std::string like(std::string_view value, std::string_view fixed) {
  std::string out(value);
  size_t digit = 0;
  Digits random;
  for (char& c : out) {
    if (!is(c, kDigit)) continue;
    c = digit < fixed.size() && fixed[digit] != '?' ? fixed[digit] : random.next();
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

std::string make_token(PiiClass kind, std::string_view value) {
  std::string text = crypto::random_id(kTokenMark, kRandomLetters);
  const bool numeric = digits_in(value) >= 9 &&
                       std::ranges::none_of(value, [](char c) { return is(c, kAlpha | kHigh); });
  switch (kind) {
    case PiiClass::Email:
      return text + std::string(kTokenDomain);
    case PiiClass::Phone:
      if (!numeric) return text;
      return like(value, value.starts_with('+') ? "999" : "999999");  // +999 is no country
    case PiiClass::UsSsn:
    case PiiClass::UsItin:
      return like(value, "9??0");  // neither's area and group
    case PiiClass::Card:
    case PiiClass::UkNhs:
    case PiiClass::NationalId:
    case PiiClass::BankRouting:
      return numeric ? like(value, "9999") : text;
    case PiiClass::Ipv4: {  // 240.0.0.0/4, reserved
      Digits random;
      const auto digit = [&random] { return std::string(1, random.next()); };
      return "25" + std::to_string(random.next() % 5) + ".1" + digit() + digit() + ".1" + digit() +
             digit() + ".1" + digit() + digit();
    }
    case PiiClass::Ipv6: {  // 100::/64, the prefix of what is discarded (RFC 6666)
      const std::string hex = random_hex(16);
      return "100::1" + hex.substr(1, 3) + ":1" + hex.substr(5, 3) + ":1" + hex.substr(9, 3) +
             ":1" + hex.substr(13, 3);
    }
    case PiiClass::Mac: {
      const std::string hex = random_hex(10);
      const char mark = value.size() > 2 ? value[2] : ':';
      std::string out = "03";  // a group, locally administered: no card has it
      for (size_t i = 0; i < 10; i += 2) out += mark + hex.substr(i, 2);
      return out;
    }
    default:
      return text;
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
    std::string token = make_token(kind, value);
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
