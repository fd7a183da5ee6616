// The entries, and the steps that operations on them are made of.
#include "impl.h"

namespace mvm::daemon {

// From SIGKILL to the end; more means a process stuck in the kernel.
static constexpr milliseconds kKillLimit{10'000};
static constexpr size_t kMaxSandboxes = 1'000;
static constexpr size_t kMaxDeparted = 64;
static constexpr milliseconds kRecordRetry{200};

std::vector<EntryPtr> Daemon::Impl::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<EntryPtr> all;
  for (const auto& [id, entry] : by_id_) all.push_back(entry);
  return all;
}

Record Daemon::Impl::snapshot(const EntryPtr& entry) const {
  const std::lock_guard lock(entry->mutex);
  return entry->record;
}

[[noreturn]] static void refuse_unknown_name(const std::string& name) {
  throw api::ApiError(Kind::NotFound, "no sandbox is named " + printable(name),
                      "mvm ps --all lists them");
}

Record Daemon::Impl::usable(const EntryPtr& entry) const {
  const std::lock_guard lock(entry->mutex);
  if (entry->removed) refuse_unknown_name(entry->record.name());
  return entry->record;
}

EntryPtr Daemon::Impl::find(const std::string& name) const {
  {
    const std::lock_guard lock(mutex_);
    // Names and ids never change, so this reads no more than what the map's mutex guards.
    for (const auto& [id, entry] : by_id_)
      if (id == name || entry->record.name() == name) return entry;
  }
  refuse_unknown_name(name);
}

EntryPtr Daemon::Impl::insert(Record record) {
  auto entry = std::make_shared<Entry>();
  entry->record = std::move(record);
  {
    const std::lock_guard lock(mutex_);
    if (by_id_.size() >= kMaxSandboxes)
      throw api::ApiError(Kind::Exhausted,
                          "there are " + std::to_string(kMaxSandboxes) + " sandboxes already",
                          "remove some with: mvm rm NAME");
    for (const auto& [id, other] : by_id_)
      if (other->record.name() == entry->record.name()) refuse_taken_name(other->record.name());
    by_id_[entry->record.id] = entry;
  }
  ScopeExit undo([&] {
    const std::lock_guard lock(mutex_);
    by_id_.erase(entry->record.id);
  });
  records_->insert(entry->record);
  undo.release();
  return entry;
}

// Removes the record; whoever holds the entry still sees `last_change` in it.
void Daemon::Impl::forget(const EntryPtr& entry, const Change& last_change) {
  std::string id;
  {
    const std::lock_guard lock(entry->mutex);
    id = entry->record.id;
    records_->remove(id);
    if (last_change) last_change(entry->record);
    entry->removed = true;
    entry->changed.notify_all();
  }
  const std::lock_guard lock(mutex_);
  by_id_.erase(id);
}

void Daemon::Impl::transition(const EntryPtr& entry, const Change& change) {
  const std::lock_guard lock(entry->mutex);
  if (entry->removed) return;
  Record next = entry->record;
  change(next);
  records_->update(next);
  // Only what may change: names and ids are read without this lock.
  Record& record = entry->record;
  record.state = next.state;
  record.pid = next.pid;
  record.process_start = next.process_start;
  record.monitor_pid = next.monitor_pid;
  record.started_at = next.started_at;
  record.ended_at = next.ended_at;
  record.end = next.end;
  record.spec.ports = next.spec.ports;
  entry->changed.notify_all();
}

static milliseconds retention_left(const Record& record) {
  const auto ended = from_rfc3339(record.ended_at);
  if (!ended) return milliseconds(0);
  const auto left =
      *ended + milliseconds(record.spec.limits.retention_ms) - std::chrono::system_clock::now();
  return std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0));
}

