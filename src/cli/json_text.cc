#include "json_text.h"

#include <nlohmann/json.hpp>

namespace mvm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string document(const Json& json) {
  // A command's output need not be UTF-8; JSON must be.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}

std::string json_exec(const ExecReport& report) {
  Json json;
  json["sandbox"] = report.sandbox;
  if (!report.sandbox_id.empty()) json["sandbox_id"] = report.sandbox_id;
  json["exit_code"] = report.signal == 0 ? Json(report.exit_code) : Json(nullptr);
  json["signal"] = report.signal == 0 ? Json(nullptr) : Json(report.signal);
  json["timed_out"] = report.timed_out;
  json["truncated"] = report.truncated;
  json["duration_ms"] = report.duration_ms;
  json["stdout"] = report.out.text;
  json["stdout_bytes"] = report.out.bytes;
  json["stderr"] = report.err.text;
  json["stderr_bytes"] = report.err.bytes;
  return document(json);
}

std::string json_complaints(std::string_view file,
                            const std::vector<config::Complaint>& complaints) {
  Json list = Json::array();
  for (const auto& complaint : complaints)
    list.push_back(
        {{"line", complaint.line}, {"column", complaint.column}, {"message", complaint.message}});
  return document({{"file", file}, {"valid", complaints.empty()}, {"complaints", list}});
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
          } else {
            value = setting;
          }
        },
        key.target);
    json[key.path()] = {{"value", std::move(value)}, {"from", resolved.origins.at(i)}};
  }
  return document(json);
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

std::string json_pretty(std::string_view text) {
  return Json::parse(text).dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}
