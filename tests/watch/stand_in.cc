#include "stand_in.h"

#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/loop/loop.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "../../src/sandbox/mux.h"
#include "../../src/sandbox/vsock_bridge.h"
#include "unit/build/native.h"

namespace mvm::watch {
namespace {

using sandbox::Asker;

class StandIn {
 public:
  StandIn(proto::SandboxConfig config, std::vector<sys::Fd> fds)
      : config_(std::move(config)),
        fds_(std::move(fds)),
        mux_(loop_, config_,
             {[this](Asker asker, ByteView request) { answer(asker, request); },
              [this] {
                for (const Asker asker : std::exchange(waiting_, {}))
                  mux_.answer(asker, proto::encode_ok());
              },
              [this](sandbox::AgentLoss, const std::string&) { loop_.stop(); }, [] {}}) {
    config_.user.clear();  // there is one user in there
    const int data = fds_.at(static_cast<size_t>(proto::SandboxFd::Data)).get();
    const std::filesystem::path here =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(data));
    const std::string root =
        sys::read_text_file(here.parent_path().parent_path() / kRootFile, 4096);
    build::prepare_work(here / "builder");
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    agent_ = build::start_agent(root, here / "builder", theirs.get(), lanes_);
    mux_.set_agent(std::move(ours));
    const int control = fds_.at(static_cast<size_t>(proto::SandboxFd::Control)).get();
    vsock_.emplace(loop_, std::move(fds_.at(static_cast<size_t>(proto::SandboxFd::Vsock))),
                   std::move(fds_.at(static_cast<size_t>(proto::SandboxFd::Runtime))),
                   [this](sys::Fd fd, uint32_t port) { carry(std::move(fd), port); });
    clients_ = loop_.watch(control, EPOLLIN, [this, control](uint32_t) {
      if (auto client = sys::accept_connection(control)) mux_.add_client(std::move(*client));
    });
  }
  void run() { loop_.run(); }

 private:
  // In the monitor's place. Ends with the process at the latest.
  void carry(sys::Fd from, uint32_t port) {
    std::thread([from = std::move(from), to = lanes_.dial(port), port] {
      try {
        sys::set_nonblocking(from.get(), false);
        sys::write_all(from.get(), as_bytes("OK " + std::to_string(port) + "\n"));
        Bytes piece(size_t{64} << 10);
        while (const size_t got = sys::read_some(from.get(), piece).value_or(0))
          sys::write_all(to.get(), ByteView(piece).first(got));
        ::shutdown(to.get(), SHUT_WR);
        sys::read_some(to.get(), piece);  // its end
      } catch (const Error&) {            // NOLINT(bugprone-empty-catch)
        // Both ends see that it has ended.
      }
    }).detach();
  }

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
  build::Lanes lanes_;
  sys::Child agent_;
  sandbox::Mux mux_;
  std::optional<sandbox::VsockBridge> vsock_;
  loop::Watch clients_;
};

}

int run_stand_in() {
  // What its machine would be built on: it has none.
  static_cast<void>(sys::receive_message(proto::kConfigFd, proto::kMaxBaseMessage));
  auto message = sys::receive_message(proto::kConfigFd, proto::kMaxConfigMessage);
  auto config = message ? proto::SandboxConfig::decode(message->data) : std::nullopt;
  if (!config) return 1;
  StandIn(std::move(*config), std::move(message->fds)).run();
  return 0;
}

}
