// The API's calls about sandboxes.
#include "health.h"
#include "impl.h"

namespace mvm::daemon {

static constexpr size_t kLogPiece = 64 * 1024;
static constexpr int kNameTries = 20;

api::Version Daemon::Impl::version() {
  api::Version version;
  version.version = options_.version;
  version.pid = ::getpid();
  version.started_at = started_at_;
  version.runtime_dir = options_.paths.runtime();
  version.data_dir = options_.paths.data();
  for (const EntryPtr& entry : entries())
    version.sandboxes_live += api::is_live(snapshot(entry).state) ? 1 : 0;
  version.last_repair = records_->last_repair();
  const std::lock_guard lock(mutex_);
  if (spare_) version.spare_pid = spare_->process.child().pid();
  return version;
}

// How long each of many may take to say how it is, and all of them: who does not answer is listed
// without its health.
static constexpr milliseconds kListedStatusLimit{250};
static constexpr milliseconds kListLimit{1'000};
static constexpr size_t kMaxComplaint = 1024;

std::vector<api::Sandbox> Daemon::Impl::sandboxes(bool all) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + kListLimit;
  std::vector<api::Sandbox> out;
  for (const EntryPtr& entry : entries()) {
    const Record record = snapshot(entry);
    if (!all && !api::is_live(record.state)) continue;
    out.push_back(shown(record));
    if (record.state == SandboxState::Running && checks_health(record) && Clock::now() < deadline)
      add_status(out.back(), record, kListedStatusLimit);
  }
  std::sort(out.begin(), out.end(), [](const api::Sandbox& a, const api::Sandbox& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  return out;
}

api::Sandbox Daemon::Impl::sandbox(const std::string& name) {
  if (auto gone = departed(name)) return *gone;
  const Record record = snapshot(find(name));
  api::Sandbox out = shown(record);
  add_status(out, record);
  return out;
}

// What its process knows and the record does not.
void Daemon::Impl::add_status(api::Sandbox& out, const Record& record, milliseconds limit) {
  const api::Limits& limits = record.spec.limits;
  if (record.state != SandboxState::Running ||
      (limits.ttl_ms == 0 && limits.idle_timeout_ms == 0 && !record.spec.network.enabled &&
       !checks_health(record)))
    return;
  try {
    const auto status = control(record).status(limit);
    out.network_missing = printable(status.network_missing, kMaxComplaint);
    out.ttl_left_ms = status.ttl_left_ms;
    out.idle_left_ms = status.idle_left_ms;
    if (status.health) out.health = daemon::shown(*status.health);
  } catch (const Error& error) {
    // It is about to end, or stuck: what is left is not known, the rest is.
    log_.debug("no status of a sandbox", {{"name", record.name()}, {"why", error.message()}});
  }
}

api::Sandbox Daemon::Impl::wait(const std::string& name, const api::WaitRequest& request) {
  if (auto gone = departed(name)) return *gone;
  const EntryPtr entry = find(name);
  await_end(entry, milliseconds(request.timeout_ms));
  const Record record = snapshot(entry);
  // Removed by itself at its end: what is known of it is kept under its id.
  if (auto gone = departed(record.id)) return *gone;
  return shown(usable(entry));
}

void Daemon::Impl::require_host() {
  if (host_checked_ || !options_.check_host) return;
  options_.check_host();
  host_checked_ = true;
}

api::Sandbox Daemon::Impl::create(const api::SandboxSpec& spec) {
  require_host();
  store::Image image;
  image::KernelBundle kernel;
  EntryPtr entry;
  std::unique_ptr<Spare> spare = take_spare();
  // A request that comes to nothing costs no spare.
  const ScopeExit keep_spare([&] { give_back(std::move(spare)); });
  for (int tries = 1; !entry; ++tries) {
    try {
      Record record = new_record(spec, image, kernel);
      if (spare) record.id = spare->id;
      entry = insert(std::move(record));
    } catch (const Error& error) {
      // Only a name that we chose is ours to choose again.
      if (error.kind() != Kind::Conflict || !spec.name.empty() || tries == kNameTries) throw;
    }
  }
  ScopeExit undo([&] { undo_creation(entry); });
  require_disk_alone(entry);
  keep_values(entry, spec.secret_values);
  const Record record = snapshot(entry);
  audit_->record(audit::SandboxCreated{audit::LogId(record.id), audit::Name(record.name()),
                                       audit::Name(record.spec.image),
                                       audit::DigestText(record.image_digest)});
  StartQueue::Turn turn = await_turn(entry);
  launch_queued(entry, image, kernel, std::move(spare));
  undo.release();
  return finish_start(entry, std::move(turn), spec.wait, spec.boot_timeout_ms);
}

api::Sandbox Daemon::Impl::start(const std::string& name, const api::StartRequest& request) {
  require_host();
  const EntryPtr entry = find(name);
  if (request.boot_timeout_ms == 0 || request.boot_timeout_ms > api::kMaxBootTimeoutMs)
    throw Error(Kind::Invalid,
                "start.boot_timeout_ms: must be 1 to " + std::to_string(api::kMaxBootTimeoutMs));
  store::Image image;
  image::KernelBundle kernel;
  {
    const std::lock_guard operation(entry->operation);
    const Record record = usable(entry);
    if (api::is_live(record.state))
      throw Error(Kind::Conflict, "sandbox " + record.name() + " is " +
                                      std::string(api::state_name(record.state)) + " already");
    image = store::Images(options_.paths).get(record.image_digest);
    kernel = image::resolve_kernel(options_.paths,
                                   record.spec.kernel.empty() ? record.kernel : record.spec.kernel);
    keep_values(entry, request.secret_values);
    transition(entry, [](Record& next) { next.state = SandboxState::Queued; });
  }
  ScopeExit undo([&] { undo_queueing(entry); });
  require_disk_alone(entry);
  StartQueue::Turn turn = await_turn(entry);
  launch_queued(entry, image, kernel, nullptr);
  undo.release();
  return finish_start(entry, std::move(turn), request.wait, request.boot_timeout_ms);
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
  if (!sys::exists(path)) return;
  const sys::Fd file = sys::open_own_file(path, O_RDONLY);
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
  uint64_t end = sys::file_size(file.get());
  while (true) {
    while (offset < end) {
      // Output that was given up to keep the file small is a hole.
      const auto data = sys::next_data(file.get(), offset);
      if (!data || *data >= end) break;
      offset = *data;
      const size_t want = static_cast<size_t>(std::min<uint64_t>(piece.size(), end - offset));
      const size_t got = sys::pread_some(file.get(), std::span(piece).first(want), offset);
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
    end = sys::file_size(file.get());
  }
}

}
