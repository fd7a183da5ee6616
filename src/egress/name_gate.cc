#include "name_gate.h"

namespace mvm::egress {

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
