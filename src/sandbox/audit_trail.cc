#include "audit_trail.h"

#include <cstdio>

#include "mvm/jail/seccomp.h"

#include "syscalls.h"

namespace mvm::sandbox {

static audit::Session session_of(const std::string& id, proto::AuditConfig& config,
                                 sys::Fd directory, sys::Fd file) {
  audit::Session session{.directory = std::move(directory),
                         .file = std::move(file),
                         .log = audit::LogId(id),
                         .number = config.file,
                         .file_size = config.file_size,
                         .size = config.log_size,
                         .next = {config.seq, config.prev},
                         .key = crypto::SigningKey(config.key)};
  crypto::wipe(config.key);
  return session;
}

static audit::WriterOptions options_of(const proto::AuditConfig& config) {
  audit::WriterOptions options;
  options.sync = config.strict ? audit::Sync::Strict : audit::Sync::Normal;
  options.detail.paths = config.paths;
  return options;
}

AuditTrail::AuditTrail(loop::Loop& loop, const std::string& id, proto::AuditConfig& config,
                       sys::Fd directory, sys::Fd file, OnChange on_change)
    : loop_(&loop),
      directory_(directory.get()),
      on_change_(std::move(on_change)),
      writer_(session_of(id, config, std::move(directory), std::move(file)), options_of(config),
              [this](const std::optional<audit::Failure>& failure) {
                std::fprintf(stderr, "mvm sandbox: %s\n",
                             failure ? failure->why.c_str() : "the audit log works again");
                loop_->post([this, failure] { changed(failure); });
              }) {}

void AuditTrail::start() {
  writer_.start([] { jail::confine_thread("mvm-audit", audit_syscalls()); });
}

bool AuditTrail::record(const audit::Event& event) {
  const audit::Outcome outcome = writer_.append(event);
  if (!outcome) why_ = outcome.error().why;
  return outcome.has_value();
}

bool AuditTrail::commit(audit::Writer::Of of) {
  const audit::Outcome outcome = writer_.commit(of);
  if (!outcome) why_ = outcome.error().why;
  return outcome.has_value();
}

void AuditTrail::record_end(const std::string& run,
                            const std::optional<proto::ExecResult>& result) {
  audit::ExecEnded ended{audit::RunId(run), {}, {}, result && result->timed_out};
  if (result && result->signal != 0)
    ended.signal = result->signal;
  else if (result)
    ended.exit_code = result->exit_code;
  note(ended);
}

void AuditTrail::changed(const std::optional<audit::Failure>& failure) {
  retry_.reset();
  if (failure) retry_later();
  on_change_(failure);
}

// Also where nothing comes that would be recorded: something may be waiting.
void AuditTrail::retry_later() {
  constexpr std::chrono::seconds kRetry{1};
  retry_ = loop_->after(kRetry, [this] {
    retry_later();
    writer_.retry();  // tells changed() when it works
  });
}

void AuditTrail::close() {
  const audit::Outcome outcome = writer_.close();
  if (!outcome) std::fprintf(stderr, "mvm sandbox: %s\n", outcome.error().why.c_str());
}

}
