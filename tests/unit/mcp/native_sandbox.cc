#include "native_sandbox.h"

#include <sys/epoll.h>

#include "mvm/proto/control.h"
#include "mvm/sys/socket.h"

#include "../../../src/sandbox/mux.h"

namespace mvm::mcp {

NativeSandbox::NativeSandbox(std::string socket, proto::Profile profile)
    : listener_(sys::listen_unix(socket)) {
  config_.profile = profile;
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  agent_socket_ = std::move(ours);
  sys::SpawnOptions options;
  options.argv = {MVM_AGENT, "--serve-fd", "3"};
  options.env = {"PATH=/usr/bin:/bin"};
  options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
  options.die_with_parent = true;
  agent_ = sys::spawn(options);
  thread_ = std::thread([this] { serve(); });
}

NativeSandbox::~NativeSandbox() {
  loop_.stop();
  thread_.join();
  agent_.wait();
}

void NativeSandbox::serve() {
  sandbox::Mux* answering = nullptr;
  sandbox::Mux mux(loop_, config_,
                   {[&](sandbox::Asker asker, ByteView request) {
                      const auto verb = proto::request_verb(request).value_or("");
                      proto::SandboxStatus status;
                      status.id = "sb-native";
                      status.state = "running";
                      answering->answer(asker,
                                        verb == proto::kSandboxStatusVerb
                                            ? proto::encode_ok(status.encode())
                                            : proto::encode_error({Kind::Unsupported, "no"}));
                    },
                    [] {}, [](sandbox::AgentLoss, const std::string&) {}, [] {}});
  answering = &mux;
  mux.set_agent(std::move(agent_socket_));
  const loop::Watch clients = loop_.watch(listener_.get(), EPOLLIN, [&](uint32_t) {
    if (auto client = sys::accept_connection(listener_.get())) mux.add_client(std::move(*client));
  });
  loop_.run();
}

}
