// The sandbox process between its clients and an agent that may say anything: frames on streams
// that are there and on others, raw bytes, hang-ups on either side, in any order. A client gets
// each of its streams ended once, and nothing on it behind that.
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "../../src/sandbox/mux.h"
#include "input.h"

using namespace mvm;
using proto::FrameType;

namespace {

// As in mvm itself.
[[maybe_unused]] const auto kIgnored = std::signal(SIGPIPE, SIG_IGN);

constexpr size_t kMaxClients = 3;
constexpr uint32_t kMaxOperations = 256;

// The far end of a connection, which reads all it is sent.
class Peer {
 public:
  explicit Peer(sys::Fd fd) : fd_(std::move(fd)) { sys::set_nonblocking(fd_.get()); }

  void send(uint32_t stream, FrameType type, ByteView payload) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    send_raw(out);
  }
  // What the socket does not take is lost: half a frame is one more thing that may come.
  void send_raw(ByteView bytes) {
    try {
      static_cast<void>(sys::write_some(fd_.get(), bytes));
    } catch (const Error&) {  // it has hung up
    }
  }
  template <typename Take>
  void read(Take take) {
    try {
      while (const auto got = sys::read_some(fd_.get(), decoder_.space())) {
        if (*got == 0) return;
        decoder_.commit(*got);
        while (const auto frame = decoder_.next()) take(*frame);
        if (decoder_.fault()) std::abort();  // mvm's own frames are well formed
      }
    } catch (const Error&) {  // reset
    }
  }

 private:
  sys::Fd fd_;
  proto::FrameDecoder decoder_;
};

struct Client {
  Peer peer;
  uint32_t next = 1;
  std::set<uint32_t> open;
};

class World {
 public:
  explicit World(fuzz::Input& in) : in_(in) {}

  void play() {
    // A sandbox has one agent, and ends with it.
    for (uint32_t left = kMaxOperations; left > 0 && !in_.empty() && !lost_; --left) {
      act(in_.u8());
      turn();
    }
    mux_.end_all({Kind::Unavailable, "it has ended"});
    turn();
  }

 private:
  static proto::Hello hello(std::string_view role) {
    proto::Hello hello;
    hello.role = role;
    return hello;
  }
  static std::pair<sys::Fd, Peer> pair() {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    return {std::move(ours), Peer(std::move(theirs))};
  }
  void connect_agent() {
    if (agent_) return;
    auto [ours, peer] = pair();
    mux_.set_agent(std::move(ours));
    agent_.emplace(std::move(peer));
    if (!in_.rarely(16))
      agent_->send(proto::kConnectionStream, FrameType::Hello, hello("agent").encode());
  }
  void hang_up() {
    if (agent_) agent_.emplace(pair().second);
  }
  void add_client() {
    if (clients_.size() == kMaxClients) return;
    auto [ours, peer] = pair();
    mux_.add_client(std::move(ours));
    clients_.push_back({std::move(peer), 1, {}});
    if (!in_.rarely(16))
      clients_.back().peer.send(proto::kConnectionStream, FrameType::Hello,
                                hello("client").encode());
  }
  Client* client() {
    return clients_.empty() ? nullptr
                            : &clients_[in_.below(static_cast<uint32_t>(clients_.size()))];
  }

  // What a frame of the type may hold, or just bytes.
  Bytes payload(FrameType type) {
    const auto bytes = std::as_bytes(in_.bytes(in_.rarely(8) ? in_.u16() : in_.u8() % 64));
    if (in_.rarely(4)) return {bytes.begin(), bytes.end()};
    Bytes out;
    if (type == FrameType::Window) Writer(out).u32(in_.u16());
    if (type == FrameType::Signal) Writer(out).u8(in_.u8());
    if (type == FrameType::End) return proto::encode_ok(bytes);
    if (!out.empty() || type == FrameType::Eof || type == FrameType::Cancel) return out;
    return {bytes.begin(), bytes.end()};
  }
  Bytes request() {
    if (in_.rarely(4)) return proto::encode_request(proto::kPingVerb);
    if (in_.rarely(4)) return proto::encode_request(proto::kSandboxStatusVerb);
    proto::ExecRequest exec;
    exec.argv = {"true"};
    exec.detach = in_.rarely(4);
    return exec.encode();
  }

  void act(uint8_t choice) {
    switch (choice % 8) {
      case 0:
        return add_client();
      case 1:
        if (Client* const from = client()) {
          const uint32_t stream = from->next++;
          from->open.insert(stream);
          from->peer.send(stream, FrameType::Request, request());
        }
        return;
      case 2:
        if (Client* const from = client()) {
          const auto type = static_cast<FrameType>(2 + in_.below(10));
          from->peer.send(in_.below(from->next + 1), type, payload(type));
        }
        return;
      case 3:
        if (choice >= 128 && agent_) return agent_->send_raw(std::as_bytes(in_.bytes(in_.u8())));
        [[fallthrough]];
      case 4:
      case 5: {
        connect_agent();
        const auto type = static_cast<FrameType>(in_.below(proto::kLastFrameType + 1));
        return agent_->send(in_.below(16), type, payload(type));
      }
      case 6:
        if (!askers_.empty()) {
          mux_.answer(askers_.back(), proto::encode_ok());
          askers_.pop_back();
        } else if (!clients_.empty() && choice >= 128) {
          clients_.pop_back();
        }
        return;
      default:
        if (choice >= 240) return hang_up();
        if (choice >= 192) return connect_agent();
        if (choice >= 128) return mux_.end_commands({Kind::Unavailable, "over"});
    }
  }

  void turn() {
    for (int i = 0; i < 3; ++i) loop_.run_once(std::chrono::milliseconds(0));
    if (agent_) agent_->read([](const proto::Frame&) {});
    for (Client& each : clients_)
      each.peer.read([&](const proto::Frame& frame) {
        if (frame.stream == proto::kConnectionStream) return;
        if (frame.type == FrameType::End) {
          if (each.open.erase(frame.stream) == 0) std::abort();
        } else if (!each.open.contains(frame.stream)) {
          std::abort();
        }
      });
  }

  fuzz::Input& in_;
  loop::Loop loop_;
  proto::SandboxConfig config_;
  bool lost_ = false;
  std::vector<sandbox::Asker> askers_;
  sandbox::Mux mux_{loop_,
                    config_,
                    {[this](sandbox::Asker asker, ByteView) { askers_.push_back(asker); },
                     [] {},
                     [this](sandbox::AgentLoss, const std::string&) { lost_ = true; },
                     [] {},
                     [](bool) {},
                     {},
                     {}}};
  std::optional<Peer> agent_;
  std::vector<Client> clients_;
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16 * 1024) return 0;
  fuzz::Input in(data, size);
  World(in).play();
  return 0;
}
