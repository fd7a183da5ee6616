#include "json_text.h"

#include "mvm/json/json.h"

namespace mvm::cli {
namespace {

using Json = json::Ordered;

std::string document(const Json& json) {
  // A command's output need not be UTF-8; JSON must be.
  return json::dump(json) + '\n';
}

}

std::string json_exec(const ExecReport& report) {
  Json json;
  json["sandbox"] = report.sandbox;
  if (!report.sandbox_id.empty()) json["sandbox_id"] = report.sandbox_id;
  if (!report.run.empty()) json["run_id"] = report.run;
  json["exit_code"] = report.signal == 0 ? Json(report.exit_code) : Json(nullptr);
  json["signal"] = report.signal == 0 ? Json(nullptr) : Json(report.signal);
  json["timed_out"] = report.timed_out;
  json["truncated"] = report.truncated;
  json["out_of_memory"] = report.out_of_memory;
  if (report.sandbox_end) json["sandbox_end"] = proto::end_reason_name(*report.sandbox_end);
  json["duration_ms"] = report.duration_ms;
  json["stdout"] = report.out.text;
  json["stdout_bytes"] = report.out.bytes;
  json["stderr"] = report.err.text;
  json["stderr_bytes"] = report.err.bytes;
  return document(json);
}

std::string json_explanation(const Explanation& explanation) {
  Json json;
  json["outcome"] = explanation.outcome;
  json["reason"] = explanation.reason;
  json["rule"] = explanation.rule;
  json["inspect"] = explanation.inspect;
  json["audited"] = explanation.audited;
  json["suggestion"] = explanation.suggestion;
  json["note"] = explanation.note;
  json["secrets"] = explanation.secrets;
  json["personal_data"] = explanation.personal_data;
  json["ai_provider"] = explanation.ai_provider;
  return document(json);
}

std::string json_policy(std::string_view mode, bool recordable,
                        const std::vector<PolicyRow>& rows) {
  Json list = Json::array();
  for (const PolicyRow& row : rows)
    list.push_back({{"outcome", row.outcome},
                    {"host", row.host},
                    {"ports", row.ports},
                    {"method", row.method},
                    {"path", row.path},
                    {"rule", row.rule}});
  return document({{"mode", mode}, {"recordable", recordable}, {"rules", std::move(list)}});
}

std::string json_pending(const std::vector<PendingQuestion>& pending) {
  Json list = Json::array();
  for (const PendingQuestion& each : pending)
    list.push_back({{"id", each.id()},
                    {"sandbox", each.sandbox},
                    {"host", each.question.host},
                    {"port", each.question.port},
                    {"method", each.question.method},
                    {"path", each.question.path},
                    {"rule", each.question.rule},
                    {"waiting", each.question.waiting},
                    {"left_ms", each.question.left_ms}});
  return document(list);
}

std::string json_complaints(std::string_view file,
                            const std::vector<config::Complaint>& complaints) {
  Json list = Json::array();
  for (const auto& complaint : complaints)
    list.push_back(
        {{"line", complaint.line}, {"column", complaint.column}, {"message", complaint.message}});
  return document({{"file", file}, {"valid", complaints.empty()}, {"complaints", list}});
}

static Json json_routes(const std::vector<proto::NetworkRoute>& routes) {
  Json list = Json::array();
  for (const proto::NetworkRoute& route : routes) {
    Json rules = Json::array();
    for (const proto::NetworkRouteRule& rule : route.rules)
      rules.push_back({{"id", rule.id},
                       {"method", rule.method},
                       {"path", rule.path},
                       {"outcome", rule.outcome}});
    list.push_back({{"id", route.id},
                    {"host", route.host},
                    {"ports", route.ports},
                    {"rules", std::move(rules)},
                    {"otherwise", route.otherwise}});
  }
  return list;
}

static Json json_secrets(const std::map<std::string, proto::SecretRule>& secrets) {
  Json out = Json::object();
  for (const auto& [name, rule] : secrets)
    out[name] = {{"from", rule.from},           {"hosts", rule.hosts},
                 {"places", rule.places},       {"headers", rule.headers},
                 {"prefix", rule.prefix},       {"plaintext", rule.plaintext},
                 {"on_misuse", rule.on_misuse}, {"on_unreadable", rule.on_unreadable},
                 {"require", rule.require}};
  return out;
}

std::string json_settings(const config::Resolved& resolved) {
  Json json = Json::object();
  const auto keys = config::keys();
  for (size_t i = 0; i < keys.size(); ++i) {
    const config::Key& key = keys[i];
    Json value;
    std::visit(
        [&](auto member) {
          const auto& setting = resolved.settings.*member;
          if constexpr (requires { setting.has_value(); }) {
            if (setting) value = *setting;
          } else if constexpr (std::is_same_v<std::decay_t<decltype(setting)>,
                                              std::vector<proto::NetworkRoute>>) {
            value = json_routes(setting);
          } else if constexpr (std::is_same_v<std::decay_t<decltype(setting)>,
                                              std::map<std::string, proto::SecretRule>>) {
            value = json_secrets(setting);
          } else {
            value = setting;
          }
        },
        key.target);
    json[key.path()] = {{"value", std::move(value)}, {"from", resolved.origins.at(i)}};
  }
  return document(json);
}

std::string json_verified(const std::vector<Verified>& logs) {
  Json list = Json::array();
  bool fine = true;
  for (const auto& [log, name, verdict] : logs) {
    fine = fine && verdict.ok();
    Json one = {{"log", log}, {"ok", verdict.ok()}};
    if (!name.empty()) one["name"] = name;
    if (const auto& problem = verdict.problem)
      one["problem"] = {{"wrong", audit::wrong_word(problem->wrong)},
                        {"file", problem->file},
                        {"line", problem->line},
                        {"seq", problem->seq},
                        {"what", problem->what}};
    one["files"] = verdict.files;
    one["records"] = verdict.records;
    one["signatures"] = verdict.signatures;
    one["closed"] = verdict.closed;
    one["unsigned_records"] = verdict.unsigned_records;
    one["torn_bytes"] = verdict.torn_bytes;
    one["open_end_bytes"] = verdict.open_end;
    one["missed"] = verdict.missed;
    list.push_back(std::move(one));
  }
  return document({{"ok", fine}, {"logs", std::move(list)}});
}

std::string json_checks(const std::vector<Check>& checks) {
  Json list = Json::array();
  bool fine = true;
  for (const Check& check : checks) {
    fine = fine && check.level != Check::Level::Fail;
    Json one = {{"name", check.name}, {"level", level_name(check.level)}, {"detail", check.detail}};
    if (!check.way_out.empty()) one["way_out"] = check.way_out;
    list.push_back(std::move(one));
  }
  return document({{"ok", fine}, {"checks", std::move(list)}});
}

std::string json_version(std::string_view version) { return document({{"version", version}}); }

std::string json_copy(uint64_t entries, uint64_t bytes, uint64_t skipped) {
  return document({{"entries", entries}, {"bytes", bytes}, {"skipped", skipped}});
}

std::string json_number(std::string_view name, uint64_t value) {
  return document({{std::string(name), value}});
}

static Json file_object(const proto::FileStatus& status) {
  Json json;
  json["type"] = proto::file_type_name(status.type);
  json["size"] = status.size;
  json["allocated"] = status.allocated;
  json["mode"] = status.mode;
  json["uid"] = status.uid;
  json["gid"] = status.gid;
  json["inode"] = status.inode;
  json["links"] = status.links;
  json["mtime"] = status.mtime_seconds;
  json["mtime_ns"] = status.mtime_nanoseconds;
  if (status.type == proto::FileType::Symlink) json["target"] = status.target;
  return json;
}

std::string json_file(const proto::FileStatus& status) { return document(file_object(status)); }

std::string json_list_entry(const proto::ListEntry& entry) {
  Json json;
  json["name"] = entry.name;
  json.update(file_object(entry.status));
  std::string text = document(json);
  text.pop_back();
  return text;
}

std::string json_watch_event(const proto::WatchEvent& event) {
  Json json;
  json["event"] = proto::kWatchKinds.at(static_cast<size_t>(event.kind));
  if (!event.name.empty()) json["name"] = event.name;
  if (event.cookie > 0) json["cookie"] = event.cookie;
  return document(json);
}

std::string json_metrics(const proto::Metrics& metrics) {
  Json json;
  proto::visit_metrics(metrics, [&](const char* name, uint64_t value) { json[name] = value; });
  return document(json);
}

std::string json_pretty(std::string_view text) {
  return Json::parse(text).dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}
