#include "mvm/build/flake.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::build {
namespace {

// Fetched by Nix over the network. file: and git+file: would mean the builder's own disk.
constexpr std::array<std::string_view, 11> kRemote{
    "github:",        "gitlab:",       "sourcehut:", "git+https:", "git+http:", "git+ssh:",
    "tarball+https:", "tarball+http:", "https:",     "http:",      "git:"};

[[noreturn]] void wrong(std::string_view text, const std::string& why) {
  throw Error(Kind::Invalid, "flake '" + printable(text, 80) + "': " + why);
}

bool is_relative_inside(std::string_view path) {
  if (path.empty() || path.front() == '/') return false;
  const auto parts = split(path, '/');
  return std::ranges::none_of(
      parts, [](std::string_view part) { return part.empty() || part == "." || part == ".."; });
}

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}

std::string attribute_complaint(std::string_view attribute) {
  if (attribute.size() > 256) return "an attribute has at most 256 characters";
  for (const char c : attribute) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-' || c == '\'' || c == '"' || c == '+';
    if (!fine) return "an attribute has letters, digits, '.', '_', '-' and quotes";
  }
  return "";
}

FlakeRef parse_flake(std::string_view text) {
  if (text.empty())
    throw Error(Kind::Invalid, "a flake needs a name, such as . or github:owner/repo");
  if (text.size() > kMaxReference) wrong(text, "is too long");
  for (const char c : text)
    if ((c >= 0 && c < ' ') || c == 0x7f) wrong(text, "has control characters");
  FlakeRef flake;
  std::string_view reference = text;
  if (const size_t hash = text.find('#'); hash != text.npos) {
    reference = text.substr(0, hash);
    flake.attribute = text.substr(hash + 1);
    if (const std::string complaint = attribute_complaint(flake.attribute); !complaint.empty())
      wrong(text, complaint);
  }
  for (const std::string_view scheme : kRemote) {
    if (!reference.starts_with(scheme)) continue;
    flake.remote = reference;
    return flake;
  }
  if (reference.starts_with("path:")) {
    reference.remove_prefix(5);
  } else if (const size_t colon = reference.find(':');
             colon != reference.npos && colon < reference.find('/')) {
    wrong(text,
          "no such kind is known; a folder, path:, github:, gitlab:, sourcehut:, git+https:, "
          "git+ssh:, https: are");
  }
  if (const size_t query = reference.find('?'); query != reference.npos) {
    for (const std::string_view asked : split(reference.substr(query + 1), '&')) {
      if (asked == "submodules=1") {
        flake.submodules = true;
      } else if (asked.starts_with("dir=") && is_relative_inside(asked.substr(4)) &&
                 flake.subdirectory.empty()) {
        flake.subdirectory = asked.substr(4);
      } else {
        wrong(text, "of a folder only ?dir=SUBFOLDER and ?submodules=1 can be asked");
      }
    }
    reference = reference.substr(0, query);
  }
  flake.local = reference.empty() ? "." : std::string(reference);
  return flake;
}

bool is_pinned(const FlakeRef& flake) {
  if (flake.remote.find("narHash=") != std::string::npos) return true;
  constexpr size_t kRevision = 40;
  for (const std::string_view mark : {"rev=", "/"}) {
    for (size_t at = flake.remote.find(mark); at != std::string::npos;
         at = flake.remote.find(mark, at + 1)) {
      const auto rest = std::string_view(flake.remote).substr(at + mark.size());
      const std::string_view word = rest.substr(0, rest.find_first_of("?&/"));
      if (word.size() == kRevision && is_hex(word)) return true;
    }
  }
  return false;
}

}
