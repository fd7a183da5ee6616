#pragma once
// The namespace's nf_tables rules, and the names of their sets.

#include <cstdint>

#include "mvm/net/guest_network.h"

namespace mvm::net {

inline constexpr uint16_t kTcpPort = 1;  // of the listeners; the guest cannot address them as such
inline constexpr uint16_t kDnsPort = 53;

inline constexpr const char* kPins4 = "pins4";
inline constexpr const char* kPins6 = "pins6";
inline constexpr const char* kRanges4 = "ranges4";
inline constexpr const char* kRanges6 = "ranges6";

void install_rules(const GuestAddresses& addresses);

}
