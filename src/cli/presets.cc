#include "presets.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

// The files of src/cli/presets, each with a zero byte behind it.
#define MVM_PRESET(name)                      \
  asm(".section .rodata.mvm_presets, \"a\"\n" \
      "mvm_preset_" #name                     \
      ":\n"                                   \
      ".incbin \"" MVM_PRESETS "/" #name      \
      ".preset\"\n"                           \
      ".byte 0\n"                             \
      ".previous\n");                         \
  extern "C" const char mvm_preset_##name[];  // NOLINT: a text from the assembler

MVM_PRESET(none)
MVM_PRESET(registries)
MVM_PRESET(dev)
MVM_PRESET(agent)
MVM_PRESET(nix)

namespace mvm::cli {
namespace {

struct Preset {
  std::string_view name;
  const char* text;
};
const std::array<Preset, 5> kPresets{{{"none", mvm_preset_none},
                                      {"registries", mvm_preset_registries},
                                      {"dev", mvm_preset_dev},
                                      {"agent", mvm_preset_agent},
                                      {"nix", mvm_preset_nix}}};

void add(std::vector<std::string>& hosts, std::string host) {
  if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(std::move(host));
}

void read_preset(std::string_view name, const PackageHosts& package_hosts,
                 std::vector<std::string>& hosts, int depth) {
  MVM_ASSERT(depth < 8);  // a circle in files of our own
  for (const std::string_view line : split(preset_text(name), '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const size_t blank = line.find(' ');
    const std::string_view word = line.substr(0, blank);
    const std::string_view rest = blank == line.npos ? "" : line.substr(blank + 1);
    if (word == "include") {
      read_preset(rest, package_hosts, hosts, depth + 1);
    } else if (word == "package-managers") {
      for (std::string& host : package_hosts()) add(hosts, std::move(host));
    } else {
      MVM_ASSERT(word == "allow-host");
      add(hosts, std::string(rest));
    }
  }
}

}

std::string_view preset_text(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return preset.text;
  throw Error(Kind::Invalid, "there is no network preset '" + printable(name, 40) + "'");
}

std::vector<std::string> preset_hosts(std::string_view name, const PackageHosts& package_hosts) {
  std::vector<std::string> hosts;
  read_preset(name, package_hosts, hosts, 0);
  return hosts;
}

}
