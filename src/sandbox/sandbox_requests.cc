// What clients and the daemon ask of the sandbox itself.
#include <algorithm>

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/proto/console.h"
#include "mvm/sys/error.h"

#include "console.h"
#include "sandbox_impl.h"

namespace mvm::sandbox {

// So many may wait for figures of the guest's memory; a monitor answers all of them at once.
static constexpr size_t kMaxMemoryAskers = 64;

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

}
