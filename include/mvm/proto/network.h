#pragma once
// A sandbox's network as it is asked for: rules in the words of flags and mvm.toml. What the words
// mean is decided in one place, mvm/policy; here they are bounded text.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/ai.h"
#include "mvm/proto/pii.h"

namespace mvm::proto {

inline constexpr size_t kMaxNetworkRules = 1024;               // of each kind, and of one route
inline constexpr size_t kMaxNetworkText = 1024;                // one word
inline constexpr size_t kMaxNetworkConfig = size_t{40} << 10;  // bytes of the whole, encoded
inline constexpr size_t kMaxResolvers = 8;
inline constexpr size_t kMaxUpstreamAuthorities = 32;
inline constexpr uint64_t kMaxAskTimeoutMs = 86'400'000;
inline constexpr uint64_t kMinTimeoutMs = 100;
inline constexpr uint64_t kMaxTimeoutMs = 604'800'000;
inline constexpr uint16_t kDnsPort = 53;   // of every address: no proxy can be there
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

// For each, 0 is no limit but the one that is there anyway (descriptors, tables).
struct NetworkLimits {
  uint32_t flows = 4096;              // connections at a time
  uint32_t flows_per_second = 500;    // new ones; as many at once
  uint32_t queries_per_second = 500;  // DNS; as many at once
  uint32_t names_per_zone = 500;      // looked up below one "*." within an hour
  uint64_t send_bandwidth = 0;        // bytes a second from the guest, over all connections
  uint64_t receive_bandwidth = 0;     // to the guest
  uint64_t total = 0;                 // bytes, both ways; connections end when it is reached
  // Frames that begin a flow, a query or anything else, and pass the guest's card: several times
  // what these limits let through, as refusals are answered too. 0 where one of them is none.
  uint32_t beginnings_per_second() const noexcept;
  bool operator==(const NetworkLimits&) const = default;
};

// Milliseconds.
struct NetworkTimeouts {
  uint64_t first_bytes = 10'000;   // of a client, where clients speak first
  uint64_t connect = 10'000;       // until a server takes the connection
  uint64_t handshake = 15'000;     // of TLS with a client, and with a server, where it ends here
  uint64_t idle = 7'200'000;       // nothing carried, either way
  uint64_t http_idle = 7'200'000;  // the same of a connection that is looked into
  uint64_t half_closed = 300'000;  // nothing carried, and one side has ended
  bool operator==(const NetworkTimeouts&) const = default;
};

bool are_timeouts(const NetworkTimeouts& timeouts);  // each within its bounds

struct NetworkConfig {
  bool enabled = true;                   // false: no network card
  bool audit = false;                    // let through what rules would refuse, and record it
  bool inspect_all = false;              // every admitted connection, but for pii.bypass
  std::vector<std::string> allow_hosts;  // "*.example.com:8443"
  // What the preset of that name stands for, as allow_hosts, and behind them.
  std::string preset;
  std::vector<std::string> preset_hosts;
  std::vector<std::string> allow_cidr;       // "10.1.0.0/16:5432"
  std::vector<std::string> allow_endpoints;  // "GET https://example.com/v1/**"; before `routes`
  std::vector<NetworkRoute> routes;
  std::vector<std::string> resolvers;    // "9.9.9.9", "[2620:fe::fe]:53"; empty: the host's
  std::vector<std::string> upstream_ca;  // "*.corp.example=/etc/ssl/corp.pem"
  NetworkLimits limits;
  NetworkTimeouts timeouts;
  uint64_t ask_timeout_ms = 60'000;  // how long outcome "ask" waits for an answer
  AiConfig ai;                       // use of AI at the hosts that the rules admit
  // Of the guest's gateway, where programs that are told of an HTTP proxy find one; 0: nowhere.
  uint16_t proxy_port = 3128;
  uint32_t mtu = kMaxMtu;  // no wire is on the way, so frames are as long as the kernel's can be
  PiiConfig pii;
  bool operator==(const NetworkConfig&) const = default;

  // Whether it asks for more than a card on which nothing is admitted.
  bool has_rules() const {
    return audit || !allow_hosts.empty() || !preset_hosts.empty() || !allow_cidr.empty() ||
           !allow_endpoints.empty() || !routes.empty();
  }

  Bytes encode() const;
  static std::optional<NetworkConfig> decode(ByteView data);
};

}
