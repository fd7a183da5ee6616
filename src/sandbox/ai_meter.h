#pragma once
// What the sandbox uses of AI providers: the journal in its data directory, the ledger on top of
// it, and what the proxy needs of both. Nothing where nobody asked for it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/record.h"
#include "mvm/metering/filter.h"
#include "mvm/metering/journal_file.h"
#include "mvm/proto/counters.h"
#include "mvm/proto/network.h"

namespace mvm::sandbox {

class AiMeter {
 public:
  // Opens the journal, by name: before the jail. `data` is borrowed. Throws Error when it is there
  // and cannot be read: a budget must not begin anew by that.
  AiMeter(const proto::NetworkConfig& network, int data, metering::MeterSource::Watcher watcher);

  std::shared_ptr<egress::FilterSource> source() const { return source_; }
  std::vector<policy::InspectRule> inspect() const { return inspect_; }
  void run_began(const std::string& run) { ledger_.run_began(run); }
  void run_ended(const std::string& run) { ledger_.run_ended(run); }
  // What a budget of runs is about, for figures.
  void tell_runs(proto::EgressCounters& counters) const;
  // Why it is not on record. Throws Error{Invalid}.
  std::optional<std::string> change(const proto::AiBudgetRequest& request);

 private:
  AiMeter(meter::Plan plan, const proto::NetworkConfig& network, int data,
          metering::MeterSource::Watcher watcher);

  metering::JournalFile journal_;
  meter::Ledger ledger_;
  std::shared_ptr<metering::MeterSource> source_;
  std::vector<policy::InspectRule> inspect_;
};

// Nothing where use of AI is not metered.
std::unique_ptr<AiMeter> make_ai_meter(const std::optional<proto::NetworkConfig>& network, int data,
                                       metering::MeterSource::Watcher watcher);
audit::AiUse usage_record(const metering::UsageNotice& notice);
std::vector<std::shared_ptr<egress::FilterSource>> filters_of(const AiMeter* meter);
std::vector<policy::InspectRule> inspections_of(const AiMeter* meter);

}