api::Sandbox Daemon::Impl::shown(const Record& record) const {
  api::Sandbox out;
  out.id = record.id;
  out.name = record.name();
  out.state = record.state;
  out.image = record.spec.image;
  out.image_digest = record.image_digest;
  out.kernel = record.kernel;
  out.cpus = record.spec.cpus;
  out.memory = record.spec.memory;
  out.disk = record.spec.disk;
  out.disk_bandwidth = record.spec.disk_bandwidth;
  out.disk_iops = record.spec.disk_iops;
  out.created_at = record.created_at;
  out.started_at = record.started_at;
  out.ended_at = record.ended_at;
  out.end = record.end;
  if (api::is_live(record.state)) {
    out.sandbox_pid = record.pid;
    out.monitor_pid = record.monitor_pid;
  }
  out.labels = record.spec.labels;
  out.ephemeral = record.spec.ephemeral;
  out.profile = record.spec.profile;
  out.limits = record.spec.limits;
  out.network = record.spec.network;
  out.ports = record.spec.ports;
  out.secrets = record.spec.secrets;
  if (out.limits.retention_ms != 0 && !api::is_live(record.state))
    out.retention_left_ms = static_cast<uint64_t>(retention_left(record).count());
  out.control_socket = options_.paths.control_socket(record.name());
  out.console_log = options_.paths.console_log(record.id);
  return out;
}

std::vector<std::string> Daemon::Impl::users_of(const std::string& digest) const {
  std::vector<std::string> names;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (record.image_digest == digest) names.push_back(record.name());
  }
  return names;
}

// ---- steps

Record Daemon::Impl::new_record(const api::SandboxSpec& spec, store::Image& image,
                                image::KernelBundle& kernel) {
  Record record;
  record.spec = spec;
  proto::wipe(record.spec.secret_values);
  if (spec.image.empty())
    throw api::ApiError(Kind::Invalid, "sandbox.image: which image is it to run?",
                        "mvm image ls lists them");
  image = store::Images(options_.paths).get(spec.image);
  kernel = image::resolve_kernel(
      options_.paths,
      spec.kernel.empty() ? std::nullopt : std::optional<std::string_view>(spec.kernel));
  if (record.spec.name.empty()) record.spec.name = random_name();
  complete_spec(record.spec, image);
  record.id = crypto::random_id("sb-");
  record.image_digest = image.digest;
  record.kernel = kernel.name;
  record.created_at = rfc3339_now();
  return record;
}

size_t Daemon::Impl::starts_at_once() const {
  if (options_.starts_at_once != 0) return options_.starts_at_once;
  return std::max<size_t>(2, std::thread::hardware_concurrency());
}

// Its record says Queued. Throws when it was stopped meanwhile.
StartQueue::Turn Daemon::Impl::await_turn(const EntryPtr& entry) {
  return starts_.wait(milliseconds(api::kMaxQueueMs), [&] {
    const Record record = snapshot(entry);
    if (record.state != SandboxState::Queued)
      throw Error(Kind::Conflict,
                  "sandbox " + record.name() + " was stopped while it waited to start");
  });
}

void Daemon::Impl::launch_queued(const EntryPtr& entry, const store::Image& image,
                                 const image::KernelBundle& kernel) {
  const std::lock_guard operation(entry->operation);
  if (usable(entry).state != SandboxState::Queued)
    throw Error(Kind::Conflict,
                "sandbox " + usable(entry).name() + " was stopped while it waited to start");
  launch(entry, image, kernel);
}

// Nothing ran, so nothing is kept. (After the launch the console output may be wanted.)
void Daemon::Impl::undo_creation(const EntryPtr& entry) noexcept {
  try {
    const std::lock_guard operation(entry->operation);
    if (entry->removed) return;  // by somebody else; its name may be another's by now
    kill(entry, "its start failed");
    erase(entry);
  } catch (const Error& error) {
    log_.error("undoing a failed start failed", {{"why", error.message()}});
  }
}

