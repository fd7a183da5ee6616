#pragma once
// Request targets in origin form: path, query, percent-encoding. RFC 3986.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mvm::http {

inline constexpr size_t kMaxQueryParameters = 64;

// "%41" is "A"; "+" is "+". Nothing when a percent sign is not followed by two hexadecimal digits,
// or stands for a zero byte.
std::optional<std::string> percent_decode(std::string_view text);
// All but the unreserved characters (letters, digits, "-", ".", "_", "~") are encoded.
std::string percent_encode(std::string_view text);

struct Target {
  std::vector<std::string> path;  // decoded segments: "/v1/a%2Fb" is {"v1", "a/b"}
  std::vector<std::pair<std::string, std::string>> query;
};
// Nothing when the target is not in origin form, has a bad escape, an empty or dot segment, or more
// than kMaxQueryParameters: such paths mean different things to different readers.
std::optional<Target> parse_target(std::string_view target);

}
