// The entries and their records.
#include "impl.h"

namespace mvm::daemon {

static constexpr size_t kMaxSandboxes = 1'000;

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
  out.audit_strict = record.spec.audit_strict;
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

}
