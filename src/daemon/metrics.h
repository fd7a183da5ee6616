#pragma once
// Figures of the daemon and its sandboxes, for machines. Labels are the sandbox's name, and of its
// use of AI the provider and the model, of which each sandbox has a bounded number (mvm/meter).

#include <optional>
#include <string>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/api/usage.h"
#include "mvm/proto/counters.h"

namespace mvm::daemon {

struct Figures {
  std::string version;
  std::vector<api::Sandbox> sandboxes;  // all of them
  std::vector<api::AiUsage> usage;
  std::vector<std::pair<std::string, proto::EgressCounters>> egress;  // by sandbox
};

std::string prometheus_text(const Figures& figures);
// OpenTelemetry's metrics in JSON (OTLP), with the names of its conventions for generative AI.
std::string otlp_json(const Figures& figures, uint64_t now_unix_nanoseconds);

}
