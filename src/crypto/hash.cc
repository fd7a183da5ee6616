#include "mvm/crypto/hash.h"

#include <vector>

#include <fcntl.h>

#include <openssl/evp.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/io.h"

namespace mvm::crypto {

struct Sha256::Impl {
  Impl() : context(EVP_MD_CTX_new()) { need(context != nullptr); }
  ~Impl() { EVP_MD_CTX_free(context); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  // These calls fail only without memory or without the algorithm; neither is anyone's input.
  static void need(bool worked) {
    if (!worked) throw Error(Kind::Internal, "computing SHA-256: the library refused");
  }
  EVP_MD_CTX* context;
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  // EVP_sha256() is looked up anew by each use, under a lock: a microsecond in a busy process.
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  Impl::need(EVP_DigestInit_ex(impl_->context, algorithm, nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteView data) {
  Impl::need(EVP_DigestUpdate(impl_->context, data.data(), data.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest{};
  unsigned length = 0;
  // unsigned char may alias anything, and a SHA-256 digest is exactly as long as Digest.
  Impl::need(EVP_DigestFinal_ex(impl_->context, reinterpret_cast<unsigned char*>(digest.data()),
                                &length) == 1);
  MVM_ASSERT(length == digest.size());
  return digest;
}

void Sha256::restart() { Impl::need(EVP_DigestInit_ex(impl_->context, nullptr, nullptr) == 1); }

Digest Sha256::digest() const {
  Sha256 copy;
  Impl::need(EVP_MD_CTX_copy_ex(copy.impl_->context, impl_->context) == 1);
  return copy.finish();
}

Digest sha256(ByteView data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

Digest sha256_of_file(int fd, const std::function<void(uint64_t)>& progress) {
  // 256 KiB stays in the second-level cache between the copy out of the page cache and the hash.
  constexpr size_t kChunk = size_t{256} << 10;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  Sha256 hash;
  Bytes buffer(kChunk);
  uint64_t done = 0;
  while (const size_t got = sys::pread_some(fd, buffer, done)) {
    hash.update(std::span(buffer).first(got));
    done += got;
    if (progress) progress(done);
  }
  return hash.finish();
}

std::string digest_hex(const Digest& digest) { return hex(digest); }

}
