#pragma once
// The head of a request on its way out: placeholders become values where they may, and what should
// not be there is found.

#include <cstdint>
#include <string>
#include <vector>

#include "mvm/http/message.h"
#include "mvm/secret/secrets.h"

namespace mvm::secret {

// Which secrets an exchange may use.
struct Reach {
  std::vector<bool> bound;  // by Secrets::all(): its host is one of the secret's
  bool tls = false;

  // Nothing where the host is an address.
  static Reach of(const Secrets& secrets, const std::string& host, uint16_t port, bool tls);
  bool any() const noexcept;  // some secret's host
  bool may_use(const Secrets& secrets, size_t secret, policy::SecretPlace place) const noexcept;
};

enum class Fault : uint8_t {
  None,
  Misuse,     // a placeholder where it may not stand, or changed
  Plaintext,  // the place is right, and the connection is not encrypted
  Leak,       // a value
};

struct HeadResult {
  Fault fault = Fault::None;
  size_t secret = 0;         // whose fault it is
  std::string where;         // "the field Authorization"; nothing that a guest could write
  std::vector<size_t> used;  // put in, one entry a time
};

// On a fault `head` is as good as lost: it may have some values in it.
HeadResult put_into_head(const Secrets& secrets, const Reach& reach, http::RequestHead& head);

// Credentials do not belong into trailers (RFC 9110 §6.5.1), which servers may add to the head or
// not: a placeholder there is misused, whatever its rule says.
HeadResult look_into_trailers(const Secrets& secrets, const http::Headers& trailers);

// Values become placeholders again; adds one entry a time to `masked`.
void mask_head(const Secrets& secrets, http::ResponseHead& head, std::vector<size_t>& masked);

}
