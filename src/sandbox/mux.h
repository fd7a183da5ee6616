#pragma once
// Many clients, one agent: gives every client stream a number of its own on the agent's connection,
// and takes the sandbox's defaults into each command.
//
// Both sides are bounded here. The agent runs in the guest, so each of its streams may send no more
// than the client has given credit for; an agent that sends more, or on a stream that nobody
// opened, has broken the protocol.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/proto/control.h"
#include "mvm/proto/credit.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/sandbox_config.h"

#include "channel.h"

namespace mvm::sandbox {

using ClientId = uint64_t;

// A stream on which the sandbox itself owes an answer.
struct Asker {
  ClientId client = 0;
  uint32_t stream = 0;
};

enum class AgentLoss { Ended, BrokeProtocol };
// Whether somebody's use of the sandbox is what a stream is for.
enum class Use { Counted, Uncounted };

// What comes of a stream that the sandbox itself has with the agent. None is called within a call
// that the stream's owner makes.
struct StreamHandlers {
  std::function<void(const proto::Frame&)> on_frame;  // Data, Stdout, Stderr, Eof, Event
  std::function<void()> on_room;                      // there is room() again, perhaps
  // Once, and nothing after it: without a value when the agent is lost.
  std::function<void(const std::optional<proto::End>&)> on_end;
};

class Mux {
 public:
  static constexpr size_t kMaxClients = 256;
  // While more than this waits for the agent, clients are not read.
  static constexpr size_t kAgentQueueHigh = 1 << 20;

  struct Handlers {
    // A "sandbox." verb: answer now or later with answer().
    std::function<void(Asker, ByteView request)> on_request;
    // The agent said hello and serves.
    std::function<void()> on_agent_ready;
    // The agent's connection is over; `why` is for people. Open streams stay until end_all(), which
    // knows the reason.
    std::function<void(AgentLoss loss, std::string why)> on_agent_lost;
    std::function<void()> on_last_client_gone;
    // The first command or copy has come, or the last has ended; may be empty.
    std::function<void(bool in_use)> on_use;
    // A command is about to start under this run id: why it must not, or nothing; may be empty.
    std::function<std::optional<std::string>(const std::string& run)> on_run;
    // It has ended, without a result when nobody will ever know; may be empty.
    std::function<void(const std::string& run, const std::optional<proto::ExecResult>&)> on_run_end;
  };

  Mux(loop::Loop& loop, const proto::SandboxConfig& config, Handlers handlers);

  void add_client(sys::Fd fd);
  void set_agent(sys::Fd fd);
  bool agent_ready() const { return agent_ready_; }

  // The End of a stream that on_request reported; a client that has gone is ignored.
  void answer(Asker asker, ByteView end_payload);
  // A request of the sandbox's own to the agent, whose answer nobody reads.
  void tell_agent(ByteView request);
  // The same, and `answered` when it has, whatever it says. Dropped with the agent's connection.
  void ask_agent(ByteView request, std::function<void()> answered);

  // A stream of the sandbox's own: its number, or 0 when the agent is not there or has as many
  // streams as it takes.
  uint32_t open_stream(ByteView request, StreamHandlers handlers, Use use = Use::Counted);
  // An exec with the sandbox's defaults and limits in it; nothing when it does not decode, or is
  // too large with them.
  std::optional<Bytes> completed(ByteView exec) const;
  // Sends; Data within room().
  void send(uint32_t stream, proto::FrameType type, ByteView payload = {});
  size_t room(uint32_t stream) const;
  // So many bytes of Data have gone on.
  void consumed(uint32_t stream, size_t length);
  // Cancels it; no handler is called any more.
  void drop_stream(uint32_t stream);

  // The descriptors that a client passed along with its last request.
  std::vector<sys::Fd> take_descriptors(ClientId id);

  // Every open stream ends with `error`, and each client's connection once it has read that.
  void end_all(const proto::ErrorReply& error);
  // The same for what the agent does for clients alone; what the sandbox itself owes stays.
  void end_commands(const proto::ErrorReply& error);
  // Whatever still runs has no result.
  void end_runs();
  bool has_clients() const { return !clients_.empty(); }
  // Whether a client waits for something of the agent's.
  bool in_use() const { return commands_ != 0; }

 private:
  enum class Target { Own, Agent, Waiting };
  struct ClientStream {
    Target target = Target::Own;
    uint32_t agent_stream = 0;
    Bytes request;  // while the agent is not ready
  };
  struct Client {
    std::unique_ptr<Channel> channel;
    bool greeted = false;
    std::map<uint32_t, ClientStream> streams;
  };
  // Shared, so that it may be dropped inside one of its own handlers.
  struct OwnStream {
    StreamHandlers handlers;
    Use use = Use::Counted;
    proto::ReceiveWindow received = {};
    bool dropped = false;
  };
  // A stream of the agent's connection. It outlives its client until the agent has ended it.
  struct AgentStream {
    ClientId client = 0;  // 0: nobody listens any more
    uint32_t stream = 0;
    proto::SendWindow from_agent;    // what the agent may still send
    proto::SendWindow from_client;   // what the client may still send
    std::function<void()> answered;  // of a request of our own
    std::string run;                 // of a command
    std::shared_ptr<OwnStream> own;  // of a stream of our own
  };

  static Bytes hello();
  static Bytes refusal(Kind kind, std::string message);
  void on_client_frame(ClientId id, const proto::Frame& frame);
  void on_client_request(ClientId id, Client& client, const proto::Frame& frame);
  void forward_request(ClientId id, uint32_t stream, ClientStream& state, ByteView request);
  void on_agent_frame(const proto::Frame& frame);
  void on_own_frame(AgentStream& stream, const proto::Frame& frame);
  void end_own_stream(uint32_t stream, const std::optional<proto::End>& end);
  uint32_t next_stream();
  void drop_client(ClientId id);
  void lose_agent(AgentLoss loss, std::string why);
  void end_client_stream(ClientId id, uint32_t stream, ByteView end_payload);
  void tell_end(const std::string& run, const std::optional<proto::End>& end);
  void throttle_clients();
  void count_command(int change);
  Client* client(ClientId id);
  // The request with the sandbox's defaults in it; nothing when it does not decode.
  std::optional<Bytes> with_defaults(ByteView request, std::string& run) const;

  loop::Loop* loop_;
  const proto::SandboxConfig* config_;
  Handlers handlers_;
  proto::ProfileGate gate_;
  ClientId next_client_ = 1;
  uint32_t next_stream_ = 1;
  std::map<ClientId, Client> clients_;
  std::unique_ptr<Channel> agent_;
  bool agent_ready_ = false;
  size_t commands_ = 0;  // streams of clients that are not the sandbox's own
  bool throttled_ = false;
  std::map<uint32_t, AgentStream> agent_streams_;
  // Channels that closed inside one of their own handlers; freed in the next turn.
  std::vector<std::unique_ptr<Channel>> closed_;
};

}
