#pragma once
// Which connections are to be looked into whatever the rules need (Policy::inspect): those that
// hold what is protected or counted. Admits nothing; holds for what Mode::Audit lets through, too.

#include "mvm/policy/policy.h"

namespace mvm::policy {

bool to_be_inspected(const Policy& policy, const Request& request);

}
