#include "upstream_ca.h"

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/trust.h"
#include "mvm/policy/authorities.h"
#include "mvm/sys/file.h"

namespace mvm::cli {

void place_authorities(const Context& context, const std::string& folder,
                       std::vector<std::string>& rules) {
  for (std::string& text : rules) {
    const auto rule = policy::parse_authority(text);  // the schema has checked it
    if (!rule || rule->file.starts_with('/')) continue;
    std::string placed = folder + "/" + rule->file;
    if (rule->file.starts_with("~/")) {
      const auto home = context.variable("HOME");
      if (!home)
        throw Error(Kind::NotFound,
                    "upstream_ca \"" + printable(text, 200) + "\": HOME is not set");
      placed = *home + rule->file.substr(1);
    }
    text.replace(text.size() - rule->file.size(), rule->file.size(), placed);
  }
}

void check_authorities(const std::vector<std::string>& rules) {
  for (const std::string& text : rules)
    while_doing("upstream_ca \"" + printable(text, 200) + "\"", [&] {
      if (const auto rule = policy::parse_authority(text))
        crypto::TrustStore::from_pem(sys::read_regular_text_file(rule->file, crypto::kMaxTrustFile),
                                     "file " + rule->file);
    });
}

}
