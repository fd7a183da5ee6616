#pragma once
// What a user calls a flake: REF[#ATTRIBUTE].
//
//   .  ./dir  /dir  path:dir          a folder here, or the one above it that has a flake.nix
//   .?dir=sub                         a flake below that folder
//   .?submodules=1                    with the files of git submodules
//   github:owner/repo  git+https://…  one that Nix fetches itself, in the builder

#include <string>
#include <string_view>

namespace mvm::build {

inline constexpr size_t kMaxReference = 2048;

struct FlakeRef {
  std::string local;         // the folder as it was given; empty for a remote one
  std::string subdirectory;  // of ?dir=; local ones
  std::string remote;        // as Nix spells it, without the attribute
  std::string attribute;     // "web", "packages.x86_64-linux.web"; empty: the default one
  bool submodules = false;   // of ?submodules=1; local ones
  bool operator==(const FlakeRef&) const = default;
};

// Throws Error{Invalid} naming what is wrong.
FlakeRef parse_flake(std::string_view text);
// The complaint about an attribute, or nothing.
std::string attribute_complaint(std::string_view attribute);

// Whether a remote one names one content for ever: by a revision or a hash.
bool is_pinned(const FlakeRef& flake);

}
