// The agent's side of the Mux: nothing it says is believed before it is checked.
#include <algorithm>
#include <utility>

#include "mux.h"

namespace mvm::sandbox {

using proto::Frame;
using proto::FrameType;

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
  agent_->send(proto::kConnectionStream, FrameType::Hello, hello());
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
