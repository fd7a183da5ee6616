#include "fake_sandbox.h"

#include <chrono>
#include <list>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mvm/proto/control.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/ports.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/proto/secrets.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::daemon {

namespace {

struct Client {
  sys::Fd fd;
  proto::FrameDecoder decoder;
  std::vector<sys::Fd> passed;
};

class FakeSandbox {
 public:
  FakeSandbox(proto::SandboxConfig config, proto::SecretsConfig secrets, std::vector<sys::Fd> fds)
      : config_(std::move(config)), secrets_(std::move(secrets)), fds_(std::move(fds)) {
    for (const auto& [name, value] : config_.env)
      if (name == "FAKE") manner_ = value;
  }

  int run() {
    // In the monitor's place: a child that ends with us.
    if (const pid_t parent = ::getpid(); ::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) ::pause();
      ::_exit(0);
    }
    console("hello from " + config_.name + "\n");
    for (const auto& [name, value] : config_.env)
      if (name == "TOLD") console("variable TOLD of " + std::to_string(value.size()) + " bytes\n");
    if (manner_ == "names")
      for (const auto& [name, value] : config_.env) console("variable " + name + "\n");
    for (const auto& [name, value] : secrets_.values)
      console("secret " + name + " of " + std::to_string(value.size()) + " bytes\n");
    if (config_.audit.strict) console("strict\n");
    if (manner_ == "failed") return end("start_failed", "the host has no KVM");
    while (true) {
      std::vector<pollfd> entries{{fd(proto::SandboxFd::Control), POLLIN, 0}};
      for (const Client& client : clients_) entries.push_back({client.fd.get(), POLLIN, 0});
      ::poll(entries.data(), entries.size(), -1);
      auto entry = entries.begin() + 1;
      for (auto client = clients_.begin(); client != clients_.end(); ++entry) {
        if (entry->revents == 0 || serve(*client)) {
          ++client;
        } else {
          client = clients_.erase(client);
        }
        if (ended_) return 0;
      }
      if (entries[0].revents != 0)
        clients_.push_back({*sys::accept_connection(fd(proto::SandboxFd::Control)), {}, {}});
    }
  }

 private:
  int fd(proto::SandboxFd which) const { return fds_.at(static_cast<size_t>(which)).get(); }

  void console(const std::string& text) {
    ::lseek(fd(proto::SandboxFd::ConsoleLog), 0, SEEK_END);
    sys::write_all(fd(proto::SandboxFd::ConsoleLog), as_bytes(text));
  }

