#pragma once
// Values of one flow and the tokens that stand for them outside. A token is random and tells
// nothing about its value; the same value has one token in a flow and unrelated ones in two. One
// vault is one flow (sandbox, run, destination, exchange); its owner drops it with the flow, which
// wipes the values.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "mvm/protect/finding.h"

namespace mvm::protect {

// Bytes that are wiped before they are given back. Not printable, not copied.
class SecretBytes {
 public:
  explicit SecretBytes(std::string_view bytes);
  ~SecretBytes();
  SecretBytes(SecretBytes&& other) noexcept;
  SecretBytes& operator=(SecretBytes&&) = delete;

  std::string_view view() const noexcept { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

// Random bytes of the kernel's, drawn many at a time: each draw is a system call. Nothing stays of
// what was given.
class Randomness {
 public:
  Randomness() = default;
  ~Randomness();
  Randomness(const Randomness&) = delete;
  Randomness& operator=(const Randomness&) = delete;

  uint8_t byte();
  char digit();                            // without bias
  char letter(std::string_view alphabet);  // of one whose size is a power of two

 private:
  std::array<std::byte, 128> bytes_{};
  size_t left_ = 0;
};

class Vault {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Limits {
    size_t entries = 4096;
    size_t bytes = size_t{1} << 20;  // of values
    std::chrono::milliseconds lifetime = std::chrono::minutes(10);
    bool once = false;  // a token is restored a single time
  };
  struct Entry {
    PiiClass kind;
    SecretBytes value;
    Time expires;
    bool spent = false;
  };
  enum class State : uint8_t { Live, Expired, Spent };

  explicit Vault(Limits limits) noexcept : limits_(limits) {}

  // The token of `value`, made if it has none; stays valid as long as the vault. Asking again for a
  // value renews its lifetime. Null when a limit is reached: the caller redacts or denies.
  const std::string* token(PiiClass kind, std::string_view value, Time now);

  // For restoring (restore.h).
  State state(const Entry& entry, Time now) const noexcept;
  void restored(Entry& entry) const noexcept { entry.spent = limits_.once; }
  std::map<std::string, Entry, std::less<>>& entries() noexcept { return entries_; }
  // Changes with every new token.
  size_t generation() const noexcept { return entries_.size(); }

 private:
  Limits limits_;
  Randomness random_;
  size_t bytes_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;        // by token
  std::map<std::string_view, const std::string*> by_value_;  // views of the entries' values
};

// What tokens made of text start with; nothing else should.
inline constexpr std::string_view kTokenMark = "mvmpii";
// How many letters such a token has, less its domain.
inline constexpr size_t kMarkedToken = 32;
// Where tokens that stand for mail addresses live (RFC 2606: nobody's).
inline constexpr std::string_view kTokenDomain = "@pii.invalid";

// A new token for a value of the class; what Vault::token() draws from. Text: the mark and 130
// random bits. Digits keep their count and their separators, with a beginning that no real number
// has; IP and Ethernet addresses come from ranges that are nobody's.
std::string make_token(PiiClass kind, std::string_view value, Randomness& random);

}
