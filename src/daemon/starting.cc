// How a sandbox starts: the steps that `create` and `start` are made of.
#include "mvm/registry/registry.h"

#include "impl.h"

namespace mvm::daemon {

// What came from a registry is named by its digest where that is wanted, however it came here.
static void require_pinned(const store::Paths& paths, store::Images& images,
                           const std::string& reference, const store::Image& image) {
  if (image.manifest.source_kind != registry::kSourceKind ||
      !registry::load_settings(paths.registries_file()).require_digest ||
      !images.is_name(reference))
    return;
  const store::Manifest& manifest = image.manifest;
  throw api::ApiError(
      Kind::Denied,
      "sandbox.image: " + printable(reference) +
          " must be named with its digest: require_digest is set in " + paths.registries_file(),
      "it is " + printable(reference.substr(0, reference.find('@'))) + "@" +
          (manifest.source_index.empty() ? manifest.source_digest : manifest.source_index));
}

Record Daemon::Impl::new_record(const api::SandboxSpec& spec, store::Image& image,
                                image::KernelBundle& kernel) {
  Record record;
  record.spec = spec;
  proto::wipe(record.spec.secret_values);
  if (spec.image.empty())
    throw api::ApiError(Kind::Invalid, "sandbox.image: which image is it to run?",
                        "mvm image ls lists them");
  store::Images images(options_.paths);
  image = images.get(spec.image);
  require_pinned(options_.paths, images, spec.image, image);
  // What was asked for, else what the image came with, else the host's default.
  const std::string& wanted = spec.kernel.empty() ? image.manifest.config.kernel : spec.kernel;
  kernel = image::resolve_kernel(
      options_.paths, wanted.empty() ? std::nullopt : std::optional<std::string_view>(wanted));
  if (record.spec.name.empty()) record.spec.name = random_name();
  complete_spec(record.spec, image);
  record.id = new_sandbox_id();
  record.image_digest = image.digest;
  record.kernel = kernel.name;
  record.created_at = rfc3339_now();
  return record;
}

// A file system is one machine's at a time. Asked when the record says Queued: of two that come at
// once at least one sees the other.
void Daemon::Impl::require_disk_alone(const EntryPtr& entry) {
  const Record record = snapshot(entry);
  if (!record.spec.kept_disk) return;
  for (const EntryPtr& other : entries()) {
    if (other == entry) continue;
    const Record user = snapshot(other);
    if (!user.spec.kept_disk || user.spec.kept_disk->name != record.spec.kept_disk->name ||
        !api::is_live(user.state))
      continue;
    throw api::ApiError(
        Kind::Conflict,
        "disk " + record.spec.kept_disk->name + " is in use by sandbox " + user.name(),
        "stop it first with: mvm down " + user.name());
  }
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
                                 const image::KernelBundle& kernel, std::unique_ptr<Spare> spare) {
  const std::lock_guard operation(entry->operation);
  if (usable(entry).state != SandboxState::Queued)
    throw Error(Kind::Conflict,
                "sandbox " + usable(entry).name() + " was stopped while it waited to start");
  launch(entry, image, kernel, std::move(spare));
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

Launch Daemon::Impl::launching() const {
  return {options_.paths,
          options_.sandbox_executable,
          options_.isolation,
          options_.cgroups,
          agent_,
          *audit_,
          monitor_};
}

// The caller holds the entry's operation lock.
void Daemon::Impl::launch(const EntryPtr& entry, const store::Image& image,
                          const image::KernelBundle& kernel, std::unique_ptr<Spare> spare) {
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
  const Launch parts = launching();
  proto::SecretValues values;
  const ScopeExit forget_values([&] { proto::wipe(values); });
  {
    const std::lock_guard lock(entry->mutex);
    values.swap(entry->secret_values);
  }
  HeldSandbox held = while_doing("starting sandbox " + record.name(), [&] {
    return hold_sandbox(parts, record, values, image, kernel, std::move(spare));
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
    // One that is soon gone has the machine to itself until then.
    if (!record.spec.ephemeral) spare_later(record);
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

}
