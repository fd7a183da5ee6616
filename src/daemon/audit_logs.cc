#include "audit_logs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::daemon {

AuditLogs::AuditLogs(const store::Paths& paths, const AuditSettings& settings, const obs::Log& log)
    : paths_(paths),
      settings_(settings),
      log_(log),
      authority_(audit::authority_key(paths.audit_dir())) {
  const std::string directory = paths_.audit_log(audit::kDaemonLog);
  store::ensure_private_directory(directory);
  // Its own records are signed by the key that vouches for the others.
  audit::Session session = audit::open_log(directory, audit::LogId(audit::kDaemonLog), authority_,
                                           crypto::SigningKey(authority_.seed()));
  audit::WriterOptions options;
  options.sync = settings.strict ? audit::Sync::Strict : audit::Sync::Normal;
  // The disk is its limit: no guest makes it longer.
  options.max_log = UINT64_MAX / 2;
  // Its events are few, and each is asked for by somebody: every one is a try.
  options.retry = std::chrono::milliseconds(0);
  writer_ = std::make_unique<audit::Writer>(
      std::move(session), options, [this](const std::optional<audit::Failure>& failure) {
        if (failure)
          log_.error("the audit log cannot be written", {{"why", failure->why}});
        else
          log_.info("the audit log can be written again");
      });
  writer_->start();
}

AuditLogs::~AuditLogs() {
  const audit::Outcome outcome = writer_->close();
  if (!outcome) log_.error("the audit log was not closed", {{"why", outcome.error().why}});
}

void AuditLogs::record(const audit::Event& event) {
  const audit::Outcome outcome = writer_->append(event);
  if (!outcome)
    throw Error(Kind::Exhausted, outcome.error().why + " (" + paths_.audit_dir() +
                                     "); nothing is done that cannot be recorded");
}

void AuditLogs::note(const audit::Event& event) noexcept {
  if (!writer_->note(event)) log_.error("an event is not in the audit log yet");
}

audit::Session AuditLogs::open(const std::string& id) {
  const std::string directory = paths_.audit_log(id);
  store::ensure_private_directory(directory);
  return audit::open_log(directory, audit::LogId(id), authority_, crypto::SigningKey::generate());
}

std::optional<audit::Head> AuditLogs::seal(const std::string& id) noexcept {
  try {
    return audit::seal(paths_.audit_log(id), audit::LogId(id), authority_);
  } catch (const Error& error) {
    log_.error("closing an audit log failed", {{"id", id}, {"why", error.message()}});
    return std::nullopt;
  }
}

static std::chrono::system_clock::time_point last_written(const std::string& directory) {
  const auto numbers = audit::file_numbers(directory);
  const std::string path =
      numbers.empty() ? directory : directory + "/" + audit::file_name(numbers.back());
  const sys::Fd file = sys::open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  sys::check(::fstat(file.get(), &status), "reading status of " + path);
  return std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec);
}

void AuditLogs::expire_log(const std::string& id) {
  const std::string directory = paths_.audit_log(id);
  if (last_written(directory) + kAuditRetention > std::chrono::system_clock::now()) return;
  const audit::Head head = audit::find_end(directory).head;
  record(audit::LogExpired{audit::LogId(id), head.seq == 0 ? std::nullopt : std::optional(head)});
  sys::remove_tree(directory);
  log_.info("audit log removed after its retention", {{"id", id}});
}

void AuditLogs::expire(const std::set<std::string>& sandboxes) noexcept {
  try {
    for (const std::string& id : sys::list_directory(paths_.audit_dir())) {
      // Beside the logs of sandboxes lie the daemon's own, and keys.
      if (!id.starts_with("sb-") || sandboxes.contains(id)) continue;
      expire_log(id);
    }
  } catch (const Error& error) {
    log_.warning("an audit log was not removed", {{"why", error.message()}});
  }
}

}
