#include "policy_rows.h"

#include "mvm/base/text.h"
#include "mvm/policy/compile.h"

namespace mvm::cli {

static std::string ports_text(const std::vector<uint16_t>& ports, std::string_view none) {
  if (ports.empty()) return std::string(none);
  std::string text;
  for (const uint16_t port : ports) text += (text.empty() ? "" : ",") + std::to_string(port);
  return text;
}

std::vector<PolicyRow> policy_rows(const policy::Policy& policy) {
  constexpr std::string_view kWeb = "80,443";
  constexpr std::string_view kAll = "all";
  std::vector<PolicyRow> rows;
  for (const auto& rule : policy.denied_hosts)
    rows.push_back({"deny", rule.host.text(), ports_text(rule.ports, kAll), "", "", rule.id});
  for (const auto& rule : policy.denied_ranges)
    rows.push_back({"deny", rule.range.text(), ports_text(rule.ports, kAll), "", "", rule.id});
  for (const auto& route : policy.routes) {
    const std::string ports = ports_text(route.ports, kWeb);
    for (const auto& rule : route.rules)
      rows.push_back({std::string(policy::outcome_word(rule.outcome)), route.host.text(), ports,
                      rule.method, rule.path.text(), rule.id});
    if (route.otherwise)
      rows.push_back({std::string(policy::outcome_word(*route.otherwise)), route.host.text(), ports,
                      route.rules.empty() ? "" : "*", route.rules.empty() ? "" : "/**", route.id});
  }
  for (const auto& rule : policy.hosts)
    rows.push_back({"allow", rule.host.text(), ports_text(rule.ports, kWeb), "", "", rule.id});
  for (const auto& rule : policy.ranges)
    rows.push_back({"allow", rule.range.text(), ports_text(rule.ports, kAll), "", "", rule.id});
  return rows;
}

std::string policy_text(const std::vector<PolicyRow>& rows, std::string_view mode, bool effective) {
  if (rows.empty() && !effective)
    return "nothing was added since it started; --effective lists all rules\n";
  std::vector<std::vector<std::string>> cells = {
      {"OUTCOME", "HOST", "PORTS", "METHOD", "PATH", "RULE"}};
  const auto shown = [](const std::string& text) {
    return text.empty() ? "-" : printable(text, 200);
  };
  for (const PolicyRow& row : rows)
    cells.push_back({row.outcome, shown(row.host), row.ports, shown(row.method), shown(row.path),
                     shown(row.rule)});
  if (effective)
    cells.push_back({mode == "audit" ? "audit" : "deny", "everything else", "all", "-", "-", "-"});
  return table(cells);
}

}
