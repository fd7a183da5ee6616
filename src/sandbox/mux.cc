// How a stream lives: a client's Request takes a number on the agent's connection; frames are
// carried both ways under the two numbers; the agent's End frees both. A client that goes away
// leaves its streams behind as nobody's, with a Cancel, until the agent has ended them: a number is
// never used again while the agent may still speak on it. Here is the clients' side.
#include "mux.h"

#include <algorithm>
#include <utility>

#include "mvm/audit/fields.h"
#include "mvm/base/text.h"
#include "mvm/crypto/random.h"

namespace mvm::sandbox {

using proto::Frame;
using proto::FrameType;

static constexpr std::string_view kSoftware = "mvm";

Bytes Mux::hello() {
  proto::Hello greeting;
  greeting.role = "sandbox";
  greeting.software = kSoftware;
  return greeting.encode();
}

Bytes Mux::refusal(Kind kind, std::string message) {
  return proto::encode_error({kind, std::move(message)});
}

Mux::Mux(loop::Loop& loop, const proto::SandboxConfig& config, Handlers handlers)
    : loop_(&loop), config_(&config), handlers_(std::move(handlers)), gate_(config.profile) {}

Mux::Client* Mux::client(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

// ---- clients --------------------------------------------------------------------------------

void Mux::add_client(sys::Fd fd) {
  if (clients_.size() >= kMaxClients) return;  // the client sees its connection end
  const ClientId id = next_client_++;
  Client& added = clients_[id];
  added.channel = std::make_unique<Channel>(
      *loop_, std::move(fd),
      Channel::Handlers{[this, id](const Frame& frame) { on_client_frame(id, frame); },
                        [this, id] { drop_client(id); },
                        {}},
      Channel::Descriptors::Taken);
  added.channel->send(proto::kConnectionStream, FrameType::Hello, hello());
}

void Mux::count_command(int change) {
  const bool before = in_use();
  commands_ += static_cast<size_t>(change);
  if (before != in_use() && handlers_.on_use) handlers_.on_use(in_use());
}

void Mux::drop_client(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  auto node = clients_.extract(found);
  node.mapped().channel->abandon();
  closed_.push_back(std::move(node.mapped().channel));
  loop_->post([this] { closed_.clear(); });
  for (const auto& [stream, state] : node.mapped().streams) {
    if (state.target != Target::Own) count_command(-1);
    if (state.target != Target::Agent) continue;
    const auto agent_stream = agent_streams_.find(state.agent_stream);
    if (agent_stream == agent_streams_.end()) continue;
    agent_stream->second.client = 0;
    // Ends the command, or lets a detached one go: either way nobody reads its output.
    if (agent_) agent_->send(agent_stream->first, FrameType::Cancel);
  }
  if (clients_.empty()) handlers_.on_last_client_gone();
}

void Mux::on_client_frame(ClientId id, const Frame& frame) {
  Client* const sender = client(id);
  if (sender == nullptr) return;
  Client& from = *sender;
  if (!from.greeted) {
    const auto greeting =
        frame.type == FrameType::Hello ? proto::Hello::decode(frame.payload) : std::nullopt;
    if (!greeting || greeting->version != proto::kProtocolVersion) return drop_client(id);
    from.greeted = true;
    return;
  }
  if (frame.stream == proto::kConnectionStream) return drop_client(id);
  if (frame.type == FrameType::Request) return on_client_request(id, from, frame);

  const auto stream = from.streams.find(frame.stream);
  if (stream == from.streams.end()) return;  // crossed with its End
  ClientStream& state = stream->second;
  if (state.target == Target::Own) return;
  if (state.target == Target::Waiting) {
    // Until the agent is there a client may only give up; its data waits in its own socket.
    if (frame.type == FrameType::Cancel)
      end_client_stream(id, frame.stream,
                        refusal(Kind::Unavailable, "cancelled before it started"));
    else if (frame.type != FrameType::Window)
      return drop_client(id);
    return;
  }
  if (!agent_) return;  // it is lost, and the end of the sandbox is about to be told
  AgentStream& onward = agent_streams_.at(state.agent_stream);
  switch (frame.type) {
    case FrameType::Data:
      if (frame.payload.size() > onward.from_client.available()) return drop_client(id);
      onward.from_client.spend(frame.payload.size());
      break;
    case FrameType::Window: {
      const auto credit = proto::decode_window(frame.payload);
      if (!credit || !onward.from_agent.grant(*credit)) return drop_client(id);
      break;
    }
    case FrameType::Eof:
    case FrameType::Signal:
    case FrameType::Resize:
    case FrameType::Cancel:
      break;
    default:
      return drop_client(id);  // only a server sends the others
  }
  agent_->send(state.agent_stream, frame.type, frame.payload);
  throttle_clients();
  // Those who send to the agent wait for it; whoever just asks the sandbox does not.
  if (Client* still = client(id); still != nullptr && throttled_)
    still->channel->pause_reading(true);
}

void Mux::on_client_request(ClientId id, Client& from, const Frame& frame) {
  if (from.streams.contains(frame.stream)) return drop_client(id);
  const auto verb = proto::request_verb(frame.payload);
  ClientStream& state = from.streams[frame.stream];
  if (!verb)
    return end_client_stream(id, frame.stream,
                             refusal(Kind::Invalid, "the request does not decode"));
  if (from.streams.size() > proto::kMaxStreams)
    return end_client_stream(
        id, frame.stream, refusal(Kind::Exhausted, "too many requests at once on this connection"));
  if (verb->starts_with(proto::kSandboxVerbPrefix))
    return handlers_.on_request({id, frame.stream}, frame.payload);
  if (const auto refusal = gate_.refuse(*verb))
    return end_client_stream(id, frame.stream, proto::encode_error(*refusal));
  state.target = Target::Waiting;
  count_command(+1);
  if (!agent_ready_) {
    state.request.assign(frame.payload.begin(), frame.payload.end());
    // Data sent ahead of the agent stays in the client's socket.
    from.channel->pause_reading(true);
    return;
  }
  forward_request(id, frame.stream, state, frame.payload);
}

void Mux::forward_request(ClientId id, uint32_t stream, ClientStream& state, ByteView request) {
  if (agent_streams_.size() >= proto::kMaxStreams)
    return end_client_stream(
        id, stream, refusal(Kind::Exhausted, "the sandbox runs as many commands as it can"));
  std::string run;
  const auto merged = with_defaults(request, run);
  if (!merged || merged->size() > proto::kMaxPayload)
    return end_client_stream(
        id, stream,
        refusal(Kind::Invalid, merged ? "arguments and environment are larger than 64 KiB"
                                      : "the request does not decode"));
  if (!run.empty() && handlers_.on_run)
    if (auto why = handlers_.on_run(run))
      return end_client_stream(
          id, stream,
          refusal(Kind::Exhausted,
                  "the command cannot be recorded, so it does not start: " + *why));
  next_stream();
  state.target = Target::Agent;
  state.agent_stream = next_stream_;
  AgentStream& onward = agent_streams_[next_stream_];
  onward.client = id;
  onward.stream = stream;
  onward.run = std::move(run);
  agent_->send(next_stream_, FrameType::Request, *merged);
}

// A bound of the sandbox on one of its commands: 0 is no bound, on either side.
template <typename T>
static T bounded(T asked, T bound) {
  if (bound == T{}) return asked;
  return asked == T{} ? bound : std::min(asked, bound);
}

static void apply_limits(const proto::SandboxConfig& config, proto::ExecRequest& exec) {
  exec.timeout = bounded(exec.timeout, std::chrono::milliseconds(config.exec_timeout_ms));
  exec.max_output = bounded(exec.max_output, config.exec_output);
  exec.limits.processes = bounded<uint64_t>(exec.limits.processes, config.exec_pids);
}

// An id as ids of runs are, from a client; else one of our own.
static std::string run_id(std::string asked) {
  if (!asked.empty() && audit::RunId(asked).text() == asked) return asked;
  return crypto::random_id("run-");
}

std::optional<Bytes> Mux::with_defaults(ByteView request, std::string& run) const {
  const auto verb = proto::request_verb(request);
  if (verb != proto::kExecVerb) return Bytes(request.begin(), request.end());
  auto exec = proto::ExecRequest::decode(request);
  if (!exec) return std::nullopt;
  run = run_id(std::exchange(exec->run, {}));
  apply_limits(*config_, *exec);
  if (exec->cwd.empty()) exec->cwd = config_->workdir;
  if (exec->user.empty()) exec->user = config_->user;
  if (!exec->clear_env) {
    for (const auto& entry : config_->env) {
      const auto same = [&](const auto& own) { return own.first == entry.first; };
      if (std::none_of(exec->env.begin(), exec->env.end(), same)) exec->env.push_back(entry);
    }
  }
  return exec->encode();
}

std::optional<Bytes> Mux::completed(ByteView exec) const {
  std::string run;  // what the host itself runs is no run of anybody's
  auto request = with_defaults(exec, run);
  if (!request || request->size() > proto::kMaxPayload) return std::nullopt;
  return request;
}

void Mux::end_client_stream(ClientId id, uint32_t stream, ByteView end_payload) {
  Client* to = client(id);
  if (to == nullptr) return;
  const auto found = to->streams.find(stream);
  if (found == to->streams.end()) return;
  const bool command = found->second.target != Target::Own;
  to->streams.erase(found);
  to->channel->send(stream, FrameType::End, end_payload);
  if (command) count_command(-1);
}

void Mux::answer(Asker asker, ByteView end_payload) {
  end_client_stream(asker.client, asker.stream, end_payload);
}

void Mux::throttle_clients() {
  const bool before = throttled_;
  throttled_ = agent_ && agent_->queued() > kAgentQueueHigh;
  if (throttled_) return;
  for (auto& [id, each] : clients_) each.channel->pause_reading(false);
  if (!before) return;
  std::vector<std::shared_ptr<OwnStream>> own;
  for (const auto& [number, stream] : agent_streams_)
    if (stream.own) own.push_back(stream.own);
  for (const auto& each : own)
    if (!each->dropped) each->handlers.on_room();
}

void Mux::end_all(const proto::ErrorReply& error) {
  const Bytes payload = proto::encode_error(error);
  std::vector<ClientId> ids;
  for (const auto& [id, each] : clients_) ids.push_back(id);
  for (const ClientId id : ids) {
    while (Client* each = client(id)) {
      if (each->streams.empty()) {
        each->channel->close_when_sent();
        break;
      }
      end_client_stream(id, each->streams.begin()->first, payload);
    }
  }
}

void Mux::end_commands(const proto::ErrorReply& error) {
  const Bytes payload = proto::encode_error(error);
  std::vector<std::pair<ClientId, uint32_t>> open;
  for (const auto& [id, each] : clients_)
    for (const auto& [stream, state] : each.streams)
      if (state.target != Target::Own) open.emplace_back(id, stream);
  // What the agent still says on them is nobody's.
  for (auto& [number, stream] : agent_streams_) stream.client = 0;
  for (const auto& [id, stream] : open) end_client_stream(id, stream, payload);
}

}
