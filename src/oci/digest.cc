#include "mvm/oci/digest.h"

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::oci {

static constexpr std::string_view kPrefix = "sha256:";
static constexpr size_t kDigits = 64;

Digest Digest::parse(std::string_view text) {
  const std::string_view digits =
      text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : std::string_view();
  if (digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == digits.npos)
    return Digest(std::string(digits));
  if (text.starts_with("sha512:") || text.starts_with("sha384:"))
    throw Error(Kind::Unsupported, "the digest \"" + printable(text, 30) +
                                       "\" is of an algorithm that is not supported; it must be "
                                       "sha256");
  throw Error(Kind::Invalid,
              "\"" + printable(text, 80) + "\" is no digest (sha256: and 64 hexadecimal digits)");
}

Digest Digest::of(ByteView content) { return Digest(crypto::sha256(content)); }

}
