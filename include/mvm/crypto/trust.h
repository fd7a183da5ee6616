#pragma once
// Whom upstream servers are believed: certificate authorities, loaded once and shared by every
// connection. Immutable, so threads may share one.

#include <memory>
#include <string>
#include <string_view>

namespace mvm::crypto {

inline constexpr size_t kMaxTrustFile = 8 * 1024 * 1024;

class TrustStore {
 public:
  // From PEM text; anything between the certificates is skipped, as in the files that
  // distributions ship. Throws Error{Invalid} when a certificate in it cannot be read or there is
  // none; `what` names the text in that message ("file /etc/ssl/…").
  static std::shared_ptr<const TrustStore> from_pem(std::string_view pem, std::string_view what);
  // The host's own: the file that SSL_CERT_FILE names, else the first of the places where
  // distributions keep their bundle. Reads files, so it is for before a process jails itself.
  // Throws Error{Unavailable} naming the places when there is none.
  static std::shared_ptr<const TrustStore> system();
  // `base` and the certificates in `pem`, without reading those of `base` again.
  static std::shared_ptr<const TrustStore> with(const std::shared_ptr<const TrustStore>& base,
                                                std::string_view pem, std::string_view what);
  ~TrustStore();
  TrustStore(const TrustStore&) = delete;
  TrustStore& operator=(const TrustStore&) = delete;

  size_t size() const noexcept;  // certificates

  struct Impl;  // for TlsEngine
  const Impl& impl() const noexcept { return *impl_; }

 private:
  explicit TrustStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}
