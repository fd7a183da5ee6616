#pragma once
// The audit logs of this host, found and checked without the daemon: what its own log says of
// sandboxes tells which log is whose, and where each has to end.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/verify.h"
#include "mvm/store/paths.h"

namespace mvm::cli {

// "daemon", or the id of the sandbox that has this name or id; of several that had the name one
// after another, the last. Throws Error{NotFound}.
std::string find_audit_log(const store::Paths& paths, const std::optional<std::string>& name);

struct Verified {
  std::string log;
  std::string name;  // of the sandbox; may be empty
  audit::Verdict verdict;
};
// One log, or all of them, the daemon's first.
std::vector<Verified> verify_audit_logs(const store::Paths& paths,
                                        const std::optional<std::string>& name,
                                        const crypto::PublicKey& key);
// What `mvm audit export` wrote.
Verified verify_audit_file(const std::string& file, const crypto::PublicKey& key);

// A record for people, in one line with its line feed.
std::string shown_record(const audit::Line& line);
bool is_egress(const audit::Line& line);

}
