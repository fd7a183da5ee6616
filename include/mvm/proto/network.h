#pragma once
// A sandbox's network as it is asked for: rules in the words of flags and mvm.toml. What the words
// mean is decided in one place, mvm/policy; here they are bounded text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/ai.h"

namespace mvm::proto {

inline constexpr size_t kMaxNetworkRules = 1024;               // of each kind, and of one route
inline constexpr size_t kMaxNetworkText = 1024;                // one word
inline constexpr size_t kMaxNetworkConfig = size_t{40} << 10;  // bytes of the whole, encoded
inline constexpr size_t kMaxResolvers = 8;
inline constexpr uint32_t kMinMtu = 1280;  // RFC 8200 §5
inline constexpr uint32_t kMaxMtu = 65520;

struct NetworkRouteRule {
  std::string id;
  std::string method = "*";
  std::string path = "/**";
  std::string outcome = "allow";  // "allow", "deny", "ask"
  bool operator==(const NetworkRouteRule&) const = default;
};

struct NetworkRoute {
  std::string id;
  std::string host;
  std::vector<uint16_t> ports;  // empty: 80 and 443
  std::vector<NetworkRouteRule> rules;
  std::string otherwise = "deny";  // an outcome, or "" to leave it to the rules behind
  bool operator==(const NetworkRoute&) const = default;
};

struct NetworkConfig {
  bool enabled = true;                       // false: no network card
  bool audit = false;                        // let through what rules would refuse, and record it
  std::vector<std::string> allow_hosts;      // "*.example.com:8443"
  std::vector<std::string> allow_cidr;       // "10.1.0.0/16:5432"
  std::vector<std::string> allow_endpoints;  // "GET https://example.com/v1/**"; before `routes`
  std::vector<NetworkRoute> routes;
  std::vector<std::string> resolvers;  // "9.9.9.9", "[2620:fe::fe]:53"; empty: the host's
  AiConfig ai;                         // use of AI at the hosts that the rules admit
  uint32_t mtu = kMaxMtu;  // no wire is on the way, so frames are as long as the kernel's can be
  bool operator==(const NetworkConfig&) const = default;

  // Whether it asks for more than a card on which nothing is admitted.
  bool has_rules() const {
    return audit || !allow_hosts.empty() || !allow_cidr.empty() || !allow_endpoints.empty() ||
           !routes.empty();
  }

  Bytes encode() const;
  static std::optional<NetworkConfig> decode(ByteView data);
};

}
