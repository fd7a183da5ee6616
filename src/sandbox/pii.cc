#include "pii.h"

namespace mvm::sandbox {

std::shared_ptr<privacy::PiiSource> pii_source(const std::optional<proto::NetworkConfig>& config,
                                               privacy::NoteSink sink) {
  if (!config || !config->pii.enabled()) return nullptr;
  return std::make_shared<privacy::PiiSource>(privacy::compile(config->pii), std::move(sink));
}

std::vector<policy::InspectRule> pii_inspection(const std::optional<proto::NetworkConfig>& config) {
  if (!config || (!config->pii.enabled() && !config->inspect_all)) return {};
  auto out = privacy::compile(config->pii).inspect;
  if (config->inspect_all) out.push_back({std::nullopt, {}, true});
  return out;
}

audit::PiiUse pii_record(const privacy::Note& note) {
  return {static_cast<audit::PiiUse::Kind>(note.kind),
          note.flow,
          audit::HostName(note.host),
          note.port,
          audit::ClassName(note.name),
          audit::ClassName(note.place),
          note.count,
          audit::ClassName(note.change)};
}

}
