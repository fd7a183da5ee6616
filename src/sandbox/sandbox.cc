// The life of a sandbox: Starting until the agent has said hello, Running, Stopping once it was
// asked to end, and Ended when the monitor's process is gone. Ended happens exactly once, in
// finish(), whatever led there.
#include "mvm/sandbox/sandbox.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <vector>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/proto/console.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "ai_meter.h"
#include "audit_trail.h"
#include "console.h"
#include "exit_record.h"
#include "health.h"
#include "monitor_link.h"
#include "mux.h"
#include "network.h"
#include "pii.h"
#include "policy_desk.h"
#include "ports.h"
#include "secrets.h"
#include "vsock_bridge.h"
#include "watchdog.h"
#include "withhold.h"

namespace mvm::sandbox {

using proto::EndReason;
using proto::SandboxEnd;

// How long clients have to read their last frames before the process goes.
static constexpr std::chrono::seconds kFarewell{2};

static constexpr std::chrono::milliseconds kRetryTime{100};
// So many may wait for figures of the guest's memory; a monitor answers all of them at once.
static constexpr size_t kMaxMemoryAskers = 64;
// From the end of its time to SIGKILL.
static constexpr std::chrono::milliseconds kLimitGrace{2'000};
// What is left of a grace once the guest's processes have ended, at the most: to write out what is
// to be written, and power off.
static constexpr std::chrono::milliseconds kPowerOffTime{2'000};
// How long a guest whose agent is gone has to say why.
static constexpr std::chrono::seconds kLastWords{5};

enum class State { Starting, Running, Stopping, Ended };

static std::string_view state_name(State state) {
  switch (state) {
    case State::Starting:
      return "starting";
    case State::Running:
      return "running";
    case State::Stopping:
      return "stopping";
    case State::Ended:
      return "stopped";
  }
  return "";
}

// An image's own variables go before those of the agent, so that it has to add to what they name.
static std::vector<std::string> named_bundles(
    const std::vector<std::pair<std::string, std::string>>& env) {
  std::vector<std::string> files;
  for (const auto& [name, value] : env)
    if ((std::ranges::find(proto::kBundleVariables, name) != proto::kBundleVariables.end() ||
         std::ranges::find(proto::kAddingVariables, name) != proto::kAddingVariables.end()) &&
        value.size() <= proto::kMaxPath && files.size() < proto::kMaxTrustedFiles)
      files.push_back(value);
  return files;
}

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

// The kernel's last words when it panics for want of memory (mm/oom_kill.c). They are the guest's,
// and so is what they are used for: how its end is called.
static bool is_out_of_memory(std::string_view panic) {
  return panic.find("Out of memory") != panic.npos || panic.find("out of memory") != panic.npos ||
         panic.find("deadlocked on memory") != panic.npos;
}

class Sandbox::Impl {
 public:
  Impl(loop::Loop& loop, proto::SandboxConfig config,
       std::shared_ptr<const secret::Secrets> secrets, SandboxFds fds,
       std::unique_ptr<MonitorLink> monitor);
  bool has_network() const { return config_.network.has_value(); }
  void open_network() { network_.open(*loop_); }
  void run_machine();
  std::array<int, 3> directories() const {
    return {data_.get(), vsock_.directory(), audit_.directory()};
  }
  void start_audit() { audit_.start(); }
  void stop(const proto::StopRequest& request);

 private:
  void on_request(Asker asker, ByteView request);
  std::vector<std::shared_ptr<egress::FilterSource>> filters();
  std::vector<policy::InspectRule> inspections() const;
  void on_memory_request(Asker asker, ByteView request);
  void on_ai_budget(Asker asker, ByteView request);
  void answer_memory(const Bytes& payload);
  void on_agent_ready();
  void on_agent_lost(AgentLoss loss, const std::string& why);
  void on_monitor_event(const proto::MonitorEvent& event);
  void on_monitor_exit(sys::ExitStatus status);
  void on_guest_connect(uint64_t stream, uint32_t port);
  void record_boot(const proto::MonitorEvent& stats);
  void tell_shutdown(std::chrono::milliseconds grace);
  void kill(EndReason reason, std::string detail);
  void end_by_limit(EndReason reason, std::string detail);
  void await_use();
  void finish(const SandboxEnd& end);
  proto::SandboxStatus status() const;

  static sys::Fd& take(SandboxFds& fds, proto::SandboxFd which) {
    return fds.at(static_cast<size_t>(which));
  }

  loop::Loop* loop_;
  proto::SandboxConfig config_;
  AuditTrail audit_;
  std::shared_ptr<const secret::Secrets> secrets_;
  Withholder withholder_;
  std::unique_ptr<AiMeter> ai_;
  std::shared_ptr<privacy::PiiSource> pii_;
  Network network_;  // begins at once: it is made while the rest is
  sys::Fd control_;
  sys::Fd data_;
  // What the monitor is to be handed, and then nobody here holds any more.
  SandboxFds machine_fds_;
  State state_ = State::Starting;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  uint64_t ready_ms_ = 0;
  bool boot_recorded_ = false;
  // Why it will have ended, once that is decided and the monitor's process is still to go.
  std::optional<SandboxEnd> verdict_;
  std::optional<SandboxEnd> end_;
  bool agent_taken_ = false;
  std::vector<Asker> ready_askers_;
  std::vector<Asker> end_askers_;
  std::vector<Asker> memory_askers_;
  Mux mux_;
  PolicyDesk desk_;
  Ports ports_;
  Watchdog watchdog_;
  HealthWatch health_;
  VsockBridge vsock_;
  std::unique_ptr<MonitorLink> monitor_;
  loop::Watch control_watch_;
  loop::Watch control_retry_;
  loop::Watch boot_deadline_;
  loop::Watch stop_deadline_;
  loop::Watch ttl_deadline_;
  loop::Watch idle_deadline_;
  std::chrono::steady_clock::time_point idle_since_ = began_;
  loop::Watch farewell_;
};

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

// ---- requests -------------------------------------------------------------------------------

void Sandbox::Impl::on_request(Asker asker, ByteView request) {
  const auto verb = proto::request_verb(request).value_or("");
  if (verb == proto::kSandboxStatusVerb) {
    mux_.answer(asker, proto::encode_ok(status().encode()));
  } else if (verb == proto::kSandboxReadyVerb) {
    if (mux_.agent_ready()) return mux_.answer(asker, proto::encode_ok());
    ready_askers_.push_back(asker);
  } else if (verb == proto::kSandboxWaitVerb) {
    end_askers_.push_back(asker);
  } else if (verb == proto::kSandboxStopVerb) {
    const auto stop_request = proto::StopRequest::decode(request);
    if (!stop_request)
      return mux_.answer(asker,
                         proto::encode_error({Kind::Invalid, "the request does not decode"}));
    end_askers_.push_back(asker);
    stop(*stop_request);
  } else if (verb == proto::kSandboxMemoryVerb) {
    on_memory_request(asker, request);
  } else if (verb == proto::kSandboxCountersVerb) {
    auto counters = network_.counters();
    if (counters && ai_) ai_->tell_runs(*counters);
    mux_.answer(asker, counters ? proto::encode_ok(counters->encode())
                                : proto::encode_error({Kind::Unavailable, "it has no network"}));
  } else if (verb == proto::kSandboxAiBudgetVerb) {
    on_ai_budget(asker, request);
  } else if (verb == proto::kSandboxConsoleVerb) {
    // Who sits down there uses it; how long, nobody here sees.
    if (!mux_.in_use()) await_use();
    answer_console(mux_, verdict_ ? nullptr : monitor_.get(), config_.profile, asker, request);
  } else if (!desk_.take(asker, verb, request) && !ports_.answer(asker, request)) {
    mux_.answer(asker,
                proto::encode_error({Kind::Unsupported, "no such request: " + printable(verb)}));
  }
}

void Sandbox::Impl::on_memory_request(Asker asker, ByteView request) {
  const auto decoded = proto::MemoryRequest::decode(request);
  if (!decoded)
    return mux_.answer(asker, proto::encode_error({Kind::Invalid, "the request does not decode"}));
  proto::MonitorRequest question;
  question.kind = proto::MonitorRequestKind::Memory;
  question.balloon = decoded->balloon;
  if (verdict_ || memory_askers_.size() >= kMaxMemoryAskers || !monitor_->send(question))
    return mux_.answer(asker,
                       proto::encode_error({Kind::Unavailable, "the monitor does not answer"}));
  memory_askers_.push_back(asker);
}

void Sandbox::Impl::on_ai_budget(Asker asker, ByteView request) {
  const auto refuse = [&](Kind kind, const std::string& why) {
    mux_.answer(asker, proto::encode_error({kind, why}));
  };
  const auto decoded = proto::AiBudgetRequest::decode(request);
  if (!decoded) return refuse(Kind::Invalid, "the request does not decode");
  if (!ai_) return refuse(Kind::Conflict, "the sandbox was started without metering of AI");
  try {
    if (const auto why = ai_->change(*decoded)) return refuse(Kind::Internal, *why);
    mux_.answer(asker, proto::encode_ok());
  } catch (const Error& error) {
    refuse(error.kind(), error.message());
  }
}

void Sandbox::Impl::answer_memory(const Bytes& payload) {
  for (const Asker asker : std::exchange(memory_askers_, {})) mux_.answer(asker, payload);
}

// Of a time in milliseconds, when so much of it is gone.
static uint64_t left_of(uint64_t time, std::chrono::steady_clock::duration gone) {
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(gone).count();
  return time - std::min(time, static_cast<uint64_t>(std::max<int64_t>(spent, 0)));
}

proto::SandboxStatus Sandbox::Impl::status() const {
  proto::SandboxStatus status;
  status.id = config_.id;
  status.name = config_.name;
  status.state = state_name(state_);
  status.sandbox_pid = static_cast<uint32_t>(::getpid());
  status.monitor_pid = static_cast<uint32_t>(monitor_->pid());
  status.started_unix_ms = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(started_.time_since_epoch()).count());
  const auto now = std::chrono::steady_clock::now();
  if (config_.ttl_ms != 0) status.ttl_left_ms = left_of(config_.ttl_ms, now - began_);
  if (config_.idle_timeout_ms != 0)
    status.idle_left_ms = idle_deadline_ ? left_of(config_.idle_timeout_ms, now - idle_since_)
                                         : config_.idle_timeout_ms;
  status.network_missing = network_.missing();
  status.health = health_.status();
  status.end = end_;
  return status;
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

// ---- the guest ------------------------------------------------------------------------------

void Sandbox::Impl::on_agent_ready() {
  boot_deadline_.reset();
  if (state_ == State::Starting) state_ = State::Running;
  // First of all: what is run next trusts it already.
  if (const std::string authority = network_.authority(); !authority.empty())
    mux_.tell_agent(proto::TrustRequest{authority, named_bundles(config_.env)}.encode());
  watchdog_.start();
  health_.start();
  ports_.start();
  if (!mux_.in_use()) await_use();
  ready_ms_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now() - began_)
                                        .count());
  proto::MonitorRequest stats;
  stats.kind = proto::MonitorRequestKind::Stats;
  monitor_->send(stats);
  for (const Asker asker : std::exchange(ready_askers_, {})) mux_.answer(asker, proto::encode_ok());
}

void Sandbox::Impl::on_agent_lost(AgentLoss loss, const std::string& why) {
  watchdog_.stop();
  health_.stop();
  if (verdict_) return;
  if (loss == AgentLoss::BrokeProtocol) return kill(EndReason::Crashed, why);
  // While it stops, the agent goes before the machine does. At any other time its end is the
  // guest's: the kernel panics, reboots or powers off, and that report comes first. A guest that
  // goes on without its agent is of no use.
  if (state_ != State::Stopping)
    stop_deadline_ = loop_->after(kLastWords, [this, why] { kill(EndReason::Crashed, why); });
}

void Sandbox::Impl::on_guest_connect(uint64_t stream, uint32_t port) {
  proto::MonitorRequest answer;
  answer.stream = stream;
  answer.kind = proto::MonitorRequestKind::Refuse;
  std::optional<sys::Fd> end;
  std::optional<sys::Fd> agent;
  if (port == proto::kAgentPort) {
    // The first caller is PID 1: nothing else runs in the guest before it has called. Later callers
    // are impostors.
    if (!agent_taken_) {
      auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
      agent = std::move(ours);
      end = std::move(theirs);
    }
  } else {
    end = vsock_.dial(port);
  }
  if (end) answer.kind = proto::MonitorRequestKind::Accept;
  monitor_->send(answer, end ? std::optional(end->get()) : std::nullopt);
  if (!agent) return;
  agent_taken_ = true;
  mux_.set_agent(std::move(*agent));
}

void Sandbox::Impl::on_monitor_event(const proto::MonitorEvent& event) {
  switch (event.kind) {
    case proto::MonitorEventKind::Running:
      return;
    case proto::MonitorEventKind::Stats:
      return record_boot(event);
    case proto::MonitorEventKind::Memory:
      return answer_memory(proto::encode_ok(event.memory.encode()));
    case proto::MonitorEventKind::GuestConnect:
      return on_guest_connect(event.stream, event.port);
    case proto::MonitorEventKind::Ended:
      break;
  }
  if (verdict_) return;
  SandboxEnd end;
  end.detail = printable(event.detail, proto::kMaxMessage / 8);
  switch (event.cause) {
    case proto::EndCause::PoweredOff:
      end.reason = state_ == State::Stopping ? EndReason::Stopped : EndReason::Exited;
      break;
    case proto::EndCause::Rebooted:
      end.reason = EndReason::Rebooted;
      break;
    case proto::EndCause::Panicked:
      end.reason = is_out_of_memory(end.detail) ? EndReason::OutOfMemory : EndReason::Panic;
      break;
    case proto::EndCause::Stopped:
      end.reason = EndReason::Stopped;
      break;
    case proto::EndCause::Failed:
      end.reason = state_ == State::Starting ? EndReason::StartFailed : EndReason::HostFault;
      break;
  }
  if (state_ == State::Starting && end.reason == EndReason::Exited) {
    end.reason = EndReason::StartFailed;
    if (end.detail.empty()) end.detail = "the guest powered off before it was ready; see mvm logs";
  }
  verdict_ = std::move(end);
  // It said that it ends; should it not, it is made to.
  stop_deadline_ = loop_->after(kLastWords, [this] { monitor_->kill(); });
}

void Sandbox::Impl::record_boot(const proto::MonitorEvent& stats) {
  if (std::exchange(boot_recorded_, true)) return;
  try {
    write_boot_record(data_.get(), ready_ms_, stats.counters);
  } catch (const Error& error) {
    // A figure lost, and nothing else.
    std::fprintf(stderr, "mvm sandbox: recording the boot: %s\n", error.what());
  }
}

void Sandbox::Impl::on_monitor_exit(sys::ExitStatus status) {
  if (!verdict_) {
    // Without its number: the one that we know is of our own pid namespace, and nobody else's.
    std::string detail = "the monitor was " + status.text();
    if (status.signal == 0) detail = "the monitor ended without a word: " + status.text();
    if (!monitor_->fault().empty())
      detail = "the monitor was killed: " + monitor_->fault();
    else if (status.signal == SIGKILL)
      detail += ", by hand or by the host's out-of-memory killer";
    verdict_ = SandboxEnd{state_ == State::Starting ? EndReason::StartFailed : EndReason::Crashed,
                          std::move(detail)};
  }
  finish(*verdict_);
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
