#pragma once
// `[network] upstream_ca`: the authorities that single upstream hosts are believed by.

#include <memory>
#include <string>
#include <vector>

#include "mvm/crypto/trust.h"
#include "mvm/egress/proxy.h"

namespace mvm::sandbox {

// Each with the authorities of `base` besides its own. Reads files, so it is for before the process
// jails itself. Throws Error naming the entry and its file where that holds no certificates, and
// never waits for one (a FIFO).
std::vector<egress::HostTrust> upstream_authorities(
    const std::vector<std::string>& rules, const std::shared_ptr<const crypto::TrustStore>& base);

}
