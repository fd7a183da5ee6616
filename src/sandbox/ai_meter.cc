#include "ai_meter.h"

#include "mvm/base/error.h"
#include "mvm/meter/compile.h"

namespace mvm::sandbox {

AiMeter::AiMeter(const proto::NetworkConfig& network, int data,
                 metering::MeterSource::Watcher watcher)
    : AiMeter(meter::compile(network.ai), network, data, std::move(watcher)) {}

AiMeter::AiMeter(meter::Plan plan, const proto::NetworkConfig& network, int data,
                 metering::MeterSource::Watcher watcher)
    : journal_(data),
      ledger_(std::move(plan.terms), journal_.take_account(),
              [this](const meter::Record& record, const meter::Account& before) {
                return journal_.keep(record, before);
              }),
      inspect_(metering::inspections(plan.catalogue, network)) {
  for (const meter::Record& left : ledger_.left_over()) watcher.record({0, "", 0, left});
  source_ = std::make_shared<metering::MeterSource>(
      std::move(plan.catalogue), plan.inject_stream_usage, ledger_, std::move(watcher));
}

void AiMeter::tell_runs(proto::EgressCounters& counters) const {
  const meter::Spent most = ledger_.most_of_runs();
  counters.run_total_tokens = most.total;
  counters.run_input_tokens = most.input;
  counters.run_output_tokens = most.output;
  counters.run_requests = most.requests;
  counters.run_cost = most.cost;
}

std::optional<std::string> AiMeter::change(const proto::AiBudgetRequest& request) {
  if (request.budget) {
    if (const auto complaint = meter::budget_owner_complaint(request.of))
      throw Error(Kind::Invalid, "a budget's owner " + *complaint);
    const meter::Budget budget = meter::compile(*request.budget);
    const auto provider = meter::provider_from_word(request.of);
    const bool kept = provider             ? ledger_.set_provider_budget(*provider, budget)
                      : request.of.empty() ? ledger_.set_budget(budget)
                                           : ledger_.set_run_budget(budget);
    if (!kept) return journal_.why();
  }
  if (request.reset && !ledger_.reset()) return journal_.why();
  return std::nullopt;
}

std::unique_ptr<AiMeter> make_ai_meter(const std::optional<proto::NetworkConfig>& network, int data,
                                       metering::MeterSource::Watcher watcher) {
  if (!network || !network->ai.on()) return nullptr;
  return std::make_unique<AiMeter>(*network, data, std::move(watcher));
}

audit::AiUse usage_record(const metering::UsageNotice& notice) {
  const meter::Record& used = notice.used;
  audit::AiUse out;
  out.told = static_cast<audit::AiUse::Told>(used.verdict);
  out.flow = notice.flow;
  out.host = audit::HostName(notice.host);
  out.port = notice.port;
  out.provider = audit::ClassName(meter::provider_word(used.provider));
  out.model = audit::ModelName(used.model);
  out.input = used.usage.input;
  out.output = used.usage.output;
  out.total = used.usage.total;
  out.cached = used.usage.cached;
  out.reasoning = used.usage.reasoning;
  out.estimated = used.estimate.input + used.estimate.output;
  return out;
}

std::vector<std::shared_ptr<egress::FilterSource>> filters_of(const AiMeter* meter) {
  std::vector<std::shared_ptr<egress::FilterSource>> out;
  if (meter != nullptr) out.push_back(meter->source());
  return out;
}

std::vector<policy::InspectRule> inspections_of(const AiMeter* meter) {
  return meter == nullptr ? std::vector<policy::InspectRule>() : meter->inspect();
}

}
