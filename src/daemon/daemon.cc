// The daemon's Service.
//
// A sandbox is an Entry: its record, under the entry's own mutex, and an operation lock that lets
// one start, stop or removal of it run at a time. The map of entries has a mutex of its own, which
// is never held during I/O. A record is changed by transition() alone, which writes it to the
// database before anybody can see it; so what an answer said is still true after kill -9.
//
// How a sandbox ends is decided in one place, on_end(): the supervisor calls it when the process is
// gone, whoever made it go.
#include "mvm/daemon/daemon.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <list>
#include <map>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/api/server.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/random.h"
#include "mvm/image/import.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "clock.h"
#include "control.h"
#include "launch.h"
#include "records.h"
#include "supervisor.h"

namespace mvm::daemon {

using api::SandboxState;
using std::chrono::milliseconds;

// What a sandbox process may take on top of the time it was given, before it is killed.
static constexpr milliseconds kStopMargin{5'000};
// From SIGKILL to the end; more means a process stuck in the kernel.
static constexpr milliseconds kKillLimit{10'000};
static constexpr milliseconds kBootMargin{5'000};
static constexpr size_t kMaxSandboxes = 1'000;
static constexpr size_t kLogPiece = 64 * 1024;
static constexpr int kNameTries = 20;

namespace {

struct Entry {
  std::mutex operation;  // start, stop, remove: one at a time
  std::mutex mutex;      // guards the rest
  std::condition_variable changed;
  Record record;
  bool removed = false;
  // A second descriptor of the process, while it is live.
  sys::Fd process;
};
using EntryPtr = std::shared_ptr<Entry>;

}

class Daemon::Impl final : public api::Service {
 public:
  explicit Impl(DaemonOptions options);
  ~Impl() override;
  void run();
  void stop() noexcept;

  api::Version version() override;
  std::vector<api::Sandbox> sandboxes(bool all) override;
  api::Sandbox create(const api::SandboxSpec& spec) override;
  api::Sandbox sandbox(const std::string& name) override;
  api::Sandbox stop(const std::string& name, const api::StopRequest& request) override;
  api::Sandbox start(const std::string& name, const api::StartRequest& request) override;
  void remove(const std::string& name, bool force) override;
  void logs(const std::string& name, bool follow, const api::ByteSink& sink) override;
  std::vector<api::Image> images() override;
  api::Image image(const std::string& reference) override;
  api::Image import_image(const api::ImportRequest& request,
                          const api::ProgressSink& progress) override;
  void remove_image(const std::string& reference, bool force) override;
  std::vector<api::Kernel> kernels() override;
  void stop_daemon() override { stop(); }

 private:
  // Start of the daemon.
  void restore();
  bool adopt(const EntryPtr& entry);
  void remove_orphans();

  // Entries.
  std::vector<EntryPtr> entries() const;
  EntryPtr find(const std::string& name) const;  // throws NotFound
  EntryPtr insert(Record record);                // throws Conflict
  void forget(const EntryPtr& entry, const std::function<void(Record&)>& last_change = {});
  Record snapshot(const EntryPtr& entry) const;
  // The same, for an operation that waited for its turn: throws NotFound when it was removed.
  Record usable(const EntryPtr& entry) const;
  template <typename Change>
  void transition(const EntryPtr& entry, Change change);
  api::Sandbox shown(const Record& record) const;
  std::vector<std::string> users_of(const std::string& digest) const;

  // Steps of an operation.
  Record new_record(const api::SandboxSpec& spec, store::Image& image, image::KernelBundle& kernel);
  void launch(const EntryPtr& entry, const store::Image& image, const image::KernelBundle& kernel);
  void await_ready(const EntryPtr& entry, milliseconds limit);
  void await_ready_aside(const EntryPtr& entry, milliseconds limit);
  bool await_end(const EntryPtr& entry, milliseconds limit);
  void kill(const EntryPtr& entry);
  void stop_entry(const EntryPtr& entry, const api::StopRequest& request);
  void erase(const EntryPtr& entry);
  void on_end(const std::string& id, std::optional<sys::ExitStatus> status);
  void conclude(const EntryPtr& entry, const std::string& without_record);
  SandboxControl control(const Record& record) const {
    return {options_.paths.control_socket(record.name()), stopping_.get()};
  }
  api::Image shown(const store::Image& image) const;

  DaemonOptions options_;
  const obs::Log& log_ = options_.log;
  sys::Fd lock_;
  sys::Fd stopping_ = sys::event_fd();  // stays readable once signalled
  std::string started_at_ = rfc3339_now();
  std::unique_ptr<Records> records_;
  mutable std::mutex mutex_;  // guards the map and the threads; never held during I/O
  std::map<std::string, EntryPtr> by_id_;
  struct Aside {
    std::thread thread;
    std::atomic<bool> done = false;
  };
  std::list<Aside> asides_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<api::Server> server_;
};

// ---- start and end of the daemon
// ------------------------------------------------------------------

Daemon::Impl::Impl(DaemonOptions options) : options_(std::move(options)) {
  const store::Paths& paths = options_.paths;
  paths.ensure_runtime();
  paths.ensure_data();
  auto lock = sys::try_lock_file(paths.daemon_lock());
  if (!lock)
    throw Error(Kind::Conflict, "another mvm daemon is running for " + paths.runtime() +
                                    " (it holds " + paths.daemon_lock() + ")");
  lock_ = std::move(*lock);
  records_ = std::make_unique<Records>(paths.state_db());
  supervisor_ = std::make_unique<Supervisor>(
      [this](const std::string& id, std::optional<sys::ExitStatus> status) { on_end(id, status); });
  restore();

  api::ServerOptions serving;
  serving.on_request = [this](std::string_view method, std::string_view route, unsigned status,
                              milliseconds took) {
    log_.debug("request", {{"method", method},
                           {"route", route},
                           {"status", uint64_t{status}},
                           {"took_ms", static_cast<int64_t>(took.count())}});
  };
  server_ = std::make_unique<api::Server>(*this, sys::listen_unix(paths.daemon_socket()), serving);
  log_.info("daemon started", {{"version", options_.version},
                               {"pid", int64_t{::getpid()}},
                               {"sandboxes", static_cast<uint64_t>(by_id_.size())}});
}

Daemon::Impl::~Impl() {
  stop();
  server_.reset();  // waits for requests under way, which the stop has woken
  for (Aside& aside : asides_) aside.thread.join();
  supervisor_.reset();
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

void Daemon::Impl::restore() {
  store::Images(options_.paths).remove_unfinished();
  for (Record& record : records_->load()) {
    auto entry = std::make_shared<Entry>();
    const std::string id = record.id;
    entry->record = std::move(record);
    by_id_[id] = entry;
  }
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (api::is_live(record.state) && adopt(entry)) continue;
    if (api::is_live(record.state)) {
      conclude(entry, record.pid == 0 ? "the daemon ended while it was starting"
                                      : "its process was gone when the daemon came back");
    } else if (record.spec.ephemeral) {
      erase(entry);
    }
  }
  remove_orphans();
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
  if (record.state == SandboxState::Starting)
    await_ready_aside(entry, milliseconds(record.spec.boot_timeout_ms) + kBootMargin);
  return true;
}

// Directories without a record: a daemon was killed between making or forgetting one and the other.
void Daemon::Impl::remove_orphans() {
  std::vector<std::string> names;
  for (const auto& [id, entry] : by_id_) names.push_back(snapshot(entry).name());
  const store::Paths& paths = options_.paths;
  for (const std::string& id : sys::list_directory(paths.sandboxes_dir())) {
    if (by_id_.contains(id)) continue;
    log_.warning("orphan removed", {{"sandbox", id}});
    sys::remove_tree(paths.sandboxes_dir() + "/" + id);
  }
  for (const std::string& name : sys::list_directory(paths.sandboxes_runtime()))
    if (std::find(names.begin(), names.end(), name) == names.end())
      sys::remove_tree(paths.sandboxes_runtime() + "/" + name);
}

// ---- entries
// --------------------------------------------------------------------------------------

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
void Daemon::Impl::forget(const EntryPtr& entry, const std::function<void(Record&)>& last_change) {
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

template <typename Change>
void Daemon::Impl::transition(const EntryPtr& entry, Change change) {
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
  entry->changed.notify_all();
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
// ----------------------------------------------------------------------------------------

Record Daemon::Impl::new_record(const api::SandboxSpec& spec, store::Image& image,
                                image::KernelBundle& kernel) {
  Record record;
  record.spec = spec;
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

// The caller holds the entry's operation lock.
void Daemon::Impl::launch(const EntryPtr& entry, const store::Image& image,
                          const image::KernelBundle& kernel) {
  const Record record = snapshot(entry);
  const Launch parts{options_.paths, options_.sandbox_executable, options_.agent};
  HeldSandbox held = while_doing("starting sandbox " + record.name(),
                                 [&] { return hold_sandbox(parts, record, image, kernel); });
  const pid_t pid = held.child().pid();
  const auto process_start = sys::process_start_time(pid);
  auto process = sys::open_process(pid);
  if (!process_start || !process) throw Error(Kind::Internal, "the sandbox process ended at once");
  transition(entry, [&](Record& next) {
    next.state = SandboxState::Starting;
    next.pid = pid;
    next.process_start = *process_start;
    next.monitor_pid = 0;
    next.started_at = rfc3339_now();
    next.ended_at.clear();
    next.end.reset();
  });
  {
    const std::lock_guard lock(entry->mutex);
    entry->process = std::move(*process);
  }
  held.release();
  supervisor_->watch(record.id, held.take());
  log_.info("sandbox started", {{"name", record.name()}, {"id", record.id}, {"pid", int64_t{pid}}});
}

// Until the guest's agent serves. When it does not, the sandbox has ended on return, by throw.
void Daemon::Impl::await_ready(const EntryPtr& entry, milliseconds limit) {
  const Record record = snapshot(entry);
  try {
    control(record).ready(limit);
    const auto status = control(record).status(kStopMargin);
    transition(entry, [&](Record& next) {
      if (next.state == SandboxState::Starting) next.state = SandboxState::Running;
      next.monitor_pid = status.monitor_pid;
    });
    return;
  } catch (const Error& error) {
    // A daemon that goes leaves the sandbox to its successor.
    pollfd stopping{stopping_.get(), POLLIN, 0};
    if (::poll(&stopping, 1, 0) > 0) throw;
    // The process may be on its way out with a better reason than ours.
    if (error.kind() == Kind::Timeout || !await_end(entry, kStopMargin)) {
      kill(entry);
      await_end(entry, kKillLimit);
    }
    const Record after = snapshot(entry);
    const std::string why =
        after.end && !after.end->detail.empty() ? after.end->detail : error.message();
    if (after.end && after.end->reason == "stopped")
      throw Error(Kind::Conflict, "sandbox " + record.name() + " was stopped while it started");
    throw api::ApiError(
        error.kind() == Kind::Timeout ? Kind::Timeout : Kind::Unavailable,
        "sandbox " + record.name() + " did not start: " + why,
        record.spec.ephemeral ? "" : "its console output: mvm logs " + record.name());
  }
}

// The same, beside the caller. Its outcome is in the record.
void Daemon::Impl::await_ready_aside(const EntryPtr& entry, milliseconds limit) {
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
    aside.thread = std::thread([this, entry, limit, &aside] {
      try {
        await_ready(entry, limit);
      } catch (const Error& error) {
        log_.warning("sandbox did not start", {{"why", error.message()}});
      }
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

void Daemon::Impl::kill(const EntryPtr& entry) {
  const std::lock_guard lock(entry->mutex);
  if (entry->process) sys::signal_process(entry->process.get(), SIGKILL);
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
    conclude(entry, "the sandbox process ended without a word" +
                        (status ? " (" + status->text() + ")" : std::string()));
  } catch (const Error& error) {
    log_.error("recording an end failed", {{"id", id}, {"why", error.message()}});
  }
}

// Puts down how it ended: by the record that the sandbox process left, else `without_record`.
void Daemon::Impl::conclude(const EntryPtr& entry, const std::string& without_record) {
  const Record before = snapshot(entry);
  auto exit = read_exit_record(options_.paths.exit_file(before.id));
  if (!exit) {
    exit = ExitRecord{{"crashed", without_record}, rfc3339_now()};
    // Only what never ran can have failed to start.
    if (before.state == SandboxState::Starting) exit->end.reason = "start_failed";
    if (before.state == SandboxState::Stopping) exit->end.reason = "killed";
  }
  log_.info("sandbox ended", {{"name", before.name()},
                              {"id", before.id},
                              {"reason", exit->end.reason},
                              {"detail", exit->end.detail}});
  {
    const std::lock_guard lock(entry->mutex);
    entry->process.reset();
  }
  // While the name is still taken: afterwards the directory may be another sandbox's.
  sys::remove_tree(options_.paths.sandbox_runtime(before.name()));
  const auto ended = [&](Record& next) {
    next.state = state_after(exit->end.reason);
    next.end = exit->end;
    next.ended_at = exit->ended_at;
    next.pid = 0;
    next.monitor_pid = 0;
  };
  if (before.spec.ephemeral) {
    forget(entry, ended);
    sys::remove_tree(options_.paths.sandbox_data(before.id));
  } else {
    transition(entry, ended);
  }
}

// The record goes before the data: a directory without a record is removed at the next start. The
// runtime directory goes while the name is still taken; afterwards it may be another sandbox's.
void Daemon::Impl::erase(const EntryPtr& entry) {
  const Record record = snapshot(entry);
  sys::remove_tree(options_.paths.sandbox_runtime(record.name()));
  forget(entry);
  sys::remove_tree(options_.paths.sandbox_data(record.id));
}

// The caller holds the operation lock. Returns when it has ended.
void Daemon::Impl::stop_entry(const EntryPtr& entry, const api::StopRequest& request) {
  const Record record = snapshot(entry);
  if (!api::is_live(record.state)) return;
  transition(entry, [](Record& next) {
    if (api::is_live(next.state)) next.state = SandboxState::Stopping;
  });
  proto::StopRequest ask;
  ask.kill = request.kill;
  ask.grace = milliseconds(std::min<uint64_t>(request.grace_ms, api::kMaxBootTimeoutMs));
  try {
    control(record).stop(ask, (ask.kill ? milliseconds(0) : ask.grace) + kStopMargin);
  } catch (const Error& error) {
    if (!await_end(entry, milliseconds(0)))
      log_.warning("sandbox is killed", {{"name", record.name()}, {"why", error.message()}});
    kill(entry);
  }
  // It lingers for its clients to read their last words; ours is read.
  if (await_end(entry, kStopMargin)) return;
  kill(entry);
  if (!await_end(entry, kKillLimit))
    throw Error(Kind::Timeout, "sandbox " + record.name() + " does not end, even when killed");
}

// ---- the API
// --------------------------------------------------------------------------------------

api::Version Daemon::Impl::version() {
  api::Version version;
  version.version = options_.version;
  version.pid = ::getpid();
  version.started_at = started_at_;
  version.runtime_dir = options_.paths.runtime();
  version.data_dir = options_.paths.data();
  for (const EntryPtr& entry : entries())
    version.sandboxes_live += api::is_live(snapshot(entry).state) ? 1 : 0;
  return version;
}

std::vector<api::Sandbox> Daemon::Impl::sandboxes(bool all) {
  std::vector<api::Sandbox> out;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (all || api::is_live(record.state)) out.push_back(shown(record));
  }
  std::sort(out.begin(), out.end(), [](const api::Sandbox& a, const api::Sandbox& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return out;
}

api::Sandbox Daemon::Impl::sandbox(const std::string& name) { return shown(snapshot(find(name))); }

api::Sandbox Daemon::Impl::create(const api::SandboxSpec& spec) {
  store::Image image;
  image::KernelBundle kernel;
  EntryPtr entry;
  for (int tries = 1; !entry; ++tries) {
    try {
      entry = insert(new_record(spec, image, kernel));
    } catch (const Error& error) {
      // Only a name that we chose is ours to choose again.
      if (error.kind() != Kind::Conflict || !spec.name.empty() || tries == kNameTries) throw;
    }
  }
  {
    const std::lock_guard operation(entry->operation);
    // Nothing ran, so nothing is kept. (After the launch the console output may be wanted.)
    ScopeExit undo([&] {
      try {
        kill(entry);
        erase(entry);
      } catch (const Error& error) {
        log_.error("undoing a failed start failed", {{"why", error.message()}});
      }
    });
    launch(entry, image, kernel);
    undo.release();
  }
  const auto limit = milliseconds(spec.boot_timeout_ms) + kBootMargin;
  if (spec.wait) {
    await_ready(entry, limit);
  } else {
    await_ready_aside(entry, limit);
  }
  return shown(snapshot(entry));
}

api::Sandbox Daemon::Impl::start(const std::string& name, const api::StartRequest& request) {
  const EntryPtr entry = find(name);
  if (request.boot_timeout_ms == 0 || request.boot_timeout_ms > api::kMaxBootTimeoutMs)
    throw Error(Kind::Invalid,
                "start.boot_timeout_ms: must be 1 to " + std::to_string(api::kMaxBootTimeoutMs));
  {
    const std::lock_guard operation(entry->operation);
    const Record record = usable(entry);
    if (api::is_live(record.state))
      throw Error(Kind::Conflict, "sandbox " + record.name() + " is " +
                                      std::string(api::state_name(record.state)) + " already");
    const store::Image image = store::Images(options_.paths).get(record.image_digest);
    const auto kernel = image::resolve_kernel(
        options_.paths, record.spec.kernel.empty() ? record.kernel : record.spec.kernel);
    launch(entry, image, kernel);
  }
  const auto limit = milliseconds(request.boot_timeout_ms) + kBootMargin;
  if (request.wait) {
    await_ready(entry, limit);
  } else {
    await_ready_aside(entry, limit);
  }
  return shown(snapshot(entry));
}

api::Sandbox Daemon::Impl::stop(const std::string& name, const api::StopRequest& request) {
  const EntryPtr entry = find(name);
  const std::lock_guard operation(entry->operation);
  usable(entry);
  stop_entry(entry, request);
  return shown(snapshot(entry));
}

void Daemon::Impl::remove(const std::string& name, bool force) {
  const EntryPtr entry = find(name);
  const std::lock_guard operation(entry->operation);
  const Record record = usable(entry);
  if (api::is_live(record.state)) {
    if (!force)
      throw api::ApiError(
          Kind::Conflict,
          "sandbox " + record.name() + " is " + std::string(api::state_name(record.state)),
          "stop it first with: mvm down " + record.name() + " (or mvm rm --force)");
    stop_entry(entry, {0, true});
  }
  erase(entry);
}

void Daemon::Impl::logs(const std::string& name, bool follow, const api::ByteSink& sink) {
  const EntryPtr entry = find(name);
  const std::string path = options_.paths.console_log(snapshot(entry).id);
  const auto file = sys::open_if_exists(path, O_RDONLY | O_NOFOLLOW);
  if (!file) return;
  const sys::Fd watch = follow ? sys::watch_file(path) : sys::Fd();
  sys::Fd process;
  {
    const std::lock_guard lock(entry->mutex);
    if (entry->process) process = entry->process.duplicate();
  }
  Bytes piece(kLogPiece);
  uint64_t offset = 0;
  // Bounded by the size at each turn: a guest that prints without end cannot keep a reader that
  // does not follow.
  bool live = follow && process;
  uint64_t end = sys::file_size(file->get());
  while (true) {
    while (offset < end) {
      // Output that was given up to keep the file small is a hole.
      const auto data = sys::next_data(file->get(), offset);
      if (!data || *data >= end) break;
      offset = *data;
      const size_t want = static_cast<size_t>(std::min<uint64_t>(piece.size(), end - offset));
      const size_t got = sys::pread_some(file->get(), std::span(piece).first(want), offset);
      if (got == 0) break;
      offset += got;
      if (!sink(as_text(ByteView(piece).first(got)))) return;
    }
    if (!live) return;
    // The second's tick is for a reader that went away without a word.
    std::array<pollfd, 3> events{pollfd{watch.get(), POLLIN, 0}, pollfd{process.get(), POLLIN, 0},
                                 pollfd{stopping_.get(), POLLIN, 0}};
    if (::poll(events.data(), events.size(), 1'000) < 0 && errno != EINTR)
      throw SystemError(errno, "waiting for console output");
    if (events[2].revents != 0 || !sink("")) return;
    sys::drain_watch(watch.get());
    live = events[1].revents == 0;
    end = sys::file_size(file->get());
  }
}

// ---- images and kernels
// ---------------------------------------------------------------------------

api::Image Daemon::Impl::shown(const store::Image& image) const {
  const store::Manifest& manifest = image.manifest;
  api::Image out;
  out.name = image.names.empty() ? "" : image.names.front();
  out.names = image.names;
  out.digest = image.digest;
  out.source = manifest.source_path;
  out.source_kind = manifest.source_kind;
  out.size = manifest.size;
  out.content_bytes = manifest.content_bytes;
  out.files = manifest.files;
  out.created_at = manifest.created;
  out.entrypoint = manifest.config.entrypoint;
  out.command = manifest.config.cmd;
  out.env = manifest.config.env;
  out.workdir = manifest.config.workdir;
  out.user = manifest.config.user;
  out.used_by = users_of(image.digest);
  return out;
}

std::vector<api::Image> Daemon::Impl::images() {
  std::vector<api::Image> out;
  for (const store::Image& image : store::Images(options_.paths).list())
    out.push_back(shown(image));
  return out;
}

api::Image Daemon::Impl::image(const std::string& reference) {
  return shown(store::Images(options_.paths).get(reference));
}

api::Image Daemon::Impl::import_image(const api::ImportRequest& request,
                                      const api::ProgressSink& progress) {
  if (request.source.empty() || request.source.front() != '/')
    throw Error(Kind::Invalid, "import.source: must be an absolute path");
  const store::ImageName name = store::parse_image_name(request.name);
  store::Images images(options_.paths);
  const auto tell = [&](const api::ImportProgress& step) {
    if (!progress(step)) throw Error(Kind::Unavailable, "the client went away");
  };
  const auto imported = image::import_image(
      images, request.source, name, {},
      [&](uint64_t done, std::optional<uint64_t> total, image::Phase phase) {
        pollfd stopping{stopping_.get(), POLLIN, 0};
        if (::poll(&stopping, 1, 0) > 0) throw Error(Kind::Unavailable, "the daemon is stopping");
        tell({std::string(image::phase_name(phase)), done, total.value_or(0), ""});
      });
  for (const std::string& note : imported.notes) tell({"", 0, 0, note});
  log_.info("image imported", {{"name", name.text()}, {"digest", imported.image.digest}});
  return shown(imported.image);
}

void Daemon::Impl::remove_image(const std::string& reference, bool force) {
  store::Images(options_.paths)
      .remove(reference, [this](const std::string& digest) { return users_of(digest); }, force);
}

std::vector<api::Kernel> Daemon::Impl::kernels() {
  std::vector<api::Kernel> out;
  std::vector<std::string> problems;
  for (const auto& installed : image::list_kernels(options_.paths, &problems)) {
    const sys::Fd file = sys::open_file(installed.bundle.image, O_RDONLY);
    out.push_back({installed.bundle.name, installed.bundle.image, sys::file_size(file.get()),
                   installed.bundle.modules.size(), installed.is_default});
  }
  for (const std::string& problem : problems) log_.warning("kernel left out", {{"why", problem}});
  return out;
}

// ---- the outside
// ----------------------------------------------------------------------------------

Daemon::Daemon(DaemonOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Daemon::~Daemon() = default;
void Daemon::run() { impl_->run(); }
void Daemon::stop() noexcept { impl_->stop(); }

}