void Daemon::Impl::undo_queueing(const EntryPtr& entry) noexcept {
  try {
    const std::lock_guard operation(entry->operation);
    const Record record = snapshot(entry);
    if (entry->removed || record.state != SandboxState::Queued) return;
    sys::remove_tree(options_.paths.sandbox_runtime(record.name()));
    transition(entry, [](Record& next) {
      next.state = next.end ? api::state_after(next.end->reason) : SandboxState::Stopped;
    });
  } catch (const Error& error) {
    log_.error("undoing a failed start failed", {{"why", error.message()}});
  }
}

// After the launch: until it is ready, here or beside the caller. The turn lasts as long.
api::Sandbox Daemon::Impl::finish_start(const EntryPtr& entry, StartQueue::Turn turn, bool wait,
                                        uint64_t boot_timeout_ms) {
  const auto limit = milliseconds(boot_timeout_ms) + options_.margin;
  if (wait) {
    await_ready(entry, limit);
  } else {
    await_ready_aside(entry, limit, std::move(turn));
  }
  const Record record = snapshot(entry);
  api::Sandbox out = shown(record);
  if (wait) add_status(out, record);
  return out;
}

void Daemon::Impl::keep_values(const EntryPtr& entry, const proto::SecretValues& values) {
  const std::lock_guard lock(entry->mutex);
  check_secret_values(entry->record.spec.secrets, values);
  proto::wipe(entry->secret_values);
  entry->secret_values = values;
}

// The caller holds the entry's operation lock.
void Daemon::Impl::launch(const EntryPtr& entry, const store::Image& image,
                          const image::KernelBundle& kernel) {
  Record record = snapshot(entry);
  if (record.environment_lost)
    throw api::ApiError(Kind::Invalid,
                        "the environment of sandbox " + record.name() +
                            " cannot be opened: " + options_.paths.state_db() +
                            ".key is not the key that it was sealed with",
                        "restore that file, or make the sandbox anew: mvm rm " + record.name());
  // Before anything is started: what is taken is taken.
  const std::vector<sys::Fd> listeners = while_doing("starting sandbox " + record.name(),
                                                     [&] { return listen_on(record.spec.ports); });
  const Launch parts{options_.paths,
                     options_.sandbox_executable,
                     options_.isolation,
                     options_.cgroups,
                     agent_,
                     *audit_,
                     monitor_};
  proto::SecretValues values;
  const ScopeExit forget_values([&] { proto::wipe(values); });
  {
    const std::lock_guard lock(entry->mutex);
    values.swap(entry->secret_values);
  }
  HeldSandbox held = while_doing("starting sandbox " + record.name(), [&] {
    return hold_sandbox(parts, record, values, image, kernel);
  });
  const pid_t pid = held.child().pid();
  const auto process_start = sys::process_start_time(pid);
  auto process = sys::open_process(pid);
  if (!process_start || !process) throw Error(Kind::Internal, "the sandbox process ended at once");
  audit_->record(audit::SandboxStarted{audit::LogId(record.id), audit::Name(record.name())});
  record_ports(record, record.spec.ports);
  transition(entry, [&](Record& next) {
    next.state = SandboxState::Starting;
    next.pid = pid;
    next.process_start = *process_start;
    next.monitor_pid = 0;
    next.started_at = rfc3339_now();
    next.ended_at.clear();
    next.end.reset();
    next.spec.ports = record.spec.ports;  // with the numbers of those that were to be chosen
  });
  {
    const std::lock_guard lock(entry->mutex);
    entry->process = std::move(*process);
    entry->end_recorded = false;
  }
  // Before it runs: whatever becomes of it from here on is seen, also that it cannot be spoken to.
  supervisor_->watch(record.id, held.take());
  try {
    while_doing("starting sandbox " + record.name(), [&] {
      held.release();
      if (listeners.empty()) return;
      try {
        hand_over(record, record.spec.ports, listeners);
      } catch (const Error& error) {
        // One that ends while it starts says why, to who waits until it is ready.
        if (error.kind() != Kind::Unavailable) throw;
      }
    });
  } catch (const Error& error) {
    // It waits for a word that does not come. Whoever is told of the failure finds it ended.
    kill(entry, error.message());
    await_end(entry, kKillLimit);
    throw;
  }
  log_.info("sandbox started", {{"name", record.name()}, {"id", record.id}, {"pid", int64_t{pid}}});
}

