#pragma once
// What the detectors find: a class, a place, never a copy of the value. docs/pii.md has a section
// for each class.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mvm::protect {

enum class PiiClass : uint8_t {
  Email,
  Phone,
  Card,
  Iban,
  UsSsn,
  UsItin,
  UkNino,
  UkNhs,
  NationalId,
  BankRouting,
  Vin,
  CryptoAddress,
  Ipv4,
  Ipv6,
  Mac,
  Coordinates,
  BirthDate,
  Passport,
  DrivingLicence,
  Jwt,
  PrivateKey,
  ApiKey,
  HighEntropy,
  Custom,  // a pattern of the user's own (pattern.h)
};
inline constexpr size_t kPiiClasses = 24;

// "email", "us_ssn": the spelling of configuration, JSON and audit.
std::string_view class_name(PiiClass kind) noexcept;
std::optional<PiiClass> class_from_name(std::string_view name) noexcept;
// Whether a check digit, checksum or full grammar backs a finding of the class.
bool has_check_rule(PiiClass kind) noexcept;

// A set of classes as bits.
class ClassSet {
 public:
  constexpr ClassSet() noexcept = default;
  static constexpr ClassSet all() noexcept {
    ClassSet set;
    set.bits_ = (uint32_t{1} << kPiiClasses) - 1;
    return set;
  }
  constexpr void insert(PiiClass kind) noexcept { bits_ |= bit(kind); }
  constexpr void erase(PiiClass kind) noexcept { bits_ &= ~bit(kind); }
  constexpr bool has(PiiClass kind) const noexcept { return (bits_ & bit(kind)) != 0; }
  constexpr bool empty() const noexcept { return bits_ == 0; }

 private:
  static constexpr uint32_t bit(PiiClass kind) noexcept {
    return uint32_t{1} << static_cast<unsigned>(kind);
  }
  uint32_t bits_ = 0;
};

struct Finding {
  PiiClass kind = PiiClass::Email;
  uint64_t offset = 0;  // of the first byte, in the whole stream
  size_t length = 0;
  // A country ("br") or a provider ("github"), or "", in static storage; of a pattern its name.
  std::string_view detail;
};

}
