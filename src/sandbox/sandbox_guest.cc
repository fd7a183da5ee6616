// What comes from the guest: its agent's word, its calls by vsock, and by its monitor how it ends.
#include <algorithm>
#include <csignal>
#include <cstdio>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/socket.h"

#include "exit_record.h"
#include "sandbox_impl.h"

namespace mvm::sandbox {

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

// The kernel's last words when it panics for want of memory (mm/oom_kill.c). They are the guest's,
// and so is what they are used for: how its end is called.
static bool is_out_of_memory(std::string_view panic) {
  return panic.find("Out of memory") != panic.npos || panic.find("out of memory") != panic.npos ||
         panic.find("deadlocked on memory") != panic.npos;
}

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

}
