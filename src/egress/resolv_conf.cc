#include "mvm/egress/resolv_conf.h"

#include "mvm/base/text.h"

namespace mvm::egress {

std::vector<Endpoint> parse_resolv_conf(std::string_view text) {
  constexpr uint16_t kDnsPort = 53;
  constexpr std::string_view kKeyword = "nameserver";
  constexpr std::string_view kBlank = " \t\r";
  std::vector<Endpoint> resolvers;
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(kKeyword)) continue;
    line.remove_prefix(kKeyword.size());
    const size_t begin = line.find_first_not_of(kBlank);
    if (begin == 0 || begin == line.npos) continue;
    line.remove_prefix(begin);
    const auto address = IpAddress::parse(line.substr(0, line.find_first_of(kBlank)));
    if (address && resolvers.size() < kMaxResolvers) resolvers.push_back({*address, kDnsPort});
  }
  return resolvers;
}

}
