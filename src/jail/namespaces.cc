// Stage 1.
#include <array>

#include <sched.h>

#include "mvm/jail/jail.h"

namespace mvm::jail {

static constexpr std::array<std::pair<Isolation, std::string_view>, 3> kNames{{
    {Isolation::Full, "full"},
    {Isolation::WithoutUser, "without-user"},
    {Isolation::None, "none"},
}};

std::string_view isolation_name(Isolation isolation) {
  for (const auto& [value, name] : kNames)
    if (value == isolation) return name;
  return "";
}

std::optional<Isolation> isolation_from_name(std::string_view name) {
  for (const auto& [value, text] : kNames)
    if (text == name) return value;
  return std::nullopt;
}

void set_apart(sys::SpawnOptions& options, Isolation isolation, Network network) {
  if (isolation == Isolation::None) return;
  options.namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (network == Network::Empty) options.namespaces |= CLONE_NEWNET;
  if (isolation == Isolation::Full) options.namespaces |= CLONE_NEWUSER;
}

}