  int end(const std::string& reason, const std::string& detail) {
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    const int64_t ended_at = manner_ == "today" ? now : 1'700'000'000'123;
    const std::string json = R"({"reason":")" + reason + R"(","detail":")" + detail +
                             R"(","ended_at_unix_ms":)" + std::to_string(ended_at) + "}";
    const sys::Fd file =
        sys::open_at(fd(proto::SandboxFd::Data), "exit.json", O_WRONLY | O_CREAT | O_EXCL);
    sys::write_all(file.get(), as_bytes(json));
    ended_ = true;
    return 0;
  }

  void answer(Client& client, uint32_t stream, ByteView payload) {
    Bytes out;
    proto::append_frame(out, stream, proto::FrameType::End, payload);
    sys::write_all(client.fd.get(), out);
  }

  void request(Client& client, uint32_t stream, ByteView payload) {
    const auto verb = proto::request_verb(payload).value_or("");
    if (verb == proto::kSandboxReadyVerb) {
      if (manner_ == "never") return;
      if (manner_ == "garbage") return sys::write_all(client.fd.get(), as_bytes("HTTP/1.1 200 OK"));
      answer(client, stream, proto::encode_ok());
      if (manner_ == "quits") end("exited", "");
    } else if (verb == proto::kSandboxStatusVerb) {
      proto::SandboxStatus status;
      status.id = config_.id;
      status.name = config_.name;
      status.state = "running";
      status.sandbox_pid = static_cast<uint32_t>(::getpid());
      status.monitor_pid = 4242;
      if (config_.ttl_ms != 0) status.ttl_left_ms = config_.ttl_ms / 2;
      if (config_.idle_timeout_ms != 0) status.idle_left_ms = config_.idle_timeout_ms / 4;
      if (config_.health)
        status.health =
            proto::HealthStatus{proto::Health::Unhealthy, 3, 4,
                                proto::HealthResult{1'767'323'045'006, 7, "",
                                                    config_.health->command[0] + "\n\x1b[2J"}};
      answer(client, stream, proto::encode_ok(status.encode()));
    } else if (verb == proto::kSandboxPortsVerb) {
      answer(client, stream, proto::encode_ok(published_.encode()));
    } else if (verb == proto::kSandboxPublishVerb) {
      if (manner_ == "portless")
        return answer(client, stream, proto::encode_error({Kind::Internal, "no ports here"}));
      const auto asked = proto::PublishRequest::decode(payload);
      // Whoever connects finds somebody: it is the sandbox's listener, not the daemon's.
      for (const auto& port : asked->ports) published_.ports.push_back(port);
      for (sys::Fd& listener : client.passed) listeners_.push_back(std::move(listener));
      client.passed.clear();
      answer(client, stream, proto::encode_ok());
    } else if (verb == proto::kSandboxUnpublishVerb) {
      const auto asked = proto::UnpublishRequest::decode(payload);
      for (size_t i = 0; i < published_.ports.size(); ++i) {
        if (published_.ports[i].place() != asked->port.place()) continue;
        published_.ports.erase(published_.ports.begin() + static_cast<ptrdiff_t>(i));
        listeners_.erase(listeners_.begin() + static_cast<ptrdiff_t>(i));
        return answer(client, stream, proto::encode_ok());
      }
      answer(client, stream, proto::encode_error({Kind::NotFound, "none"}));
    } else if (verb == proto::kExecVerb) {
      // The one command there is: prints a file of the host's.
      const auto asked = proto::ExecRequest::decode(payload);
      Bytes out;
      proto::append_frame(out, proto::kConnectionStream, proto::FrameType::Hello,
                          proto::Hello{}.encode());
      proto::append_frame(out, stream, proto::FrameType::Stdout,
                          sys::read_file(asked->argv.at(1), proto::kMaxPayload));
      sys::write_all(client.fd.get(), out);
      answer(client, stream, proto::encode_ok(proto::ExecResult{}.encode()));
    } else if (verb == proto::kSandboxStopVerb && manner_ != "stubborn") {
      const auto asked = proto::StopRequest::decode(payload);
      console("bye\n");
      end(asked && asked->kill ? "killed" : "stopped", "");
      proto::SandboxEnd how;
      how.reason = proto::EndReason::Stopped;
      answer(client, stream, proto::encode_ok(how.encode()));
    }
  }

  // False when the client has gone.
  bool serve(Client& client) {
    const auto got = sys::receive_some(client.fd.get(), client.decoder.space(), client.passed);
    if (got && *got == 0) return false;
    client.decoder.commit(got.value_or(0));
    while (const auto frame = client.decoder.next())
      if (frame->type == proto::FrameType::Request) request(client, frame->stream, frame->payload);
    return true;
  }

  proto::SandboxConfig config_;
  proto::SecretsConfig secrets_;
  std::vector<sys::Fd> fds_;
  std::string manner_;
  std::list<Client> clients_;
  proto::PortList published_;
  std::vector<sys::Fd> listeners_;
  bool ended_ = false;
};

}

int run_fake_sandbox() {
  const auto first = sys::receive_message(proto::kConfigFd, proto::kMaxBaseMessage);
  if (!first || first->data.empty()) return 3;  // the daemon went before it said go
  if (!proto::MachineBase::decode(first->data) ||
      first->fds.size() != static_cast<size_t>(proto::BaseFd::Count))
    return 6;
  auto message = sys::receive_message(proto::kConfigFd, proto::kMaxConfigMessage);
  if (!message || message->data.empty()) return 3;  // the daemon went before it said go
  auto config = proto::SandboxConfig::decode(message->data);
  if (!config || message->fds.size() != static_cast<size_t>(proto::SandboxFd::Count) -
                                            (config->kept_path.empty() ? 1 : 0))
    return 4;
  proto::SecretsConfig secrets;
  if (config->secrets) {
    const auto behind = sys::receive_message(proto::kConfigFd, proto::kMaxSecretsMessage);
    auto decoded = behind ? proto::SecretsConfig::decode(behind->data) : std::nullopt;
    if (!decoded) return 5;
    secrets = std::move(*decoded);
  }
  sys::set_nonblocking(message->fds[0].get());
  return FakeSandbox(std::move(*config), std::move(secrets), std::move(message->fds)).run();
}

}
