#pragma once
// Personal data in the sandbox's traffic: the filter that its configuration asks for, and what its
// audit log says of it.

#include <memory>
#include <optional>

#include "mvm/audit/record.h"
#include "mvm/privacy/filter.h"
#include "mvm/proto/network.h"

namespace mvm::sandbox {

// Null when nothing is asked for. Throws Error{Invalid} for words that mean nothing.
std::shared_ptr<privacy::PiiSource> pii_source(const std::optional<proto::NetworkConfig>& config,
                                               privacy::NoteSink sink);
std::vector<policy::InspectRule> pii_inspection(const std::optional<proto::NetworkConfig>& config);

audit::PiiUse pii_record(const privacy::Note& note);

}
