// The daemon's own life: what it takes, restores and adopts at its start, and how it ends.
#include <set>

#include "impl.h"

namespace mvm::daemon {

static bool is_empty(const std::string& path) {
  const auto file = sys::open_if_exists(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  return !file || sys::file_size(file->get()) == 0;
}

Daemon::Impl::Impl(DaemonOptions options) : options_(std::move(options)) {
  const store::Paths& paths = options_.paths;
  paths.ensure_runtime();
  paths.ensure_data();
  auto lock = sys::try_lock_file(paths.daemon_lock());
  if (!lock)
    throw Error(Kind::Conflict, "another mvm daemon is running for " + paths.runtime() +
                                    " (it holds " + paths.daemon_lock() + ")");
  lock_ = std::move(*lock);
  records_lost_ = is_empty(paths.state_db());
  records_ = std::make_unique<Records>(paths.state_db());
  audit_ = std::make_unique<AuditLogs>(options_.paths, options_.audit, log_);
  audit_->record(audit::DaemonStarted{});
  supervisor_ = std::make_unique<Supervisor>(
      [this](const std::string& id, std::optional<sys::ExitStatus> status) { on_end(id, status); });
  restore();
  expire_audit_logs();

  api::ServerOptions serving;
  // Starts that wait for their turn hold one each.
  serving.connections = 256;
  serving.on_request = [this](std::string_view method, std::string_view route, unsigned status,
                              milliseconds took) {
    log_.debug("request", {{"method", method},
                           {"route", route},
                           {"status", uint64_t{status}},
                           {"took_ms", static_cast<int64_t>(took.count())}});
  };
  server_ = std::make_unique<api::Server>(*this, sys::listen_unix(paths.daemon_socket()), serving);
  if (!options_.metrics_listen.empty())
    metrics_server_ = std::make_unique<api::MetricsServer>(options_.metrics_listen,
                                                           [this] { return metrics(false); });
  log_.info("daemon started", {{"version", options_.version},
                               {"pid", int64_t{::getpid()}},
                               {"sandboxes", static_cast<uint64_t>(entries().size())}});
}

Daemon::Impl::~Impl() {
  stop();
  metrics_server_.reset();
  server_.reset();  // waits for requests under way, which the stop has woken
  for (Aside& aside : asides_) aside.thread.join();
  supervisor_->stop();
  end_spare(take_spare());
}

void Daemon::Impl::run() {
  server_->run(options_.idle, [this] {
    for (const EntryPtr& entry : entries())
      if (api::is_live(snapshot(entry).state)) return true;
    return false;
  });
  // New clients start a new daemon from here on; whoever is connected is told by the closing.
  sys::remove_file(options_.paths.daemon_socket());
  log_.info("daemon ends");
}

void Daemon::Impl::stop() noexcept {
  sys::signal_event(stopping_.get());
  if (server_) server_->stop();
}

void Daemon::Impl::expire_audit_logs() {
  constexpr std::chrono::hours kInterval{1};
  std::set<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : by_id_) ids.insert(id);
  }
  audit_->expire(ids);
  supervisor_->after("audit", kInterval, [this] { expire_audit_logs(); });
}

void Daemon::Impl::restore() {
  store::Images images(options_.paths);
  if (images.check_index()) repaired("made the index of images anew");
  const size_t unfinished = images.remove_unfinished();
  if (unfinished != 0) repaired("removed " + std::to_string(unfinished) + " unfinished image(s)");
  for (Record& record : records_->load()) {
    auto entry = std::make_shared<Entry>();
    const std::string id = record.id;
    entry->record = std::move(record);
    by_id_[id] = entry;
  }
  // Before the supervisor has anything to do: what it removes is no orphan.
  remove_orphans();
  remove_temporary_files();
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (api::is_live(record.state) && adopt(entry)) continue;
    if (api::is_live(record.state)) {
      restore_end(entry);
    } else if (record.spec.ephemeral) {
      repaired("removed sandbox " + record.name() + ", which had ended");
      erase(entry);
    } else {
      expire_later(record);
    }
  }
  if (!repairs_.empty()) records_->keep_repair({rfc3339_now(), std::exchange(repairs_, {})});
}

