#include "command.h"

#include <algorithm>
#include <string_view>

namespace mvm::build {

// For sh(1).
static std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=@%+,#").find(c) != std::string_view::npos;
  });
  if (plain && word.front() != '#') return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string command_of(const Request& request) {
  const FlakeRef& flake = request.flake;
  std::string reference = flake.remote.empty() ? flake.local : flake.remote;
  char separator = '?';
  const auto ask = [&](const std::string& what) {
    reference += separator + what;
    separator = '&';
  };
  if (!flake.subdirectory.empty()) ask("dir=" + flake.subdirectory);
  if (flake.submodules) ask("submodules=1");
  if (!flake.attribute.empty()) reference += "#" + flake.attribute;
  std::string line = "mvm build " + quoted(request.directory) + " --flake " + quoted(reference) +
                     " --name " + quoted(request.name);
  for (const auto& [input, folder] : request.overrides)
    line += " --override-input " + quoted(input + "=" + folder);
  return line;
}

}
