#pragma once
// What Nix says, read: the results of its commands, and why a build failed.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::build {

inline constexpr size_t kMaxAnswer = size_t{4} << 20;    // bytes of a command's own output
inline constexpr size_t kMaxClosure = size_t{64} << 20;  // bytes of a list of store paths

// `nix build --json`: the store path of the one derivation's "out".
std::string built_path(std::string_view json);
// `nix-store -qR`: one store path a line. Throws Error{Invalid} for anything else.
std::vector<std::string> store_paths(std::string_view lines);
// flake.lock: what each direct input of the flake is pinned to (a narHash, or a revision).
std::map<std::string, std::string> pins_of(std::string_view lock);

struct Explanation {
  std::string message;     // one line
  std::string hint;        // what to do
  std::string derivation;  // the one that failed, a store path; may be empty
};
// From the end of what Nix printed on standard error. `command` is how the build is started again.
Explanation explain(std::string_view said, const std::string& command = "mvm build");

}
