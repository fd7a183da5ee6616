#pragma once
// Ed25519 signatures (RFC 8032).

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::crypto {

using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

// A private key. Neither printable nor copied by accident; wiped when dropped.
class SigningKey {
 public:
  static constexpr size_t kSeed = 32;
  using Seed = std::array<std::byte, kSeed>;

  static SigningKey generate();
  explicit SigningKey(std::span<const std::byte, kSeed> seed);
  ~SigningKey();
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;

  Signature sign(ByteView message) const;
  const PublicKey& public_key() const { return public_; }
  // For whoever hands the key on or keeps it; wipe() what is no longer needed.
  Seed seed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  PublicKey public_{};
};

bool verify(const PublicKey& key, ByteView message, const Signature& signature);

// SubjectPublicKeyInfo in PEM (RFC 8410), as `openssl pkey -pubin` reads it.
std::string public_key_pem(const PublicKey& key);
// Nothing when it is not such a key.
std::optional<PublicKey> public_key_from_pem(std::string_view pem);

// Overwrites what the compiler thinks nobody reads any more.
void wipe(std::span<std::byte> secret) noexcept;

}