// Until the guest's agent serves. When it does not, the sandbox has ended on return, by throw.
void Daemon::Impl::await_ready(const EntryPtr& entry, milliseconds limit) {
  const Record record = snapshot(entry);
  try {
    control(record).ready(limit);
    // The sandbox process is in a pid namespace of its own: numbers are for the kernel to tell.
    auto monitor = sys::first_child_of(static_cast<pid_t>(record.pid));
    if (sys::process_start_time(static_cast<pid_t>(record.pid)) != record.process_start)
      monitor.reset();  // it has ended, and its number is somebody else's
    transition(entry, [&](Record& next) {
      if (next.state == SandboxState::Starting) next.state = SandboxState::Running;
      if (api::is_live(next.state)) next.monitor_pid = monitor.value_or(0);
    });
    return;
  } catch (const Error& error) {
    // A daemon that goes leaves the sandbox to its successor.
    pollfd stopping{stopping_.get(), POLLIN, 0};
    if (::poll(&stopping, 1, 0) > 0) throw;
    // The process may be on its way out with a better reason than ours.
    if (error.kind() == Kind::Timeout || !await_end(entry, options_.margin)) {
      kill(entry, error.message());
      await_end(entry, kKillLimit);
    }
    const Record after = snapshot(entry);
    const std::string why =
        after.end && !after.end->detail.empty() ? after.end->detail : error.message();
    if (after.end && after.end->reason == proto::EndReason::Stopped)
      throw Error(Kind::Conflict, "sandbox " + record.name() + " was stopped while it started");
    throw api::ApiError(
        error.kind() == Kind::Timeout ? Kind::Timeout : Kind::Unavailable,
        "sandbox " + record.name() + " did not start: " + why,
        record.spec.ephemeral ? "" : "its console output: mvm logs " + record.name());
  }
}

// The same, beside the caller. Its outcome is in the record.
void Daemon::Impl::await_ready_aside(const EntryPtr& entry, milliseconds limit,
                                     StartQueue::Turn turn) {
  const std::lock_guard lock(mutex_);
  for (auto aside = asides_.begin(); aside != asides_.end();) {
    if (!aside->done) {
      ++aside;
      continue;
    }
    aside->thread.join();
    aside = asides_.erase(aside);
  }
  Aside& aside = asides_.emplace_back();
  try {
    aside.thread = std::thread([this, entry, limit, &aside, turn = std::move(turn)]() mutable {
      try {
        await_ready(entry, limit);
      } catch (const Error& error) {
        log_.warning("sandbox did not start", {{"why", error.message()}});
      }
      turn = {};
      aside.done = true;
    });
  } catch (...) {
    asides_.pop_back();
    throw;
  }
}

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
  } catch (const Error& error) {
    // The disk is full, perhaps. It stays live in the records until the end can be put down: who
    // asks meanwhile is told that it has not ended, which is better than a state that a restart
    // would take back.
    log_.error("recording an end failed, and is tried again",
               {{"id", id}, {"why", error.message()}});
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
      departed_.push_back(std::move(last));
      if (departed_.size() > kMaxDeparted) departed_.pop_front();
    }
    forget(entry, ended);
    audit_->note(audit::SandboxRemoved{audit::LogId(before.id), audit::Name(before.name())});
    discard(before.id);
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
  kill(entry, "it did not end when asked");
  if (!await_end(entry, kKillLimit))
    throw Error(Kind::Timeout, "sandbox " + record.name() + " does not end, even when killed");
}

}
