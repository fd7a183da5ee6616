// How a sandbox ends, whatever ends it, and what becomes of it then.
#include "impl.h"

namespace mvm::daemon {

static constexpr size_t kMaxDeparted = 64;
static constexpr milliseconds kRecordRetry{200};

bool Daemon::Impl::await_end(const EntryPtr& entry, milliseconds limit) {
  std::unique_lock lock(entry->mutex);
  return entry->changed.wait_for(
      lock, limit, [&] { return entry->removed || !api::is_live(entry->record.state); });
}

void Daemon::Impl::kill(const EntryPtr& entry, const std::string& why) {
  const std::lock_guard lock(entry->mutex);
  if (!entry->process) return;
  entry->verdict = why;
  sys::signal_process(entry->process.get(), SIGKILL);
}

// On the supervisor's thread.
void Daemon::Impl::on_end(const std::string& id, std::optional<sys::ExitStatus> status) {
  EntryPtr entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    entry = found->second;
  }
  try {
    const std::string process =
        "the sandbox process (process " + std::to_string(snapshot(entry).pid) + ")";
    conclude(entry, !status ? process +
                                  " is gone; how it ended is not known, for an earlier "
                                  "daemon had started it"
                    : status->signal == 0 ? process + " ended without a word: " + status->text()
                                          : process + " was " + status->text());
    const std::lock_guard lock(entry->mutex);
    entry->unrecorded.clear();
  } catch (const Error& error) {
    // The disk is full, perhaps. It stays live in the records until the end can be put down: who
    // asks meanwhile is told that it has not ended, which is better than a state that a restart
    // would take back.
    log_.error("recording an end failed, and is tried again",
               {{"id", id}, {"why", error.message()}});
    {
      const std::lock_guard lock(entry->mutex);
      entry->unrecorded = error.message();
    }
    supervisor_->after(id, kRecordRetry, [this, id, status] { on_end(id, status); });
  }
}

// Puts down how it ended: by the record that the sandbox process left, else `without_record`.
void Daemon::Impl::conclude(const EntryPtr& entry, const std::string& without_record) {
  const Record before = snapshot(entry);
  auto exit = read_exit_record(options_.paths.exit_file(before.id));
  std::string verdict;
  {
    const std::lock_guard lock(entry->mutex);
    entry->process.reset();
    verdict = entry->verdict;
  }
  if (!exit) {
    exit = ExitRecord{{proto::EndReason::Crashed, verdict.empty() ? without_record : verdict},
                      rfc3339_now()};
    // Only what never ran can have failed to start.
    if (before.state == SandboxState::Queued || before.state == SandboxState::Starting)
      exit->end.reason = proto::EndReason::StartFailed;
    if (before.state == SandboxState::Stopping) exit->end.reason = proto::EndReason::Killed;
  }
  log_.info("sandbox ended", {{"name", before.name()},
                              {"id", before.id},
                              {"reason", proto::end_reason_name(exit->end.reason)},
                              {"detail", exit->end.detail}});
  record_end(entry, before, exit->end.reason);
  options_.cgroups.remove(before.id);
  // While the name is still taken: afterwards the directory may be another sandbox's.
  sys::remove_tree(options_.paths.sandbox_runtime(before.name()));
  const auto ended = [&](Record& next) {
    next.state = api::state_after(exit->end.reason);
    next.end = exit->end;
    next.ended_at = exit->ended_at;
    next.pid = 0;
    next.monitor_pid = 0;
  };
  ScopeExit forget_verdict([&] {
    const std::lock_guard lock(entry->mutex);
    if (!api::is_live(entry->record.state)) entry->verdict.clear();
  });
  if (before.spec.ephemeral) {
    Record last = before;
    ended(last);
    {
      const std::lock_guard lock(mutex_);
      // What follows may fail, and be tried again.
      std::erase_if(departed_, [&](const Record& record) { return record.id == last.id; });
      departed_.push_back(std::move(last));
      if (departed_.size() > kMaxDeparted) departed_.pop_front();
    }
    forget(entry, ended);
    audit_->note(audit::SandboxRemoved{audit::LogId(before.id), audit::Name(before.name())});
    discard(before.id);
    spare_later(before);
  } else {
    transition(entry, ended);
    expire_later(snapshot(entry));
  }
}

