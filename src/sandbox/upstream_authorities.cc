#include "upstream_authorities.h"

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/authorities.h"
#include "mvm/sys/file.h"

namespace mvm::sandbox {

std::vector<egress::HostTrust> upstream_authorities(
    const std::vector<std::string>& rules, const std::shared_ptr<const crypto::TrustStore>& base) {
  std::vector<egress::HostTrust> out;
  for (const std::string& text : rules) {
    if (const auto complaint = policy::placed_authority_complaint(text))
      throw Error(Kind::Invalid, "upstream_ca " + *complaint);
    std::optional<policy::AuthorityRule> rule = policy::parse_authority(text);
    try {
      const std::string pem = sys::read_regular_text_file(rule->file, crypto::kMaxTrustFile);
      out.push_back(
          {std::move(rule->host), crypto::TrustStore::with(base, pem, "file " + rule->file)});
    } catch (const Error& error) {
      throw Error(error.kind(), "upstream_ca \"" + printable(text, 200) + "\": " + error.message());
    }
  }
  return out;
}

}
