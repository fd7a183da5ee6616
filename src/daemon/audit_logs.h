#pragma once
// The audit logs below data/audit/: the daemon's own, which tells of the lives of sandboxes and
// images, and one for each sandbox, which its own process writes and which outlives it by
// kAuditRetention. This process alone has the key that vouches for all of them.

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "mvm/audit/writer.h"
#include "mvm/daemon/daemon.h"
#include "mvm/obs/log.h"
#include "mvm/store/paths.h"

namespace mvm::daemon {

// How long the log of a removed sandbox is kept after its last record.
inline constexpr std::chrono::hours kAuditRetention{30 * 24};

// Safe from any thread.
class AuditLogs {
 public:
  // Makes the key, with the first daemon that there is, and opens the daemon's log. Throws Error.
  AuditLogs(const store::Paths& paths, const AuditSettings& settings, const obs::Log& log);
  ~AuditLogs();  // closes the daemon's log

  // In the daemon's log. Throws Error{Exhausted}: what cannot be recorded is not done.
  void record(const audit::Event& event);
  // For what has happened and cannot be refused: it waits for a log that cannot be written, as
  // Writer::note() says.
  void note(const audit::Event& event) noexcept;

  const AuditSettings& settings() const { return settings_; }
  // A new file in a sandbox's log, for its process to write.
  audit::Session open(const std::string& id);
  // When that process is gone: where its log ends. Closes it where it could not do so itself.
  // Nothing when there is none, or when it cannot be told; the reason is then logged.
  std::optional<audit::Head> seal(const std::string& id) noexcept;
  // Removes the logs that have been kept for their time; `sandboxes` still need theirs.
  void expire(const std::set<std::string>& sandboxes) noexcept;

 private:
  void expire_log(const std::string& id);

  const store::Paths& paths_;
  AuditSettings settings_;
  const obs::Log& log_;
  crypto::SigningKey authority_;
  std::unique_ptr<audit::Writer> writer_;
};

}
