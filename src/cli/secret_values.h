#pragma once
// Secrets on their way from settings to the daemon: rules made whole, values looked up here, in the
// user's own environment.

#include <string>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/cli/context.h"
#include "mvm/config/settings.h"
#include "mvm/secret/reference.h"

namespace mvm::cli {

// Where `mvm secret set` keeps what it is given.
secret::Store secret_store(const Context& context);

// With what the provider's entry adds. Throws Error{Invalid} for rules that contradict.
std::vector<proto::SecretRule> secrets_of(const Context& context, const config::Settings& settings);

// One value for each rule. From here on this process cannot be dumped. Throws when one cannot be
// found or used; the message names it, and says nothing of the value.
proto::SecretValues secret_values(const Context& context,
                                  const std::vector<proto::SecretRule>& rules);

// Says which secret is for which hosts, and where no rule lets the sandbox get there.
void tell_secrets(Context& context, const api::SandboxSpec& spec);

}
