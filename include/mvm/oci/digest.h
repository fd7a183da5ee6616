#pragma once
// Names of content: "sha256:" and 64 hexadecimal digits (OCI image-spec, descriptor.md, Digests).
// Other algorithms are refused: nothing that mvm takes is unverified.

#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/crypto/hash.h"

namespace mvm::oci {

class Digest {
 public:
  // Throws Error{Invalid} for what is no digest, Error{Unsupported} for another algorithm.
  static Digest parse(std::string_view text);
  static Digest of(ByteView content);
  explicit Digest(const crypto::Digest& digest) : hex_(crypto::digest_hex(digest)) {}

  const std::string& hex() const { return hex_; }
  std::string text() const { return "sha256:" + hex_; }
  auto operator<=>(const Digest&) const = default;

 private:
  explicit Digest(std::string hex) : hex_(std::move(hex)) {}
  std::string hex_;
};

}
