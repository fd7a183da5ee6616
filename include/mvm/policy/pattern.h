#pragma once
// The patterns that rules are made of, and the one normaliser of what they are matched against. The
// enforcer, `mvm policy explain` and the reader of mvm.toml all use these.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/dns/name.h"

namespace mvm::policy {

// "example.com", or "*.example.com": any number of labels in front, and not the name itself.
class HostPattern {
 public:
  static std::optional<HostPattern> parse(std::string_view text);
  bool matches(const dns::Name& host) const noexcept;
  bool is_zone() const noexcept { return below_; }  // "*.example.com"
  std::string text() const;
  bool operator==(const HostPattern&) const = default;

  // Whether the host is what the other form of the pattern means: the name itself for "*.NAME", one
  // below it for "NAME".
  bool nearly_matches(const dns::Name& host) const noexcept;

 private:
  dns::Name name_;
  bool below_ = false;
};

// The path of a request as every server reads it: segments, percent-decoded. "/" is one empty
// segment, and so is what follows a slash at the end.
using Path = std::vector<std::string>;
inline constexpr size_t kMaxPathSegments = 256;

// Nothing when servers and proxies differ on what the path is: "..", empty segments, encoded
// slashes, encoded dot segments, backslashes, doubly encoded bytes, path parameters (";"), control
// bytes, no UTF-8. What follows "?" does not belong to the path. A segment "." is none (RFC 3986
// §6.2.2.3), provided that the server gets canonical_target(), as there are some that keep it.
std::optional<Path> normal_path(std::string_view target);

// The target with its "." segments taken out; as it is, where it has no normal path.
std::string canonical_target(std::string_view target);

// "/v1/models", "/repos/*/issues": "*" is one segment, not an empty one; "/v1/**": "**" at the end
// is any rest, also none. Segments are compared after decoding, exactly.
class PathPattern {
 public:
  static std::optional<PathPattern> parse(std::string_view text);
  // Matches this path alone.
  static PathPattern exactly(const Path& path);
  bool matches(const Path& path) const noexcept;
  std::string text() const;

 private:
  struct Segment {
    bool any = false;
    std::string text;
  };
  std::vector<Segment> segments_;
  bool rest_ = false;
};

}
