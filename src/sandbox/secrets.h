#pragma once
// Secrets as the sandbox process has them: taken once, at its start, kept in this process alone,
// and told of by name.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/record.h"
#include "mvm/audit/writer.h"
#include "mvm/egress/proxy.h"
#include "mvm/guard/secret_filter.h"
#include "mvm/policy/policy.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/secret/secrets.h"

namespace mvm::sandbox {

// The message behind the configuration's. Puts placeholders into the configuration's environment.
// From here on the process cannot be dumped. Throws Error{Invalid}.
std::shared_ptr<const secret::Secrets> take_secrets(int channel, proto::SandboxConfig& config);

// The rest takes null where there are no secrets.
std::vector<std::shared_ptr<egress::FilterSource>> secret_source(
    const std::shared_ptr<const secret::Secrets>& secrets, guard::SecretSource::Watcher watcher);
std::vector<policy::InspectRule> inspected_for(const secret::Secrets* secrets);

// ---- for the audit log
audit::SecretUse secret_record(const guard::SecretNotice& notice);
// How it is put on record with what else its exchange has to tell; nothing: at once, for what it is
// of is refused.
std::optional<audit::Writer::Of> deferred_as(const guard::SecretNotice& notice);
// What has to be on record by then.
audit::Writer::Of commit_of(egress::Passage passage);
std::string misuse_text(const guard::SecretNotice& notice);

}
