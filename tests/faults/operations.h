#pragma once
// What a daemon is asked to do while the system lets it down.

#include <functional>
#include <string>
#include <vector>

#include "world.h"

namespace mvm::faults {

struct Operation {
  const char* name;
  std::function<void(World&)> before;
  std::function<void(World&)> act;
  std::function<void(World&)> after;  // back to where it began, also when it failed
};

std::vector<Operation> operations();
// What went wrong; nothing when nothing did.
std::string act_and_tell(World& world, const Operation& operation);

api::SandboxSpec spec(const std::string& name);
void have_stopped(World& world);
// A sandbox that is neither here nor there: whoever waited for an operation finds its outcome.
std::string undecided(World& world);

}