// A sandbox that ran, or was to, when the last daemon ended, and has no process now.
void Daemon::Impl::restore_end(const EntryPtr& entry) {
  const Record record = snapshot(entry);
  if (record.pid == 0 && record.started_at.empty()) {
    // Whoever asked for it has got no answer, and asks again.
    repaired("removed sandbox " + record.name() + ", which had not started yet");
    return erase(entry);
  }
  conclude(entry, record.pid == 0 ? "the daemon ended while it was starting"
                                  : "the sandbox process (process " + std::to_string(record.pid) +
                                        ") was gone when the daemon came back; it left no word");
  const Record after = snapshot(entry);
  repaired("sandbox " + record.name() + " had ended: " +
           std::string(after.end ? proto::end_reason_name(after.end->reason) : "unknown") +
           (after.end && !after.end->detail.empty() ? ", " + after.end->detail : ""));
}

void Daemon::Impl::repaired(std::string action) {
  constexpr size_t kMaxActions = 100;
  log_.warning("repaired", {{"what", action}});
  if (repairs_.size() < kMaxActions)
    repairs_.push_back(std::move(action));
  else
    repairs_.back() = "and more; the log has all of it";
}

// Takes over a sandbox whose process still runs.
bool Daemon::Impl::adopt(const EntryPtr& entry) {
  const Record record = snapshot(entry);
  if (record.pid == 0) return false;
  // Open first, compare then: what was compared cannot become another process afterwards.
  auto process = sys::open_process(static_cast<pid_t>(record.pid));
  if (!process) return false;
  const auto start = sys::process_start_time(static_cast<pid_t>(record.pid));
  if (!start || *start != record.process_start) return false;
  {
    const std::lock_guard lock(entry->mutex);
    entry->process = process->duplicate();
  }
  supervisor_->watch(record.id, std::move(*process));
  log_.info("sandbox adopted", {{"name", record.name()}, {"pid", record.pid}});
  restore_ports(record);
  if (record.state == SandboxState::Starting)
    await_ready_aside(entry, milliseconds(record.spec.boot_timeout_ms) + options_.margin, {});
  return true;
}

// The record went with state.db, and a disk is somebody's work: that is for its owner to remove.
void Daemon::Impl::keep_lost(const std::string& id) {
  const std::string folder = options_.paths.data() + "/sandboxes.lost";
  store::ensure_private_directory(folder);
  const std::string kept = crypto::random_id(folder + "/" + id + "-", 6);
  sys::rename_file(options_.paths.sandbox_data(id), kept);
  repaired("the record of " + printable(id, 80) + " is lost with " + options_.paths.state_db() +
           "; its disk is kept in " + printable(kept));
}

// Directories without a record: a daemon was killed between making or forgetting one and the other.
void Daemon::Impl::remove_orphans() {
  const store::Paths& paths = options_.paths;
  std::set<std::string> ids;
  std::set<std::string> names;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    ids.insert(record.id);
    names.insert(record.name());
  }
  options_.cgroups.remove_orphans(ids);
  for (const std::string& id : sys::list_directory(paths.sandboxes_dir())) {
    if (ids.contains(id)) continue;
    if (records_lost_ && sys::exists(paths.overlay_image(id))) {
      keep_lost(id);
      continue;
    }
    repaired("removed files of " + printable(id, 80) + ", which is no sandbox's");
    sys::remove_tree(paths.sandboxes_dir() + "/" + id);
  }
  for (const std::string& name : sys::list_directory(paths.sandboxes_runtime())) {
    if (names.contains(name)) continue;
    repaired("removed sockets of " + printable(name, 80) + ", which is no sandbox's");
    sys::remove_tree(paths.sandboxes_runtime() + "/" + name);
  }
}

// What was to be renamed into place when its maker was killed. Only the daemon writes here, and
// this one has just begun.
void Daemon::Impl::remove_temporary_files() {
  const store::Paths& paths = options_.paths;
  for (const std::string& folder :
       {paths.initramfs_dir(), paths.overlays_dir(), paths.kernels_dir(), paths.disks_dir()}) {
    for (const std::string& name : sys::list_directory(folder)) {
      if (name.find(".new-") == std::string::npos && !name.starts_with(".tmp-")) continue;
      repaired("removed the unfinished file " + folder + "/" + printable(name, 80));
      sys::remove_tree(folder + "/" + name);
    }
  }
}

// ---- the outside

Daemon::Daemon(DaemonOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }
void Daemon::stop() noexcept { impl_->stop(); }

}
