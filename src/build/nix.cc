#include "mvm/build/nix.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/build/guest_image.h"

#include "json.h"

namespace mvm::build {

std::string built_path(std::string_view text) {
  const Json json = json::parse(text, "the answer of nix build", limits(kMaxAnswer));
  if (!json.is_array() || json.size() != 1 || !json[0].is_object())
    throw Error(Kind::Invalid, "nix build made more or less than one thing");
  const auto outputs = json[0].find("outputs");
  if (outputs == json[0].end() || !outputs->is_object())
    throw Error(Kind::Invalid, "nix build did not say what it made");
  const auto out = outputs->find("out");
  if (out == outputs->end() || !out->is_string() || !is_store_path(out->get<std::string>()))
    throw Error(Kind::Invalid, "what nix build made has no output \"out\"");
  return out->get<std::string>();
}

std::vector<std::string> store_paths(std::string_view lines) {
  std::vector<std::string> out;
  for (const std::string_view line : split(lines, '\n')) {
    if (line.empty()) continue;
    if (!is_store_path(line))
      throw Error(Kind::Invalid, "in the list of store paths: " + printable(line, 80));
    out.emplace_back(line);
  }
  if (out.empty()) throw Error(Kind::Invalid, "the list of store paths is empty");
  return out;
}

std::map<std::string, std::string> pins_of(std::string_view text) {
  std::map<std::string, std::string> pins;
  const Json json = json::parse(text, "flake.lock", limits(kMaxAnswer));
  const auto at = [](const Json& object, const std::string& key) -> const Json* {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  };
  const Json* nodes = at(json, "nodes");
  const Json* root_name = at(json, "root");
  if (nodes == nullptr || root_name == nullptr || !root_name->is_string())
    throw Error(Kind::Invalid, "flake.lock is no lock file");
  const Json* root = at(*nodes, root_name->get<std::string>());
  const Json* inputs = root != nullptr ? at(*root, "inputs") : nullptr;
  if (inputs == nullptr || !inputs->is_object()) return pins;
  for (const auto& [name, node] : inputs->items()) {
    if (!node.is_string()) continue;  // follows another input, which is there itself
    const Json* entry = at(*nodes, node.get<std::string>());
    const Json* locked = entry != nullptr ? at(*entry, "locked") : nullptr;
    if (locked == nullptr) continue;
    for (const char* key : {"narHash", "rev"}) {
      const Json* pin = at(*locked, key);
      if (pin == nullptr || !pin->is_string()) continue;
      pins[name] = pin->get<std::string>();
      break;
    }
  }
  return pins;
}

static bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// The derivation in "builder for '/nix/store/….drv' failed".
static std::string failed_derivation(std::string_view said) {
  constexpr std::string_view kMark = "builder for '";
  const size_t at = said.rfind(kMark);
  if (at == said.npos) return "";
  const std::string_view rest = said.substr(at + kMark.size());
  const std::string_view path = rest.substr(0, rest.find('\''));
  return is_store_path(path) ? std::string(path) : "";
}

Explanation explain(std::string_view said, const std::string& command) {
  Explanation out;
  out.derivation = failed_derivation(said);
  if (has(said, "No space left on device") || has(said, "database or disk is full")) {
    out.message = "the builder's disk is full";
    out.hint = "`mvm builder gc` makes room; [builder] disk makes it larger";
  } else if (has(said, "requires lock file changes")) {
    out.message = "flake.lock does not fit flake.nix: an input is missing there, or is another one";
    out.hint = "`" + command + " --update-lock` brings it up to date";
  } else if (has(said, "does not provide attribute")) {
    out.message = "the flake has no such package";
    out.hint = "name one of its packages: mvm build --flake .#NAME";
  } else if (has(said, "unable to download") || has(said, "Could not resolve host") ||
             has(said, "Couldn't resolve host")) {
    out.message = "something could not be fetched";
    out.hint =
        "`mvm logs --egress mvm-builder` shows what was refused; [builder] allow_hosts admits more";
  } else if (!out.derivation.empty()) {
    out.message = "a derivation failed to build";
    out.hint = "`" + command + " -v` shows all of its log; `mvm builder shell` and `nix log " +
               out.derivation + "` do it afterwards";
  } else {
    out.message = "the flake cannot be evaluated";
    out.hint = "`" + command + " -v` shows all that Nix says";
  }
  return out;
}

}
