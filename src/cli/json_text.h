#pragma once
// The JSON documents of the command line's own; those of sandboxes and images are the API's. One
// file knows how JSON is made. Each ends with a line break.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/config/manifest.h"
#include "mvm/proto/end.h"
#include "mvm/proto/files.h"
#include "mvm/proto/metrics.h"
#include "mvm/proto/policy.h"

#include "audit_logs.h"
#include "doctor.h"

namespace mvm::cli {

// One stream of a command's output: the beginning, up to a cap.
struct Captured {
  std::string text;
  uint64_t bytes = 0;  // all there were
};

struct ExecReport {
  std::optional<proto::EndReason> sandbox_end;  // it ended before the command did
  std::string sandbox;
  std::string sandbox_id;  // "" when not known
  std::string run;
  int exit_code = 0;
  int signal = 0;
  bool timed_out = false;
  bool truncated = false;
  bool out_of_memory = false;
  uint64_t duration_ms = 0;
  Captured out;
  Captured err;
};
std::string json_exec(const ExecReport& report);
std::string json_complaints(std::string_view file,
                            const std::vector<config::Complaint>& complaints);
std::string json_settings(const config::Resolved& resolved);
// What `mvm policy explain` found.
struct Explanation {
  std::string_view outcome;  // "allow", "deny", "ask"
  std::string_view reason;   // "policy_denied", …
  std::string rule;          // empty: none matched
  bool inspect = false;
  bool audited = false;    // let through by mode "audit"
  std::string suggestion;  // empty: no flag would admit it
  std::string note;        // which rule nearly would; may be empty
  // What its exchanges are looked into for.
  std::vector<std::string> secrets;        // names of those that are for this host
  std::vector<std::string> personal_data;  // what becomes of some: "tokenize", "deny"
  std::string ai_provider;                 // whose use is counted
};
std::string json_explanation(const Explanation& explanation);
// One rule of a sandbox's; what it does not speak of is empty.
struct PolicyRow {
  std::string outcome;
  std::string host;  // or a range
  std::string ports;
  std::string method;
  std::string path;
  std::string rule;  // its id
};
std::string json_policy(std::string_view mode, bool recordable, const std::vector<PolicyRow>& rows);
struct PendingQuestion {
  std::string sandbox;
  proto::Question question;
  std::string id() const { return sandbox + "/" + question.id; }
};
std::string json_pending(const std::vector<PendingQuestion>& pending);
std::string json_checks(const std::vector<Check>& checks);
std::string json_version(std::string_view version);
std::string json_copy(uint64_t entries, uint64_t bytes, uint64_t skipped);
std::string json_number(std::string_view name, uint64_t value);
std::string json_file(const proto::FileStatus& status);
std::string json_list_entry(const proto::ListEntry& entry);  // without the line break
std::string json_watch_event(const proto::WatchEvent& event);
std::string json_verified(const std::vector<Verified>& logs);
std::string json_metrics(const proto::Metrics& metrics);
// Documents of the API, indented for people.
std::string json_pretty(std::string_view document);

}
