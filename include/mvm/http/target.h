#pragma once
// Whom a request is for: its target's form and its authority. RFC 9112 §3.2, RFC 3986 §3.2.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/http/message.h"

namespace mvm::http {

inline constexpr size_t kMaxAuthorityHost = 255;

// "example.com:8443". No user information: what stands before an "@" is refused.
struct Authority {
  std::string host;              // lower case; an IPv6 address without its brackets
  std::optional<uint16_t> port;  // when written; never 0
  bool operator==(const Authority&) const = default;
};
// Letters, digits, "-", "_" and "." for a name, with at most one dot at its end, which is dropped;
// a dotted quad, or an IPv6 address in brackets. Nothing for anything else.
std::optional<Authority> parse_authority(std::string_view text);

enum class TargetForm {
  Origin,     // "/path?query"
  Absolute,   // "http://host/path", what clients send to a proxy
  Authority,  // "host:port", of CONNECT alone
  Asterisk,   // "*", of OPTIONS alone
};

struct RequestTarget {
  TargetForm form = TargetForm::Origin;
  std::string scheme;  // of the absolute form: "http" or "https"; otherwise empty
  // Of the target, or of Host where the target names none. Nothing only for an HTTP/1.0 request
  // without either.
  std::optional<Authority> authority;
  // The path and query, as it came: "/a?b". "/" for an absolute form without a path; "*"; empty for
  // CONNECT.
  std::string origin;
  bool operator==(const RequestTarget&) const = default;
};

enum class TargetFault { None, BadTarget, BadHost, HostMismatch };
// Takes the target apart and holds it against the Host fields: exactly one in HTTP/1.1, and the
// same host and port as in a target that has its own (RFC 9112 §3.2.2 would let the target win;
// two readers could differ, so that is refused). Of CONNECT, which nobody reads behind a proxy, the
// target counts, and Host need only be one.
TargetFault read_target(const RequestHead& head, RequestTarget& target);

}
