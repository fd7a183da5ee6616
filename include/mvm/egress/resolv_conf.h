#pragma once
// The host's resolvers (resolv.conf(5)): only its `nameserver` lines matter to a proxy, which asks
// for whole names.

#include <string_view>
#include <vector>

#include "mvm/egress/proxy.h"

namespace mvm::egress {

inline constexpr size_t kMaxResolvers = 3;  // as the C library has it

// Lines that name no address, and those with a zone, are passed over.
std::vector<Endpoint> parse_resolv_conf(std::string_view text);

}
