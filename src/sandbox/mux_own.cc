// Streams that the sandbox itself has with the agent.
#include <algorithm>
#include <utility>

#include "mux.h"

namespace mvm::sandbox {

using proto::Frame;
using proto::FrameType;

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

}
