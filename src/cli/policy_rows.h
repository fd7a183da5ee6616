#pragma once
// Rules for people, in the order in which they are asked.

#include <string>
#include <string_view>
#include <vector>

#include "mvm/policy/policy.h"

#include "json_text.h"

namespace mvm::cli {

std::vector<PolicyRow> policy_rows(const policy::Policy& policy);
// A table. `effective`: these are all rules, so what becomes of the rest is said too; otherwise
// those that were added. `mode` as json_policy() has it.
std::string policy_text(const std::vector<PolicyRow>& rows, std::string_view mode, bool effective);

}
