#pragma once
// The parts of a sandbox, and what state it is in: Starting until the agent has said hello,
// Running, Stopping once it was asked to end, and Ended when the monitor's process is gone. Ended
// happens exactly once, in finish(), whatever led there.

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/sandbox/sandbox.h"

#include "ai_meter.h"
#include "audit_trail.h"
#include "health.h"
#include "monitor_link.h"
#include "mux.h"
#include "network.h"
#include "pii.h"
#include "policy_desk.h"
#include "ports.h"
#include "vsock_bridge.h"
#include "watchdog.h"
#include "withhold.h"

namespace mvm::sandbox {

using proto::EndReason;
using proto::SandboxEnd;

// What is left of a grace once the guest's processes have ended, at the most: to write out what is
// to be written, and power off.
inline constexpr std::chrono::milliseconds kPowerOffTime{2'000};
// How long a guest whose agent is gone has to say why.
inline constexpr std::chrono::seconds kLastWords{5};

enum class State { Starting, Running, Stopping, Ended };

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

}