// Once for each end, also when what follows has to be tried again.
void Daemon::Impl::record_end(const EntryPtr& entry, const Record& before,
                              proto::EndReason reason) {
  {
    const std::lock_guard lock(entry->mutex);
    if (entry->end_recorded) return;
  }
  audit_->record(audit::SandboxEnded{audit::LogId(before.id), audit::Name(before.name()), reason,
                                     audit_->seal(before.id)});
  const std::lock_guard lock(entry->mutex);
  entry->end_recorded = true;
}

std::optional<api::Sandbox> Daemon::Impl::departed(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  for (const Record& record : departed_)
    if (record.id == id) return shown(record);
  return std::nullopt;
}

// ---- retention

milliseconds retention_left(const Record& record) {
  const auto ended = from_rfc3339(record.ended_at);
  if (!ended) return milliseconds(0);
  const auto left =
      *ended + milliseconds(record.spec.limits.retention_ms) - std::chrono::system_clock::now();
  return std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0));
}

void Daemon::Impl::expire_later(const Record& record) {
  if (record.spec.limits.retention_ms == 0 || api::is_live(record.state)) return;
  supervisor_->after(record.id, retention_left(record), [this, id = record.id] { expire(id); });
}

// On the supervisor's thread, which waits for nobody: an operation that is under way decides first.
void Daemon::Impl::expire(const std::string& id) noexcept {
  try {
    const EntryPtr entry = find(id);
    const std::unique_lock operation(entry->operation, std::try_to_lock);
    if (!operation) return supervisor_->after(id, milliseconds(1'000), [this, id] { expire(id); });
    const Record record = snapshot(entry);
    if (entry->removed || api::is_live(record.state)) return;
    // It may have been started again and have ended since, or the clock was set.
    if (retention_left(record).count() > 0) return expire_later(record);
    log_.info("sandbox removed after its retention", {{"name", record.name()}, {"id", id}});
    erase(entry);
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound)
      log_.error("removing an ended sandbox failed", {{"id", id}, {"why", error.message()}});
  }
}

// The record goes before the data: a directory without a record is removed at the next start. The
// runtime directory goes while the name is still taken; afterwards it may be another sandbox's.
void Daemon::Impl::erase(const EntryPtr& entry) {
  const Record record = snapshot(entry);
  options_.cgroups.remove(record.id);
  sys::remove_tree(options_.paths.sandbox_runtime(record.name()));
  forget(entry);
  audit_->note(audit::SandboxRemoved{audit::LogId(record.id), audit::Name(record.name())});
  discard(record.id);
}

// The files of a sandbox without a record. What cannot be removed stays for the next start.
void Daemon::Impl::discard(const std::string& id) {
  try {
    sys::remove_tree(options_.paths.sandbox_data(id));
  } catch (const Error& error) {
    log_.error("removing files failed", {{"id", id}, {"why", error.message()}});
  }
}

// The caller holds the operation lock. Returns when it has ended.
void Daemon::Impl::stop_entry(const EntryPtr& entry, const api::StopRequest& request) {
  const Record record = snapshot(entry);
  if (!api::is_live(record.state)) return;
  if (record.state == SandboxState::Queued) {
    transition(entry, [](Record& next) {
      next.state = SandboxState::Stopped;
      next.end = api::End{proto::EndReason::Stopped, "it had not started yet"};
      next.ended_at = rfc3339_now();
    });
    return starts_.wake();
  }
  transition(entry, [](Record& next) {
    if (api::is_live(next.state)) next.state = SandboxState::Stopping;
  });
  proto::StopRequest ask;
  ask.kill = request.kill;
  ask.grace = milliseconds(std::min<uint64_t>(request.grace_ms, api::kMaxBootTimeoutMs));
  try {
    control(record).stop(ask, (ask.kill ? milliseconds(0) : ask.grace) + options_.margin);
  } catch (const Error& error) {
    if (!await_end(entry, milliseconds(0)))
      log_.warning("sandbox is killed", {{"name", record.name()}, {"why", error.message()}});
    kill(entry, error.message());
  }
  // It lingers for its clients to read their last words; ours is read.
  if (await_end(entry, options_.margin)) return;
  {
    const std::lock_guard lock(entry->mutex);
    if (!entry->unrecorded.empty())
      throw Error(Kind::Exhausted,
                  "sandbox " + record.name() +
                      " has ended, and that cannot be put down yet: " + entry->unrecorded);
  }
  kill(entry, "it did not end when asked");
  if (!await_end(entry, kKillLimit))
    throw Error(Kind::Timeout, "sandbox " + record.name() + " does not end, even when killed");
}

}
