// How a stream lives: a client's Request takes a number on the agent's connection; frames are
// carried both ways under the two numbers; the agent's End frees both. A client that goes away
// leaves its streams behind as nobody's, with a Cancel, until the agent has ended them: a number is
// never used again while the agent may still speak on it.
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

static Bytes hello(std::string_view role) {
  proto::Hello greeting;
  greeting.role = role;
  greeting.software = kSoftware;
  return greeting.encode();
}

static Bytes refusal(Kind kind, std::string message) {
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
  added.channel->send(proto::kConnectionStream, FrameType::Hello, hello("sandbox"));
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

// ---- the agent ------------------------------------------------------------------------------

void Mux::set_agent(sys::Fd fd) {
  agent_ = std::make_unique<Channel>(
      *loop_, std::move(fd),
      Channel::Handlers{
          [this](const Frame& frame) { on_agent_frame(frame); },
          [this] {
            if (agent_->broke_protocol())
              lose_agent(AgentLoss::BrokeProtocol, "the guest's agent does not speak the protocol");
            else
              lose_agent(AgentLoss::Ended, "the connection to the guest's agent ended");
          },
          [this] { throttle_clients(); }});
  agent_->send(proto::kConnectionStream, FrameType::Hello, hello("sandbox"));
}

uint32_t Mux::next_stream() {
  do {
    ++next_stream_;
  } while (next_stream_ == proto::kConnectionStream || agent_streams_.contains(next_stream_));
  return next_stream_;
}

void Mux::tell_agent(ByteView request) { ask_agent(request, {}); }

void Mux::ask_agent(ByteView request, std::function<void()> answered) {
  if (!agent_ready_) return;
  next_stream();
  agent_streams_[next_stream_].answered = std::move(answered);
  agent_->send(next_stream_, FrameType::Request, request);
}

void Mux::on_agent_frame(const Frame& frame) {
  if (frame.stream == proto::kConnectionStream) {
    const auto greeting =
        frame.type == FrameType::Hello ? proto::Hello::decode(frame.payload) : std::nullopt;
    if (!greeting || agent_ready_)
      return lose_agent(AgentLoss::BrokeProtocol, "the guest's agent does not speak the protocol");
    if (greeting->version != proto::kProtocolVersion)
      return lose_agent(AgentLoss::BrokeProtocol, "the guest's agent speaks version " +
                                                      std::to_string(greeting->version) +
                                                      " of the protocol");
    agent_ready_ = true;
    handlers_.on_agent_ready();
    std::vector<std::pair<ClientId, uint32_t>> waiting;
    for (auto& [id, each] : clients_) {
      each.channel->pause_reading(false);
      for (const auto& [stream, state] : each.streams)
        if (state.target == Target::Waiting) waiting.emplace_back(id, stream);
    }
    for (const auto& [id, stream] : waiting) {
      if (!agent_ready_) return;  // lost again: end_all() answers the rest
      Client* each = client(id);
      if (each == nullptr) continue;
      ClientStream& state = each->streams.at(stream);
      forward_request(id, stream, state, std::exchange(state.request, {}));
    }
    return;
  }
  const auto found = agent_streams_.find(frame.stream);
  if (!agent_ready_ || found == agent_streams_.end())
    return lose_agent(AgentLoss::BrokeProtocol,
                      "the guest's agent spoke on a stream that nobody opened");
  AgentStream& from = found->second;
  if (from.own) return on_own_frame(from, frame);
  Client* to = client(from.client);
  switch (frame.type) {
    case FrameType::Data:
    case FrameType::Stdout:
    case FrameType::Stderr:
      if (to == nullptr) return;  // nobody reads: what was in flight is dropped
      if (frame.payload.size() > from.from_agent.available())
        return lose_agent(AgentLoss::BrokeProtocol,
                          "the guest's agent sent more than it was allowed to");
      from.from_agent.spend(frame.payload.size());
      break;
    case FrameType::Window: {
      const auto credit = proto::decode_window(frame.payload);
      if (!credit || !from.from_client.grant(*credit))
        return lose_agent(AgentLoss::BrokeProtocol,
                          "the guest's agent gave more credit than it had");
      break;
    }
    case FrameType::Eof:
    case FrameType::Event:
      break;
    case FrameType::End: {
      const ClientId id = from.client;
      const uint32_t stream = from.stream;
      const auto answered = std::move(from.answered);
      const std::string run = std::move(from.run);
      agent_streams_.erase(found);
      if (answered) return answered();
      tell_end(run, proto::End::decode(frame.payload));
      if (to != nullptr && proto::End::decode(frame.payload))
        return end_client_stream(id, stream, frame.payload);
      if (to != nullptr)
        end_client_stream(
            id, stream,
            refusal(Kind::Unavailable, "the guest's agent sent a result that does not decode"));
      return;
    }
    default:
      return lose_agent(AgentLoss::BrokeProtocol,
                        "the guest's agent sent a frame that only clients send");
  }
  if (to == nullptr) return;
  // Small frames need no credit, and their number is the conversation's; a flood of them is not.
  const size_t fair =
      (to->streams.size() + 1) * (size_t{proto::kInitialWindow} + proto::kMaxPayload);
  if (!proto::is_bulk(frame.type) && to->channel->queued() > fair)
    return lose_agent(AgentLoss::BrokeProtocol, "the guest's agent floods its streams");
  to->channel->send(from.stream, frame.type, frame.payload);
}

// ---- streams of our own ---------------------------------------------------------------------

std::vector<sys::Fd> Mux::take_descriptors(ClientId id) {
  Client* const from = client(id);
  if (from == nullptr) return {};
  return from->channel->take_descriptors();
}

uint32_t Mux::open_stream(ByteView request, StreamHandlers handlers, Use use) {
  if (!agent_ready_ || agent_streams_.size() >= proto::kMaxStreams) return 0;
  const uint32_t number = next_stream();
  agent_streams_[number].own = std::make_shared<OwnStream>(OwnStream{std::move(handlers), use});
  if (use == Use::Counted) count_command(+1);
  agent_->send(number, FrameType::Request, request);
  return number;
}

size_t Mux::room(uint32_t stream) const {
  const auto found = agent_streams_.find(stream);
  if (found == agent_streams_.end() || !agent_ || throttled_) return 0;
  return std::min(found->second.from_client.available(), proto::kMaxPayload);
}

void Mux::send(uint32_t stream, FrameType type, ByteView payload) {
  const auto found = agent_streams_.find(stream);
  if (found == agent_streams_.end() || !agent_) return;
  if (proto::is_bulk(type)) found->second.from_client.spend(payload.size());
  agent_->send(stream, type, payload);
  throttled_ = agent_ && agent_->queued() > kAgentQueueHigh;
}

void Mux::consumed(uint32_t stream, size_t length) {
  const auto found = agent_streams_.find(stream);
  if (found == agent_streams_.end() || !agent_) return;
  const auto credit = found->second.own->received.consume(length);
  if (!credit) return;
  Bytes payload;
  Writer(payload).u32(*credit);
  agent_->send(stream, FrameType::Window, payload);
}

void Mux::drop_stream(uint32_t stream) {
  const auto found = agent_streams_.find(stream);
  if (found == agent_streams_.end() || std::exchange(found->second.own->dropped, true)) return;
  if (found->second.own->use == Use::Counted) count_command(-1);
  // It lives on, as nobody's, until the agent has ended it.
  if (agent_) agent_->send(stream, FrameType::Cancel);
}

void Mux::end_own_stream(uint32_t stream, const std::optional<proto::End>& end) {
  const auto found = agent_streams_.find(stream);
  if (found == agent_streams_.end()) return;
  const std::shared_ptr<OwnStream> own = std::move(found->second.own);
  agent_streams_.erase(found);
  if (own->dropped) return;
  if (own->use == Use::Counted) count_command(-1);
  own->handlers.on_end(end);
}

void Mux::on_own_frame(AgentStream& stream, const Frame& frame) {
  const std::shared_ptr<OwnStream> own = stream.own;
  switch (frame.type) {
    case FrameType::Data:
    case FrameType::Stdout:
    case FrameType::Stderr:
      if (!own->received.receive(frame.payload.size()))
        return lose_agent(AgentLoss::BrokeProtocol,
                          "the guest's agent sent more than it was allowed to");
      break;
    case FrameType::Eof:
    case FrameType::Event:
      break;
    case FrameType::Window: {
      const auto credit = proto::decode_window(frame.payload);
      if (!credit || !stream.from_client.grant(*credit))
        return lose_agent(AgentLoss::BrokeProtocol,
                          "the guest's agent gave more credit than it had");
      if (!own->dropped) own->handlers.on_room();
      return;
    }
    case FrameType::End:
      return end_own_stream(frame.stream, proto::End::decode(frame.payload));
    default:
      return lose_agent(AgentLoss::BrokeProtocol,
                        "the guest's agent sent a frame that only clients send");
  }
  if (!own->dropped) own->handlers.on_frame(frame);
}

void Mux::tell_end(const std::string& run, const std::optional<proto::End>& end) {
  if (run.empty() || !handlers_.on_run_end) return;
  handlers_.on_run_end(run,
                       end && !end->error ? proto::ExecResult::decode(end->result) : std::nullopt);
}

void Mux::end_runs() {
  for (auto& [number, stream] : agent_streams_) tell_end(std::exchange(stream.run, {}), {});
}

void Mux::lose_agent(AgentLoss loss, std::string why) {
  if (!agent_) return;
  agent_->abandon();
  closed_.push_back(std::exchange(agent_, nullptr));
  loop_->post([this] { closed_.clear(); });
  agent_ready_ = false;
  end_runs();
  // Those of our own end in a later turn: their owner may be the one who is sending just now.
  std::erase_if(agent_streams_, [](const auto& each) { return !each.second.own; });
  loop_->post([this] {
    while (!agent_streams_.empty()) end_own_stream(agent_streams_.begin()->first, {});
  });
  throttle_clients();
  handlers_.on_agent_lost(loss, std::move(why));
}

}
