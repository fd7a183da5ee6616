#pragma once
// The daemon's Service.
//
// A sandbox is an Entry: its record, under the entry's own mutex, and an operation lock that lets
// one start, stop or removal of it run at a time. The map of entries has a mutex of its own, which
// is never held during I/O. A record is changed by transition() alone, which writes it to the
// database before anybody can see it; so what an answer said is still true after kill -9.
//
// How a sandbox ends is decided in one place, on_end(): the supervisor calls it when the process is
// gone, whoever made it go.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/api/metrics_server.h"
#include "mvm/api/server.h"
#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/random.h"
#include "mvm/daemon/daemon.h"
#include "mvm/image/import.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "audit_logs.h"
#include "clock.h"
#include "control.h"
#include "launch.h"
#include "ports.h"
#include "records.h"
#include "start_queue.h"
#include "supervisor.h"

namespace mvm::daemon {

using api::SandboxState;
using std::chrono::milliseconds;

struct Entry {
  ~Entry() { proto::wipe(secret_values); }
  std::mutex operation;  // start, stop, remove: one at a time
  std::mutex mutex;      // guards the rest
  std::condition_variable changed;
  Record record;
  bool removed = false;
  // From the request until the sandbox's process has them.
  proto::SecretValues secret_values;
  // A second descriptor of the process, while it is live.
  sys::Fd process;
  // Why the daemon itself killed it, if it did.
  std::string verdict;
  // Its end is in the audit log, and not yet in the database.
  bool end_recorded = false;
  // Why its end could not be put down, where it could not be yet.
  std::string unrecorded;
};
using EntryPtr = std::shared_ptr<Entry>;

// From SIGKILL to the end; more means a process stuck in the kernel.
inline constexpr milliseconds kKillLimit{10'000};

// Until one that has ended is removed; 0 when it is due.
milliseconds retention_left(const Record& record);

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
  api::Sandbox wait(const std::string& name, const api::WaitRequest& request) override;
  api::Sandbox start(const std::string& name, const api::StartRequest& request) override;
  void remove(const std::string& name, bool force) override;
  proto::PublishedPort publish(const std::string& name, const proto::PublishedPort& port) override;
  void unpublish(const std::string& name, const proto::PublishedPort& port) override;
  void logs(const std::string& name, bool follow, const api::ByteSink& sink) override;
  std::vector<api::Image> images() override;
  api::Image image(const std::string& reference) override;
  api::Image import_image(const api::ImportRequest& request,
                          const api::ProgressSink& progress) override;
  api::Image pull_image(const api::PullRequest& request,
                        const api::ProgressSink& progress) override;
  api::Image capture_image(const api::CaptureRequest& request,
                           const api::ProgressSink& progress) override;
  api::Image adopt_image(const api::AdoptRequest& request) override;
  void remove_image(const std::string& reference, bool force) override;
  api::Image tag_image(const std::string& reference, const api::TagRequest& request) override;
  api::Image verify_image(const std::string& reference) override;
  api::PruneResult prune_images(const api::PruneRequest& request) override;
  std::vector<api::Kernel> kernels() override;
  api::Kernel import_kernel(const api::KernelImportRequest& request) override;
  void remove_kernel(const std::string& name, bool force) override;
  std::vector<api::AiUsage> ai_usage() override;
  api::AiUsage change_ai_budget(const std::string& name,
                                const proto::AiBudgetRequest& request) override;
  std::string metrics(bool otlp) override;
  void stop_daemon() override { stop(); }

 private:
  // Start of the daemon.
  void restore();
  bool adopt(const EntryPtr& entry);
  void restore_end(const EntryPtr& entry);
  void restore_ports(const Record& record);
  void record_ports(const Record& record, const std::vector<proto::PublishedPort>& ports);
  void remove_orphans();
  void keep_lost(const std::string& id);
  void remove_temporary_files();
  void repaired(std::string action);

  // Entries.
  using Change = std::function<void(Record&)>;
  std::vector<EntryPtr> entries() const;
  EntryPtr find(const std::string& name) const;  // throws NotFound
  EntryPtr insert(Record record);                // throws Conflict
  void forget(const EntryPtr& entry, const Change& last_change = {});
  Record snapshot(const EntryPtr& entry) const;
  // The same, for an operation that waited for its turn: throws NotFound when it was removed.
  Record usable(const EntryPtr& entry) const;
  void transition(const EntryPtr& entry, const Change& change);
  api::Sandbox shown(const Record& record) const;
  // How long a sandbox's process may take to say how it is. It answers from its loop.
  static constexpr milliseconds kStatusLimit{1'000};
  void add_status(api::Sandbox& out, const Record& record, milliseconds limit = kStatusLimit);
  std::vector<std::string> users_of(const std::string& digest) const;

  // Steps of an operation.
  Record new_record(const api::SandboxSpec& spec, store::Image& image, image::KernelBundle& kernel);
  Launch launching() const;
  void keep_values(const EntryPtr& entry, const proto::SecretValues& values);
  void launch(const EntryPtr& entry, const store::Image& image, const image::KernelBundle& kernel,
              std::unique_ptr<Spare> spare);
  StartQueue::Turn await_turn(const EntryPtr& entry);
  void require_disk_alone(const EntryPtr& entry);
  void launch_queued(const EntryPtr& entry, const store::Image& image,
                     const image::KernelBundle& kernel, std::unique_ptr<Spare> spare);
  // The spare (spare.cc).
  std::unique_ptr<Spare> take_spare();
  void give_back(std::unique_ptr<Spare> spare);
  void spare_later(const Record& like);
  void make_spare(const Record& like) noexcept;
  void end_spare(std::unique_ptr<Spare> spare) noexcept;
  void undo_creation(const EntryPtr& entry) noexcept;
  void undo_queueing(const EntryPtr& entry) noexcept;
  void await_ready(const EntryPtr& entry, milliseconds limit);
  void await_ready_aside(const EntryPtr& entry, milliseconds limit, StartQueue::Turn turn);
  api::Sandbox finish_start(const EntryPtr& entry, StartQueue::Turn turn, bool wait,
                            uint64_t boot_timeout_ms);
  void hand_over(const Record& record, const std::vector<proto::PublishedPort>& ports,
                 const std::vector<sys::Fd>& listeners) const;
  bool await_end(const EntryPtr& entry, milliseconds limit);
  void kill(const EntryPtr& entry, const std::string& why);
  void stop_entry(const EntryPtr& entry, const api::StopRequest& request);
  void erase(const EntryPtr& entry);
  void discard(const std::string& id);
  void on_end(const std::string& id, std::optional<sys::ExitStatus> status);
  void conclude(const EntryPtr& entry, const std::string& without_record);
  std::optional<api::Sandbox> departed(const std::string& id) const;
  void record_end(const EntryPtr& entry, const Record& before, proto::EndReason reason);
  void expire_audit_logs();
  void expire_later(const Record& record);
  void expire(const std::string& id) noexcept;
  SandboxControl control(const Record& record) const {
    return {options_.paths.control_socket(record.name()), stopping_.get()};
  }
  api::Image shown(const store::Image& image) const;
  void make_room_for_images();
  image::Progress progress_to(const api::ProgressSink& progress);
  api::Image imported(const image::Imported& imported, const std::string& name,
                      const api::ProgressSink& progress);

  DaemonOptions options_;
  const image::AgentBinary agent_{options_.agent};
  const obs::Log& log_ = options_.log;
  const sys::Fd monitor_ = monitor_program(options_);
  sys::Fd lock_;
  sys::Fd stopping_ = sys::event_fd();  // stays readable once signalled
  std::string started_at_ = rfc3339_now();
  std::unique_ptr<Records> records_;
  bool records_lost_ = false;  // state.db was not there, or empty, when we began
  std::unique_ptr<AuditLogs> audit_;
  // Throws when this host cannot run a guest.
  void require_host();

  std::atomic<bool> host_checked_ = false;
  mutable std::mutex mutex_;  // guards the map and the threads; never held during I/O
  std::map<std::string, EntryPtr> by_id_;
  // The last ephemeral sandboxes that ended: gone, but for who asks by id how they ended.
  std::deque<Record> departed_;
  std::vector<std::string> repairs_;  // while the daemon starts
  std::unique_ptr<Spare> spare_;      // guarded by mutex_
  std::atomic<bool> spare_is_due_ = false;
  StartQueue starts_{starts_at_once(), stopping_.get()};
  size_t starts_at_once() const;
  struct Aside {
    std::thread thread;
    std::atomic<bool> done = false;
  };
  std::list<Aside> asides_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<api::Server> server_;
  std::unique_ptr<api::MetricsServer> metrics_server_;
};

}
