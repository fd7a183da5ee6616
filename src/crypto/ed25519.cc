#include "mvm/crypto/ed25519.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "mvm/base/error.h"
#include "mvm/crypto/random.h"

namespace mvm::crypto {

namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using Memory = std::unique_ptr<BIO, Freed<BIO_free_all>>;

// unsigned char may alias anything.
template <typename Range>
auto raw(Range& bytes) {
  if constexpr (std::is_const_v<std::remove_pointer_t<decltype(bytes.data())>>)
    return reinterpret_cast<const unsigned char*>(bytes.data());
  else
    return reinterpret_cast<unsigned char*>(bytes.data());
}

// These calls fail without memory or without the algorithm; neither is anyone's input.
void need(bool worked, const char* doing) {
  if (!worked) throw Error(Kind::Internal, std::string(doing) + ": the library refused");
}

Key public_half(const PublicKey& key) {
  Key out(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(key), key.size()));
  need(out != nullptr, "reading an Ed25519 key");
  return out;
}

}

struct SigningKey::Impl {
  Key key;
};

SigningKey SigningKey::generate() {
  Seed seed{};
  random_bytes(seed);
  SigningKey key(seed);
  wipe(seed);
  return key;
}

SigningKey::SigningKey(std::span<const std::byte, kSeed> seed)
    : impl_(std::make_unique<Impl>(
          Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(seed), seed.size())))) {
  need(impl_->key != nullptr, "making an Ed25519 key");
  size_t length = public_.size();
  need(EVP_PKEY_get_raw_public_key(impl_->key.get(), raw(public_), &length) == 1 &&
           length == public_.size(),
       "reading an Ed25519 key");
}

SigningKey::~SigningKey() = default;  // OpenSSL wipes private keys itself
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;

Signature SigningKey::sign(ByteView message) const {
  const Context context(EVP_MD_CTX_new());
  Signature out{};
  size_t length = out.size();
  need(context != nullptr &&
           EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, impl_->key.get()) == 1 &&
           EVP_DigestSign(context.get(), raw(out), &length, raw(message), message.size()) == 1 &&
           length == out.size(),
       "signing");
  return out;
}

SigningKey::Seed SigningKey::seed() const {
  Seed out{};
  size_t length = out.size();
  need(EVP_PKEY_get_raw_private_key(impl_->key.get(), raw(out), &length) == 1 &&
           length == out.size(),
       "reading an Ed25519 key");
  return out;
}

bool verify(const PublicKey& key, ByteView message, const Signature& signature) {
  const Key half = public_half(key);
  const Context context(EVP_MD_CTX_new());
  need(context != nullptr &&
           EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, half.get()) == 1,
       "checking a signature");
  return EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(message),
                          message.size()) == 1;
}

std::string public_key_pem(const PublicKey& key) {
  const Memory memory(BIO_new(BIO_s_mem()));
  need(memory != nullptr && PEM_write_bio_PUBKEY(memory.get(), public_half(key).get()) == 1,
       "writing a public key");
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(length)};
}

std::optional<PublicKey> public_key_from_pem(std::string_view pem) {
  const Memory memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  need(memory != nullptr, "reading a public key");
  const Key key(PEM_read_bio_PUBKEY(memory.get(), nullptr, nullptr, nullptr));
  PublicKey out{};
  size_t length = out.size();
  if (!key || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key.get(), raw(out), &length) != 1 || length != out.size())
    return std::nullopt;
  return out;
}

void wipe(std::span<std::byte> secret) noexcept { OPENSSL_cleanse(secret.data(), secret.size()); }

}
