#include "mvm/crypto/seal.h"

#include <memory>

#include <openssl/evp.h>

#include "mvm/base/error.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/random.h"

namespace mvm::crypto {
namespace {

constexpr size_t kNonce = 12;
constexpr size_t kTag = 16;
constexpr size_t kMost = size_t{1} << 30;  // the library counts in int

struct Freed {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, Freed>;

// unsigned char may alias anything.
const unsigned char* raw(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
int length(ByteView bytes) {
  MVM_ASSERT(bytes.size() < kMost);
  return static_cast<int>(bytes.size());
}

// Fails without memory or without the algorithm; neither is anyone's input.
void need(bool worked) {
  if (!worked) throw Error(Kind::Internal, "sealing: the library refused");
}

}

Bytes seal(std::span<const std::byte, kSealKey> key, std::string_view purpose, ByteView plain) {
  Bytes out(kNonce + plain.size() + kTag);
  const std::span all(out);
  random_bytes(all.first(kNonce));
  const Context context(EVP_CIPHER_CTX_new());
  int written = 0;
  need(context && EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(key),
                                     raw(ByteView(all.first(kNonce)))) == 1);
  need(EVP_EncryptUpdate(context.get(), nullptr, &written, raw(as_bytes(purpose)),
                         length(as_bytes(purpose))) == 1);
  need(EVP_EncryptUpdate(context.get(), raw(all.subspan(kNonce)), &written, raw(plain),
                         length(plain)) == 1);
  need(EVP_EncryptFinal_ex(context.get(), raw(all.last(kTag)), &written) == 1);
  need(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTag, raw(all.last(kTag))) == 1);
  return out;
}

std::optional<Bytes> unseal(std::span<const std::byte, kSealKey> key, std::string_view purpose,
                            ByteView sealed) {
  if (sealed.size() < kSealOverhead) return std::nullopt;
  const ByteView cipher = sealed.subspan(kNonce, sealed.size() - kSealOverhead);
  Bytes tag(sealed.end() - kTag, sealed.end());
  Bytes out(cipher.size());
  const Context context(EVP_CIPHER_CTX_new());
  int written = 0;
  need(context && EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(key),
                                     raw(sealed.first(kNonce))) == 1);
  need(EVP_DecryptUpdate(context.get(), nullptr, &written, raw(as_bytes(purpose)),
                         length(as_bytes(purpose))) == 1);
  need(EVP_DecryptUpdate(context.get(), raw(std::span(out)), &written, raw(cipher),
                         length(cipher)) == 1);
  need(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTag, tag.data()) == 1);
  if (EVP_DecryptFinal_ex(context.get(), raw(std::span(tag)), &written) == 1) return out;
  wipe(out);
  return std::nullopt;
}

}
