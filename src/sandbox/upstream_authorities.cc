#include "upstream_authorities.h"

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/authorities.h"
#include "mvm/sys/file.h"

namespace mvm::sandbox {

static std::string pem_of(const std::string& path) {
  const sys::Fd fd = sys::open_file(path, O_RDONLY | O_NONBLOCK);
  if (!sys::is_regular_file(fd.get())) throw Error(Kind::Invalid, path + " is not a regular file");
  return sys::read_text_file(path, crypto::kMaxTrustFile);
}

std::vector<egress::HostTrust> upstream_authorities(
    const std::vector<std::string>& rules, const std::shared_ptr<const crypto::TrustStore>& base) {
  std::vector<egress::HostTrust> out;
  for (const std::string& text : rules) {
    std::optional<policy::AuthorityRule> rule = policy::parse_authority(text);
    if (!rule) throw Error(Kind::Invalid, policy::authority_complaint(text).value_or(""));
    try {
      out.push_back({std::move(rule->host),
                     crypto::TrustStore::with(base, pem_of(rule->file), "file " + rule->file)});
    } catch (const Error& error) {
      throw Error(error.kind(), "upstream_ca \"" + printable(text, 200) + "\": " + error.message());
    }
  }
  return out;
}

}
