#include "mvm/crypto/trust.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "mvm/sys/file.h"

#include "trust_impl.h"

namespace mvm::crypto {

// Debian, Fedora, openSUSE, Alpine, NixOS.
static constexpr std::array kBundles{
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs/ca-bundle.crt",
};

static std::unique_ptr<TrustStore::Impl> empty_store() {
  static std::atomic<uint64_t> next{1};
  auto made = std::make_unique<TrustStore::Impl>();
  made->store.reset(need_object(X509_STORE_new(), "making a list of authorities"));
  // What the operator names is trusted, a root or not: companies hand out intermediates.
  need(X509_STORE_set_flags(made->store.get(), X509_V_FLAG_PARTIAL_CHAIN) == 1,
       "making a list of authorities");
  made->id = next++;
  return made;
}

static void add(TrustStore::Impl& to, X509* certificate) {
  // Adding one that is there already is fine, and is no error.
  need(X509_STORE_add_cert(to.store.get(), certificate) == 1, "adding an authority");
  ++to.certificates;
}

static void add_pem(TrustStore::Impl& to, std::string_view pem, std::string_view what) {
  if (pem.size() > kMaxTrustFile)
    throw Error(Kind::Invalid,
                "reading certificates of " + std::string(what) + ": larger than 8 MiB");
  const BioPtr bio(need_object(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                               "reading certificates"));
  size_t count = 0;
  while (true) {
    const CertificatePtr one(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
    if (!one) break;
    add(to, one.get());
    ++count;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end)
    throw Error(Kind::Invalid, "reading certificates of " + std::string(what) + ": number " +
                                   std::to_string(count + 1) + " is malformed");
  if (count == 0)
    throw Error(Kind::Invalid, "reading certificates of " + std::string(what) +
                                   ": there is none (they are expected as PEM)");
}

TrustStore::TrustStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrustStore::~TrustStore() = default;
size_t TrustStore::size() const noexcept { return impl_->certificates; }

std::shared_ptr<const TrustStore> TrustStore::from_pem(std::string_view pem,
                                                       std::string_view what) {
  auto made = empty_store();
  add_pem(*made, pem, what);
  return std::shared_ptr<const TrustStore>(new TrustStore(std::move(made)));
}

std::shared_ptr<const TrustStore> TrustStore::with(const std::shared_ptr<const TrustStore>& base,
                                                   std::string_view pem, std::string_view what) {
  auto made = empty_store();
  const STACK_OF(X509_OBJECT)* objects = X509_STORE_get0_objects(base->impl().store.get());
  for (int at = 0; at < sk_X509_OBJECT_num(objects); ++at) {
    X509* const one = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, at));
    if (one != nullptr) add(*made, one);
  }
  add_pem(*made, pem, what);
  return std::shared_ptr<const TrustStore>(new TrustStore(std::move(made)));
}

std::shared_ptr<const TrustStore> TrustStore::system() {
  // OpenSSL's own variable, which hosts set whose bundle is elsewhere.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before there are threads
  const char* named = std::getenv("SSL_CERT_FILE");
  if (named != nullptr && *named != '\0')
    return from_pem(sys::read_text_file(named, kMaxTrustFile), "file " + std::string(named));
  std::string places;
  for (const char* path : kBundles) {
    if (sys::exists(path))
      return from_pem(sys::read_text_file(path, kMaxTrustFile), "file " + std::string(path));
    places += places.empty() ? path : std::string(", ") + path;
  }
  throw Error(Kind::Unavailable, "finding the certificate authorities this host trusts: none of " +
                                     places +
                                     " exists (install ca-certificates, or set SSL_CERT_FILE)");
}

}
