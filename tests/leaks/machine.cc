#include "machine.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/epoll.h>

#include "mvm/loop/loop.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "../../src/sandbox/audit_trail.h"
#include "../../src/sandbox/mux.h"

namespace mvm::leaks {
namespace {

using sandbox::Asker;

class Machine {
 public:
  Machine(proto::SandboxConfig config, std::vector<sys::Fd> fds)
      : config_(std::move(config)),
        fds_(std::move(fds)),
        audit_(loop_, config_.id, config_.audit, std::move(fd(proto::SandboxFd::AuditLog)),
               std::move(fd(proto::SandboxFd::AuditFile)), [](const auto&) {}),
        mux_(loop_, config_,
             {[this](Asker asker, ByteView request) { answer(asker, request); },
              [this] {
                for (const Asker asker : std::exchange(waiting_, {}))
                  mux_.answer(asker, proto::encode_ok());
              },
              [this](sandbox::AgentLoss, const std::string&) { loop_.stop(); }, [] {}, [](bool) {},
              [this](const std::string& run) -> std::optional<std::string> {
                if (!audit_.record(audit::ExecStarted{audit::RunId(run)})) return audit_.why();
                return std::nullopt;
              },
              [this](const std::string& run, const std::optional<proto::ExecResult>& result) {
                audit_.record_end(run, result);
              }}) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::SpawnOptions options;
    options.argv = {MVM_AGENT, "--serve-fd", "3"};
    options.env = {"PATH=/usr/bin:/bin"};
    options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
    options.die_with_parent = true;
    agent_ = sys::spawn(options);
    mux_.set_agent(std::move(ours));
    const int control = fd(proto::SandboxFd::Control).get();
    clients_ = loop_.watch(control, EPOLLIN, [this, control](uint32_t) {
      if (auto client = sys::accept_connection(control)) mux_.add_client(std::move(*client));
    });
  }
  void run() {
    loop_.run();
    audit_.close();
  }

 private:
  sys::Fd& fd(proto::SandboxFd which) { return fds_.at(static_cast<size_t>(which)); }

  void answer(Asker asker, ByteView request) {
    const auto verb = proto::request_verb(request).value_or("");
    if (verb == proto::kSandboxReadyVerb && !mux_.agent_ready()) {
      waiting_.push_back(asker);
    } else if (verb == proto::kSandboxReadyVerb) {
      mux_.answer(asker, proto::encode_ok());
    } else if (verb == proto::kSandboxStatusVerb) {
      proto::SandboxStatus status;
      status.state = "running";
      mux_.answer(asker, proto::encode_ok(status.encode()));
    } else if (verb == proto::kSandboxStopVerb) {
      mux_.answer(asker,
                  proto::encode_ok(proto::SandboxEnd{proto::EndReason::Stopped, ""}.encode()));
      loop_.stop();
    } else {
      mux_.answer(asker, proto::encode_error({Kind::Unsupported, "no such request"}));
    }
  }

  loop::Loop loop_;
  proto::SandboxConfig config_;
  std::vector<sys::Fd> fds_;
  std::vector<Asker> waiting_;
  sandbox::AuditTrail audit_;
  sys::Child agent_;
  sandbox::Mux mux_;
  loop::Watch clients_;
};

}

int run_machine() {
  // What its machine would be built on: it has none.
  static_cast<void>(sys::receive_message(proto::kConfigFd, proto::kMaxBaseMessage));
  auto message = sys::receive_message(proto::kConfigFd, proto::kMaxConfigMessage);
  auto config = message ? proto::SandboxConfig::decode(message->data) : std::nullopt;
  if (!config) return 1;
  Machine(std::move(*config), std::move(message->fds)).run();
  return 0;
}

}
