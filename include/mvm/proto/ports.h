#pragma once
// Host TCP ports that lead to ports of a sandbox's own loopback, and the requests about them that
// the sandbox process answers. It is handed listening sockets: it opens none itself.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"

namespace mvm::proto {

inline constexpr size_t kMaxPublishedPorts = 16;  // of a sandbox

struct PublishedPort {
  IpAddress address{IpAddress::V4{127, 0, 0, 1}};  // of the host
  uint16_t host = 0;                               // 0: one that is free
  uint16_t guest = 0;                              // never 0
  bool operator==(const PublishedPort&) const = default;

  // Whether only programs of this host get there.
  bool is_loopback() const noexcept;
  std::string place() const;  // "127.0.0.1:8080", "[::1]:8080"
  std::string text() const;   // "127.0.0.1:8080:80"
};

// "8080:80", "127.0.0.2:8080:80", "[::1]:8080:80"; host port 0 asks for a free one.
std::optional<PublishedPort> parse_published_port(std::string_view text);
// Why it is none; nothing when it is one.
std::optional<std::string> published_port_complaint(std::string_view text);
// "8080", "127.0.0.2:8080", "[::1]:8080", and what parse_published_port() takes: where a published
// port is on the host. Its `guest` is 0 when the text says none.
std::optional<PublishedPort> parse_port_place(std::string_view text);

// ---- verbs of the sandbox process -----------------------------------------------------------

// End ok with PortList.
inline constexpr std::string_view kSandboxPortsVerb = "sandbox.ports";
struct PortList {
  std::vector<PublishedPort> ports;
  bool operator==(const PortList&) const = default;

  Bytes encode() const;
  static std::optional<PortList> decode(ByteView item) noexcept;
};

// With a listening TCP socket for each (SCM_RIGHTS, in this order). End ok, no result; on an error
// none of them is published.
inline constexpr std::string_view kSandboxPublishVerb = "sandbox.publish";
struct PublishRequest {
  std::vector<PublishedPort> ports;
  bool operator==(const PublishRequest&) const = default;

  Bytes encode() const;
  static std::optional<PublishRequest> decode(ByteView payload) noexcept;
};

// No further connections on it; those that there are go on. End ok, no result; NotFound.
inline constexpr std::string_view kSandboxUnpublishVerb = "sandbox.unpublish";
struct UnpublishRequest {
  PublishedPort port;  // `guest` is of no importance
  bool operator==(const UnpublishRequest&) const = default;

  Bytes encode() const;
  static std::optional<UnpublishRequest> decode(ByteView payload) noexcept;
};

}
