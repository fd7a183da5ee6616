#include "name_gate.h"

namespace mvm::egress {

std::optional<std::string> NameGate::holds(const Judge& judge, const dns::Name& name) const {
  if (!judge.zone_of(name)) return std::nullopt;
  for (const auto& source : sources_)
    if (auto rule = source->rule_of_name(name.text())) return rule;
  return std::nullopt;
}

bool NameGate::admits(const Judge& judge, const dns::Name& name, Time now) {
  if (names_per_zone_ == 0) return true;
  const auto pattern = judge.zone_of(name);
  if (!pattern) return true;
  Zone& zone = zones_[pattern->text()];
  while (!zone.order.empty() && now - zone.order.front().first >= kWindow) {
    zone.names.erase(zone.order.front().second);
    zone.order.pop_front();
  }
  const std::string text = name.text();
  if (zone.names.contains(text)) return true;
  if (zone.names.size() >= names_per_zone_) return false;
  zone.order.emplace_back(now, zone.names.insert(text).first);
  return true;
}

}
