#pragma once
// What an address is for, by the registries of special-purpose addresses (RFC 6890 and its updates)
// and by where clouds serve credentials. A name that a rule admits may still resolve to one of
// these, by mistake or on purpose; then the address decides.

#include <optional>

#include "mvm/base/ip.h"
#include "mvm/policy/reason.h"

namespace mvm::policy {

// Why the address is not one of the public Internet, or nothing when it is. An IPv6 address that
// carries an IPv4 one (mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP) is judged by
// the inner one: EmbeddedRestricted when that is restricted.
std::optional<Reason> restriction(const IpAddress& address) noexcept;

// The IPv4 address that a host or a relay on the way would reach through this IPv6 one.
std::optional<IpAddress> embedded_v4(const IpAddress& address) noexcept;

// Whether a rule may open it by naming its range. Metadata, link-local and special-purpose
// addresses stay shut whatever the rules say.
bool can_be_opened(Reason restriction) noexcept;

}
