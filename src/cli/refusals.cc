#include "refusals.h"

#include <algorithm>
#include <set>

#include "mvm/audit/log.h"
#include "mvm/audit/reader.h"
#include "mvm/base/text.h"
#include "mvm/config/schema.h"
#include "mvm/policy/change.h"

namespace mvm::cli {
namespace {

constexpr size_t kShown = 20;

std::string with_port(const std::string& host, uint64_t port) {
  if (port == 0) return host;
  return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

// The question that was refused, as far as the record holds it whole; nothing otherwise.
std::optional<policy::Request> request_of(const audit::Line& line) {
  policy::Request request;
  const auto host = line.field("host");
  if (!host.empty()) {
    request.host = dns::Name::parse(host);
    if (!request.host || host == "invalid") return std::nullopt;
  }
  request.address = IpAddress::parse(line.field("address"));
  if (const auto port = line.number("port"); port != 0 && port <= 65535)
    request.port = static_cast<uint16_t>(port);
  // A part of it was left out (docs/audit.md), so no rule is for what is there.
  const auto withheld = [&](std::string_view key) {
    return line.field(key).find("withheld") != std::string_view::npos;
  };
  if (withheld("host") || withheld("path")) return std::nullopt;
  if (line.kind != "http") return request;
  request.method = line.field("method");
  request.target = line.field("path");
  // Left out, cut, or not among the methods that records know.
  if (request.method == "other" || request.target.empty() || line.number("path_length") != 0)
    return std::nullopt;
  return request;
}

std::string flag_of(const audit::Line& line, policy::Reason reason) {
  if (line.field("transport") == "udp") return "";  // no rule admits datagrams
  const auto request = request_of(line);
  if (!request) return "";
  const policy::Decision decision{policy::Outcome::Deny, reason, std::string(line.field("rule")),
                                  false};
  return policy::suggestion(*request, decision).value_or("");
}

std::string counted(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

// Rows for people; at most kShown of them.
std::string rows(const std::vector<const Refusal*>& refusals) {
  std::vector<std::vector<std::string>> cells;
  for (const Refusal* each : refusals) {
    if (cells.size() == kShown) break;
    const std::string_view none = each->reason == policy::reason_word(policy::Reason::AskUser)
                                      ? "was left to a person"
                                      : "no flag admits it";
    cells.push_back({"  " + printable(each->what, 200), each->reason,
                     each->flag.empty() ? std::string(none) : printable(each->flag, 400)});
  }
  return table(cells);
}

void append_list(std::string& out, std::string_view key, const std::set<std::string>& rules) {
  if (rules.empty()) return;
  out += std::string(key) + " = [\n";
  for (const std::string& rule : rules) out += "  " + config::quoted(rule) + ",\n";
  out += "]\n";
}

}

std::optional<Refusal> refusal_of(const audit::Line& line) {
  const bool decision =
      line.kind == "dns" || line.kind == "connect" || line.kind == "tls" || line.kind == "http";
  const bool audited = line.number("audited") != 0;
  if (!decision || (line.field("outcome") != "deny" && !audited)) return std::nullopt;
  const auto reason = policy::parse_reason(line.field("reason"));
  if (!reason) return std::nullopt;
  Refusal out;
  const std::string host(line.field("host").empty() ? line.field("address") : line.field("host"));
  out.what = with_port(host, line.number("port"));
  out.name_only = line.kind == "dns";
  if (out.name_only) out.what += " (name)";
  if (line.field("transport") == "udp") out.what += " (udp)";
  if (line.kind == "http")
    out.what = std::string(line.field("method")) + " " + out.what +
               std::string(line.field("path").empty() ? "/…" : line.field("path")) +
               (line.number("path_length") != 0 ? "…" : "");
  out.reason = line.field("reason");
  out.audited = audited;
  out.flag = flag_of(line, *reason);
  return out;
}

void Refusals::take(const audit::Line& line) {
  auto refusal = refusal_of(line);
  if (!refusal) return;
  const std::string key = refusal->what + " " + refusal->reason + (refusal->audited ? " a" : "");
  if (seen_.contains(key)) return;
  if (all_.size() >= kMost) {
    ++more_;
    return;
  }
  seen_.emplace(key, all_.size());
  all_.push_back(std::move(*refusal));
}

std::string Refusals::as_rules() const {
  std::set<std::string> hosts;
  std::set<std::string> ranges;
  std::set<std::string> endpoints;
  std::set<std::string> closer;  // hosts, and hosts with ports, that a narrower rule is for
  std::vector<const Refusal*> shut;
  // From the narrowest to the widest.
  const auto each = [&](policy::RuleKind kind, bool name_only, const auto& use) {
    for (const Refusal& refusal : all_) {
      const auto word = policy::parse_rule(policy::suggested_rule(refusal.flag));
      if (word && word->kind == kind && refusal.name_only == name_only) use(word->text);
    }
  };
  each(policy::RuleKind::Endpoint, false, [&](const std::string& rule) {
    endpoints.insert(rule);
    const auto route = policy::parse_endpoint(rule);
    closer.insert(route->host.text());
    closer.insert(with_port(route->host.text(), route->ports.front()));
  });
  const auto take_host = [&](const std::string& rule) {
    if (closer.contains(rule)) return;
    hosts.insert(rule);
    closer.insert(rule.substr(0, rule.rfind(':')));
  };
  each(policy::RuleKind::Host, false, take_host);
  std::set<std::string> guessed;
  each(policy::RuleKind::Host, true, [&](const std::string& rule) {
    if (!closer.contains(rule.substr(0, rule.rfind(':')))) guessed.insert(rule);
  });
  each(policy::RuleKind::Range, false, [&](const std::string& rule) { ranges.insert(rule); });
  each(policy::RuleKind::Range, true, [&](const std::string& rule) { ranges.insert(rule); });
  hosts.insert(guessed.begin(), guessed.end());
  std::string out;
  if (!hosts.empty() || !ranges.empty() || !endpoints.empty()) out = "[network]\n";
  if (!guessed.empty())
    out += "# Only looked up, so that the port is a guess: " + [&] {
      std::string list;
      for (const std::string& rule : guessed) list += (list.empty() ? "" : ", ") + rule;
      return list;
    }() + "\n";
  append_list(out, "allow_hosts", hosts);
  append_list(out, "allow_cidr", ranges);
  append_list(out, "allow_endpoints", endpoints);
  for (const Refusal& refusal : all_)
    if (refusal.flag.empty()) shut.push_back(&refusal);
  if (!shut.empty())
    out += "# No line admits these (shut for good, denied by a rule, or left to a person):\n";
  for (const Refusal* refusal : shut)
    out += "#   " + printable(refusal->what, 200) + "  " + refusal->reason + "\n";
  if (more_ != 0) out += "# And " + std::to_string(more_) + " records of others.\n";
  return out;
}

// The records of the whole log, or of one run: from its beginning to its end. Logs grow at their
// end, so that is where a run is looked for.
Refusals read_refusals(const store::Paths& paths, const std::string& log, const std::string& run) {
  const std::string directory = paths.audit_log(log);
  Refusals out;
  auto files = audit::file_numbers(directory);
  bool within = run.empty();
  while (!files.empty()) {
    audit::Reader reader(directory, within ? 0 : files.back() - 1);
    while (const auto read = reader.next()) {
      const bool own = !run.empty() && read->line.field("run_id") == run;
      if (own && read->line.kind == "exec_ended") return out;
      within = within || own;
      if (within) out.take(read->line);
    }
    if (within) break;
    files.pop_back();
  }
  return out;
}

void tell_refusals(Context& context, const std::string& log, const std::string& run,
                   const std::string& hint) {
  const Refusals refusals = read_refusals(context.paths, log, run);
  std::vector<const Refusal*> refused;
  std::vector<const Refusal*> audited;
  for (const Refusal& each : refusals.all()) (each.audited ? audited : refused).push_back(&each);
  std::string text;
  if (!refused.empty())
    text += "mvm: the network refused " + counted(refused.size(), "thing") +
            (run.empty() ? "" : " meanwhile") + "; what would admit each:\n" + rows(refused);
  if (!audited.empty())
    text += "mvm: mode audit let through " + counted(audited.size(), "thing") +
            " that no rule admits:\n" + rows(audited);
  size_t more = refusals.more();
  for (const auto* part : {&refused, &audited})
    if (part->size() > kShown) more += part->size() - kShown;
  if (more != 0) text += "  and " + std::to_string(more) + " more; " + hint + " tells all\n";
  if (!text.empty()) context.console.err(text);
}

}
