// The life of a sandbox, from its parts to its end.
#include "mvm/sandbox/sandbox.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <sys/epoll.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "exit_record.h"
#include "sandbox_impl.h"
#include "secrets.h"

namespace mvm::sandbox {

// How long clients have to read their last frames before the process goes.
static constexpr std::chrono::seconds kFarewell{2};
static constexpr std::chrono::milliseconds kRetryTime{100};
// From the end of its time to SIGKILL.
static constexpr std::chrono::milliseconds kLimitGrace{2'000};

// Short and quiet: every character printed at boot costs exits. noreplace-smp: a kernel with one
// CPU would rewrite its thousands of lock prefixes at every boot, which takes longer than they ever
// cost. The rest is settings of the agent.
static std::string kernel_command_line(const proto::SandboxConfig& config,
                                       const std::string& network) {
  std::string line = "console=" + config.kernel_console +
                     " quiet panic=-1 reboot=k pci=off tsc=reliable no_timer_check noreplace-smp "
                     "random.trust_cpu=on dummy.numdummies=0"
                     " mvm.root=/dev/vda mvm.overlay=/dev/vdb mvm.hostname=" +
                     config.hostname + network;
  if (!config.kept_path.empty()) line += " mvm.kept=/dev/vdc," + config.kept_path;
  if (config.profile != proto::Profile::Dev)
    line += " mvm.profile=" + std::string(proto::profile_name(config.profile));
  if (config.kernel_console != "ttyS0") line += " 8250.nr_uarts=0";
  if (!config.kernel_arguments.empty()) line += " " + config.kernel_arguments;
  return line;
}

static std::string words(const SandboxEnd& end) {
  return std::string(proto::end_reason_name(end.reason)) +
         (end.detail.empty() ? "" : ": " + end.detail);
}

static proto::ErrorReply ended_error(const SandboxEnd& end) {
  return {Kind::Unavailable, "the sandbox has ended: " + words(end), end.reason};
}

// First to last as the guest sees them. Personal data is looked for before secrets are put in place
// of their placeholders: those are not the guest's to lose.
std::vector<std::shared_ptr<egress::FilterSource>> Sandbox::Impl::filters() {
  std::vector<std::shared_ptr<egress::FilterSource>> out;
  pii_ = pii_source(config_.network, [this](const privacy::Note& note) {
    audit_.defer(pii_record(withholder_.cleaned(note)), audit::Writer::Of::WhatHasHappened);
  });
  if (pii_) out.push_back(pii_);
  auto secrets =
      secret_source(secrets_, {[this](const guard::SecretNotice& notice) {
                                 auto record = secret_record(withholder_.cleaned(notice));
                                 const auto of = deferred_as(notice);
                                 if (!of) return audit_.record(record);
                                 audit_.defer(std::move(record), *of);
                                 return true;
                               },
                               [this](const guard::SecretNotice& notice) {
                                 kill(EndReason::Killed, misuse_text(withholder_.cleaned(notice)));
                               }});
  for (auto& source : secrets) out.push_back(std::move(source));
  for (auto& source : filters_of(ai_.get())) out.push_back(std::move(source));
  return out;
}

std::vector<policy::InspectRule> Sandbox::Impl::inspections() const {
  auto out = inspected_for(secrets_.get());
  for (auto& rule : inspections_of(ai_.get())) out.push_back(std::move(rule));
  // Last: its exceptions are for itself alone.
  for (auto& rule : pii_inspection(config_.network)) out.push_back(std::move(rule));
  return out;
}

Sandbox::Impl::Impl(loop::Loop& loop, proto::SandboxConfig config,
                    std::shared_ptr<const secret::Secrets> secrets, SandboxFds fds,
                    std::unique_ptr<MonitorLink> monitor)
    : loop_(&loop),
      config_(std::move(config)),
      audit_(loop, config_.id, config_.audit, std::move(take(fds, proto::SandboxFd::AuditLog)),
             std::move(take(fds, proto::SandboxFd::AuditFile)),
             // Commands are refused one by one.
             [this](const std::optional<audit::Failure>& failure) {
               network_.set_recordable(!failure);
             }),
      secrets_(std::move(secrets)),
      withholder_(secrets_, config_.network),
      ai_(make_ai_meter(config_.network, take(fds, proto::SandboxFd::Data).get(),
                        {[this](const metering::UsageNotice& notice) {
                           audit_.defer(usage_record(withholder_.cleaned(notice)),
                                        audit::Writer::Of::WhatHasHappened);
                         },
                         [this](std::string_view model) { return withholder_.holds(model); }})),
      network_(
          config_.network, config_.name,
          [this](const egress::Event& event) {
            // What cannot be recorded does not happen; audit_ tells of it, and ends admission. An
            // end has happened.
            const auto record = audit::egress_record(withholder_.cleaned(event));
            return event.kind == egress::EventKind::End ? audit_.note(record)
                                                        : audit_.record(record);
          },
          [this](const egress::OpenQuestion& question) { desk_.on_question(question); }, filters(),
          [this](egress::Passage passage) { return audit_.commit(commit_of(passage)); },
          inspections(),
          config_.audit.strict ? egress::Refusals::Each : egress::Refusals::Together),
      control_(std::move(take(fds, proto::SandboxFd::Control))),
      data_(std::move(take(fds, proto::SandboxFd::Data))),
      mux_(loop, config_,
           {[this](Asker asker, ByteView request) { on_request(asker, request); },
            [this] { on_agent_ready(); },
            [this](AgentLoss loss, const std::string& why) { on_agent_lost(loss, why); },
            [this] {
              if (state_ == State::Ended) loop_->stop();
            },
            [this](bool in_use) { in_use ? idle_deadline_.reset() : await_use(); },
            [this](const std::string& run) -> std::optional<std::string> {
              if (!audit_.record(audit::ExecStarted{audit::RunId(run)})) return audit_.why();
              if (ai_) ai_->run_began(run);
              if (pii_) pii_->run_changed();
              return std::nullopt;
            },
            [this](const std::string& run, const std::optional<proto::ExecResult>& result) {
              audit_.record_end(run, result);
              if (ai_) ai_->run_ended(run);
              if (pii_) pii_->run_changed();
            }}),
      desk_(loop, mux_, network_, audit_),
      ports_(loop, mux_),
      watchdog_(loop, mux_, std::chrono::milliseconds(config_.watchdog_ms),
                [this] {
                  kill(EndReason::Crashed, "the guest hung: its agent did not answer for " +
                                               format_duration_ms(config_.watchdog_ms) +
                                               " (watchdog)");
                }),
      health_(loop, mux_, config_.health),
      vsock_(loop, std::move(take(fds, proto::SandboxFd::Vsock)),
             std::move(take(fds, proto::SandboxFd::Runtime)),
             [this](sys::Fd fd, uint32_t port) {
               if (!mux_.in_use()) await_use();
               proto::MonitorRequest request;
               request.kind = proto::MonitorRequestKind::Connect;
               request.port = port;
               request.announce = true;
               monitor_->send(request, fd.get());
             }),
      monitor_(std::move(monitor)) {
  machine_fds_ = std::move(fds);
  sys::set_nonblocking(control_.get());
  control_watch_ = loop.watch(control_.get(), EPOLLIN, [this](uint32_t) {
    // The socket's mode keeps others out; the credentials say so again for a directory somebody
    // opened up.
    std::optional<sys::Fd> fd;
    try {
      fd = sys::accept_connection(control_.get());
    } catch (const Error&) {
      // Out of descriptors, for a moment one hopes: the caller waits in the queue meanwhile.
      control_watch_.set_events(0);
      control_retry_ = loop_->after(kRetryTime, [this] {
        if (control_watch_) control_watch_.set_events(EPOLLIN);
      });
      return;
    }
    if (!fd) return;
    const auto peer = sys::peer_credentials(fd->get());
    if (peer.uid == ::geteuid() || peer.uid == 0) mux_.add_client(std::move(*fd));
  });
  boot_deadline_ = loop.after(std::chrono::milliseconds(config_.boot_timeout_ms), [this] {
    kill(EndReason::StartFailed, "the guest did not become ready within " +
                                     format_duration_ms(config_.boot_timeout_ms) +
                                     "; its console output is in the log (mvm logs)");
  });
  if (config_.ttl_ms != 0)
    ttl_deadline_ = loop.after(std::chrono::milliseconds(config_.ttl_ms), [this] {
      end_by_limit(EndReason::TimeLimit,
                   "its time to live of " + format_duration_ms(config_.ttl_ms) + " was over");
    });
}

void Sandbox::Impl::run_machine() {
  proto::MonitorConfig machine;
  machine.cpus = config_.cpus;
  machine.disk_bandwidth = config_.disk_bandwidth;
  machine.disk_iops = config_.disk_iops;
  machine.cmdline = kernel_command_line(config_, network_.guest_settings());
  machine.nic = network_.card();
  machine.serial = config_.kernel_console == "ttyS0";
  machine.kept_disk = !config_.kept_path.empty();
  // In the order of MonitorFd.
  std::vector<int> passed;
  for (const auto which :
       {proto::SandboxFd::ConsoleLog, proto::SandboxFd::Root, proto::SandboxFd::Overlay})
    passed.push_back(take(machine_fds_, which).get());
  if (machine.kept_disk) passed.push_back(take(machine_fds_, proto::SandboxFd::KeptDisk).get());
  const sys::Fd tap = network_.take_tap();
  if (machine.nic) passed.push_back(tap.get());
  monitor_->release(*loop_, machine, passed,
                    {[this](const proto::MonitorEvent& event) { on_monitor_event(event); },
                     [this](sys::ExitStatus status) { on_monitor_exit(status); }});
  machine_fds_ = {};
}

// The guest ends what runs in it, within `grace`, and then its machine.
void Sandbox::Impl::tell_shutdown(std::chrono::milliseconds grace) {
  mux_.tell_agent(proto::ShutdownRequest{grace, config_.stop_signal}.encode());
}

void Sandbox::Impl::stop(const proto::StopRequest& request) {
  if (state_ == State::Ended) return;
  // It is on its way out by a limit, with a deadline that this must not put off.
  if (verdict_ && !request.kill) return;
  if (request.kill || !mux_.agent_ready())
    return kill(request.kill ? EndReason::Killed : EndReason::Stopped, "");
  if (state_ != State::Stopping) {
    state_ = State::Stopping;
    tell_shutdown(request.grace - std::min(request.grace / 4, kPowerOffTime));
  }
  stop_deadline_ = loop_->after(request.grace, [this, grace = request.grace] {
    kill(EndReason::Stopped, "the guest did not power off within " +
                                 format_duration_ms(static_cast<uint64_t>(grace.count())));
  });
}

// ---- limits of time -------------------------------------------------------------------------

// Nobody uses it from now on; use is a command or copy under way, and a new vsock connection of a
// host program.
void Sandbox::Impl::await_use() {
  if (config_.idle_timeout_ms == 0 || state_ != State::Running) return;
  idle_since_ = std::chrono::steady_clock::now();
  idle_deadline_ = loop_->after(std::chrono::milliseconds(config_.idle_timeout_ms), [this] {
    end_by_limit(EndReason::IdleTimeout,
                 "nobody used it for " + format_duration_ms(config_.idle_timeout_ms));
  });
}

// The guest may put its files in order, for a moment; it has no say in whether it ends.
void Sandbox::Impl::end_by_limit(EndReason reason, std::string detail) {
  if (verdict_ || state_ == State::Ended) return;
  // It ends already, in the time that somebody gave it; but not beyond its own.
  if (state_ == State::Stopping && reason != EndReason::TimeLimit) return;
  if (!mux_.agent_ready() || state_ == State::Stopping) return kill(reason, std::move(detail));
  verdict_ = SandboxEnd{reason, std::move(detail)};
  state_ = State::Stopping;
  // Before the guest ends them, which would look like the commands' own ends.
  mux_.end_commands(ended_error(*verdict_));
  tell_shutdown(kLimitGrace / 2);
  stop_deadline_ = loop_->after(kLimitGrace, [this] { monitor_->kill(); });
}

void Sandbox::Impl::kill(EndReason reason, std::string detail) {
  if (!verdict_) verdict_ = SandboxEnd{reason, std::move(detail)};
  monitor_->kill();
}

void Sandbox::Impl::finish(const SandboxEnd& end) {
  if (state_ == State::Ended) return;
  state_ = State::Ended;
  end_ = end;
  boot_deadline_.reset();
  stop_deadline_.reset();
  watchdog_.stop();
  health_.stop();
  ttl_deadline_.reset();
  idle_deadline_.reset();
  control_watch_.reset();
  ports_.close();
  mux_.end_runs();
  audit_.close();
  try {
    write_exit_record(data_.get(), end);
  } catch (const Error& error) {
    std::fprintf(stderr, "mvm sandbox: recording the end: %s\n", error.what());
  }
  const Bytes result = proto::encode_ok(end.encode());
  for (const Asker asker : std::exchange(end_askers_, {})) mux_.answer(asker, result);
  const Bytes failure = proto::encode_error(
      {Kind::Unavailable, "the sandbox ended before it was ready: " + words(end), end.reason});
  for (const Asker asker : std::exchange(ready_askers_, {})) mux_.answer(asker, failure);
  answer_memory(failure);
  mux_.end_all(ended_error(end));
  if (!mux_.has_clients()) return loop_->stop();
  farewell_ = loop_->after(kFarewell, [this] { loop_->stop(); });
}

Sandbox::Sandbox(loop::Loop& loop, proto::SandboxConfig config,
                 std::shared_ptr<const secret::Secrets> secrets, SandboxFds fds,
                 std::unique_ptr<MonitorLink> monitor)
    : impl_(std::make_unique<Impl>(loop, std::move(config), std::move(secrets), std::move(fds),
                                   std::move(monitor))) {}
bool Sandbox::has_network() const { return impl_->has_network(); }
void Sandbox::open_network() { impl_->open_network(); }
void Sandbox::run_machine() { impl_->run_machine(); }
void Sandbox::start_audit() { impl_->start_audit(); }
std::array<int, 3> Sandbox::directories() const { return impl_->directories(); }
Sandbox::~Sandbox() = default;
void Sandbox::stop() { impl_->stop({}); }

void record_failure(int data_directory, bool served, const std::string& why) {
  write_exit_record(data_directory, {served ? EndReason::HostFault : EndReason::StartFailed, why});
}

}
