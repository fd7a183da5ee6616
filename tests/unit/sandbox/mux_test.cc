// The multiplexer between real sockets: the test plays the clients and the agent.
#include "../../../src/sandbox/mux.h"

#include <optional>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

using proto::FrameType;

struct Received {
  uint32_t stream = 0;
  FrameType type = FrameType::Hello;
  Bytes payload;
};

// The far end of a connection, on a blocking socket.
class Peer {
 public:
  explicit Peer(sys::Fd fd) : fd_(std::move(fd)) {}

  void send(uint32_t stream, FrameType type, ByteView payload = {}) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    sys::write_all(fd_.get(), out);
  }
  void greet(std::string_view role) {
    proto::Hello hello;
    hello.role = role;
    send(proto::kConnectionStream, FrameType::Hello, hello.encode());
  }
  // The next frame, turning the loop until it is there; nothing when the connection has ended.
  std::optional<Received> next(loop::Loop& loop) {
    sys::set_nonblocking(fd_.get());
    while (true) {
      if (const auto frame = decoder_.next())
        return Received{frame->stream, frame->type,
                        Bytes(frame->payload.begin(), frame->payload.end())};
      std::optional<size_t> got;
      try {
        got = sys::read_some(fd_.get(), decoder_.space());
      } catch (const Error&) {
        return std::nullopt;
      }
      if (got == 0U) return std::nullopt;
      if (got) {
        decoder_.commit(*got);
      } else {
        loop.run_once(std::chrono::milliseconds(10));
      }
    }
  }
  void send_raw(ByteView bytes) { sys::write_all(fd_.get(), bytes); }
  // As much as the socket takes; returns how much.
  size_t push(ByteView bytes) {
    sys::set_nonblocking(fd_.get());
    return sys::write_some(fd_.get(), bytes).value_or(0);
  }
  void hang_up() { fd_.reset(); }

 private:
  sys::Fd fd_;
  proto::FrameDecoder decoder_;
};

class MuxTest : public testing::Test {
 protected:
  MuxTest()
      : mux_(loop_, config_,
             {[this](Asker asker, ByteView) { askers_.push_back(asker); }, [this] { ++ready_; },
              [this](AgentLoss, const std::string& why) { lost_ = why; }, [this] { ++empty_; },
              [this](bool in_use) { uses_.push_back(in_use); },
              [this](const std::string& run) -> std::optional<std::string> {
                if (!full_disk_.empty()) return full_disk_;
                runs_.push_back("start " + run);
                return std::nullopt;
              },
              [this](const std::string& run, const std::optional<proto::ExecResult>& result) {
                runs_.push_back("end " + run + " " +
                                (result ? std::to_string(result->exit_code) : "unknown"));
              }}) {}

  Peer client() {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    mux_.add_client(std::move(ours));
    Peer peer(std::move(theirs));
    peer.greet("client");
    EXPECT_EQ(peer.next(loop_)->type, FrameType::Hello);
    return peer;
  }
  Peer agent() {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    mux_.set_agent(std::move(ours));
    Peer peer(std::move(theirs));
    EXPECT_EQ(peer.next(loop_)->type, FrameType::Hello);
    return peer;
  }
  void settle() {
    for (int i = 0; i < 5; ++i) loop_.run_once(std::chrono::milliseconds(0));
  }
  static Bytes exec() {
    proto::ExecRequest request;
    request.argv = {"true"};
    request.env = {{"B", "mine"}};
    return request.encode();
  }

  loop::Loop loop_;
  proto::SandboxConfig config_;
  std::vector<Asker> askers_;
  int ready_ = 0;
  int empty_ = 0;
  std::vector<bool> uses_;
  std::vector<std::string> runs_;
  std::string full_disk_;
  std::string lost_;
  Mux mux_;
};

TEST_F(MuxTest, RequestAsksForLessThanTheSandboxsLimitsNeverForMore) {
  config_.exec_timeout_ms = 5'000;
  config_.exec_output = 100;
  config_.exec_pids = 30;
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  const auto passed_on = [&](uint32_t stream, int64_t timeout, uint64_t output,
                             uint64_t processes) {
    proto::ExecRequest request;
    request.argv = {"true"};
    request.timeout = std::chrono::milliseconds(timeout);
    request.max_output = output;
    request.limits.processes = processes;
    user.send(stream, FrameType::Request, request.encode());
    const auto merged = proto::ExecRequest::decode(guest.next(loop_)->payload);
    return std::tuple(merged->timeout.count(), merged->max_output, merged->limits.processes);
  };
  const auto expected = [](int64_t timeout, uint64_t output, uint64_t processes) {
    return std::tuple(timeout, output, processes);
  };
  EXPECT_EQ(passed_on(1, 0, 0, 0), expected(5'000, 100, 30));
  EXPECT_EQ(passed_on(2, 10, 7, 2), expected(10, 7, 2));
  EXPECT_EQ(passed_on(3, 10'000, 1'000, 31), expected(5'000, 100, 30));
}

TEST_F(MuxTest, UseIsACommandUnderWayAndNoQuestionToTheSandbox) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, proto::encode_request(proto::kSandboxStatusVerb));
  settle();
  EXPECT_TRUE(uses_.empty());
  user.send(2, FrameType::Request, exec());
  user.send(3, FrameType::Request, exec());
  const auto request = guest.next(loop_);
  settle();
  EXPECT_EQ(uses_, std::vector<bool>{true});
  guest.send(request->stream, FrameType::End, proto::encode_ok());
  settle();
  EXPECT_EQ(uses_, std::vector<bool>{true});
  user.hang_up();
  settle();
  EXPECT_EQ(uses_, (std::vector<bool>{true, false}));
  // What does not decode is no use of it.
  Peer other = client();
  other.send(1, FrameType::Request, as_bytes("nonsense"));
  settle();
  EXPECT_EQ(uses_, (std::vector<bool>{true, false}));
}

TEST_F(MuxTest, CommandsEndWithTheReasonAndQuestionsStay) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, proto::encode_request(proto::kSandboxWaitVerb));
  user.send(2, FrameType::Request, exec());
  const auto request = guest.next(loop_);
  mux_.end_commands({Kind::Unavailable, "over", proto::EndReason::TimeLimit});
  const auto end = user.next(loop_);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->stream, 2U);
  EXPECT_EQ(proto::End::decode(end->payload)->error->sandbox_end, proto::EndReason::TimeLimit);
  EXPECT_FALSE(mux_.in_use());
  // What the agent still says on it goes nowhere, and is no fault.
  guest.send(request->stream, FrameType::Stdout, as_bytes("late"));
  guest.send(request->stream, FrameType::End, proto::encode_ok());
  settle();
  EXPECT_EQ(lost_, "");
  mux_.answer(askers_.at(0), proto::encode_ok());
  EXPECT_EQ(user.next(loop_)->stream, 1U);
}

TEST_F(MuxTest, CarriesAStreamBothWaysUnderItsTwoNumbers) {
  config_.env = {{"A", "default"}, {"B", "default"}};
  config_.workdir = "/work";
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(7, FrameType::Request, exec());
  const auto request = guest.next(loop_);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->type, FrameType::Request);
  const auto merged = proto::ExecRequest::decode(request->payload);
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->cwd, "/work");
  const std::vector<std::pair<std::string, std::string>> env = {{"B", "mine"}, {"A", "default"}};
  EXPECT_EQ(merged->env, env);

  guest.send(request->stream, FrameType::Stdout, as_bytes("hello"));
  const auto output = user.next(loop_);
  ASSERT_TRUE(output);
  EXPECT_EQ(output->stream, 7U);
  EXPECT_EQ(as_text(output->payload), "hello");
  user.send(7, FrameType::Data, as_bytes("input"));
  EXPECT_EQ(as_text(guest.next(loop_)->payload), "input");
  guest.send(request->stream, FrameType::End,
             proto::encode_ok(proto::ExecResult{.exit_code = 3}.encode()));
  const auto end = user.next(loop_);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->type, FrameType::End);
  EXPECT_EQ(end->stream, 7U);
}

TEST_F(MuxTest, HoldsRequestsUntilTheAgentIsThere) {
  Peer user = client();
  user.send(1, FrameType::Request, exec());
  settle();
  Peer guest = agent();
  guest.greet("agent");
  EXPECT_EQ(guest.next(loop_)->type, FrameType::Request);
  EXPECT_EQ(ready_, 1);
}

TEST_F(MuxTest, CancelsWhatAClientLeavesBehind) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, exec());
  const auto request = guest.next(loop_);
  user.hang_up();
  const auto cancel = guest.next(loop_);
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->type, FrameType::Cancel);
  EXPECT_EQ(cancel->stream, request->stream);
  EXPECT_EQ(empty_, 1);
  guest.send(request->stream, FrameType::End, proto::encode_ok({}));
  settle();
  EXPECT_EQ(lost_, "");
}

TEST_F(MuxTest, DropsAnAgentThatSendsMoreThanItHasCreditFor) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, exec());
  const auto request = guest.next(loop_);
  const Bytes chunk(proto::kMaxPayload);
  for (size_t sent = 0; sent < proto::kInitialWindow; sent += chunk.size())
    guest.send(request->stream, FrameType::Stdout, chunk), settle();
  EXPECT_EQ(lost_, "");
  guest.send(request->stream, FrameType::Stderr, as_bytes("x"));
  settle();
  EXPECT_EQ(lost_, "the guest's agent sent more than it was allowed to");
  user.send(1, FrameType::Data, as_bytes("to nobody"));
  settle();
  mux_.end_all({Kind::Unavailable, "the sandbox has ended"});
  std::optional<Received> last;
  while (const auto frame = user.next(loop_)) {
    last = frame;
    if (last->type == FrameType::End) break;
  }
  ASSERT_TRUE(last);
  EXPECT_EQ(proto::End::decode(last->payload)->error->kind, Kind::Unavailable);
}

TEST_F(MuxTest, DropsAnAgentThatSpeaksOnAStreamNobodyOpened) {
  Peer guest = agent();
  guest.greet("agent");
  guest.send(99, FrameType::Stdout, as_bytes("x"));
  settle();
  EXPECT_EQ(lost_, "the guest's agent spoke on a stream that nobody opened");
}

TEST_F(MuxTest, DropsAnAgentThatSpeaksGarbage) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  mux_.set_agent(std::move(ours));
  sys::write_all(theirs.get(), as_bytes("HTTP/1.1 200 OK\r\n\r\n"));
  settle();
  EXPECT_NE(lost_, "");
}

TEST_F(MuxTest, DropsAnAgentOfAnotherVersion) {
  Peer guest = agent();
  proto::Hello hello;
  hello.version = proto::kProtocolVersion + 1;
  hello.role = "agent";
  guest.send(proto::kConnectionStream, FrameType::Hello, hello.encode());
  settle();
  EXPECT_EQ(lost_, "the guest's agent speaks version 2 of the protocol");
}

TEST_F(MuxTest, DropsAClientThatPretendsToBeAServer) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, exec());
  EXPECT_TRUE(guest.next(loop_));
  user.send(1, FrameType::Stdout, as_bytes("x"));
  EXPECT_FALSE(user.next(loop_));
  EXPECT_EQ(lost_, "");
}

TEST_F(MuxTest, DropsAClientThatOverrunsItsCredit) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  user.send(1, FrameType::Request, exec());
  const Bytes chunk(proto::kMaxPayload);
  for (size_t sent = 0; sent < proto::kInitialWindow; sent += chunk.size())
    user.send(1, FrameType::Data, chunk), settle();
  user.send(1, FrameType::Data, as_bytes("x"));
  EXPECT_FALSE(user.next(loop_));
}

TEST_F(MuxTest, GivesSandboxRequestsToTheSandbox) {
  Peer user = client();
  user.send(5, FrameType::Request, proto::encode_request(proto::kSandboxStatusVerb));
  settle();
  ASSERT_EQ(askers_.size(), 1U);
  mux_.answer(askers_[0], proto::encode_ok({}));
  const auto end = user.next(loop_);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->stream, 5U);
  EXPECT_EQ(end->type, FrameType::End);
}

TEST_F(MuxTest, ADroppedClientIsNotHeardAnyMore) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  mux_.add_client(std::move(ours));
  // A greeting of another version and a request, in one write.
  proto::Hello hello;
  hello.version = proto::kProtocolVersion + 1;
  hello.role = "client";
  Bytes both;
  proto::append_frame(both, proto::kConnectionStream, FrameType::Hello, hello.encode());
  proto::append_frame(both, 1, FrameType::Request, exec());
  sys::write_all(theirs.get(), both);
  settle();
  EXPECT_EQ(empty_, 1);
}

TEST_F(MuxTest, ALostAgentIsNotHeardAnyMore) {
  Peer guest = agent();
  proto::Hello hello;
  hello.role = "agent";
  Bytes both;
  proto::append_frame(both, 9, FrameType::Stdout, as_bytes("x"));
  proto::append_frame(both, proto::kConnectionStream, FrameType::Hello, hello.encode());
  guest.send_raw(both);
  settle();
  EXPECT_NE(lost_, "");
  EXPECT_EQ(ready_, 0);
  EXPECT_FALSE(mux_.agent_ready());
}

TEST_F(MuxTest, AnAgentThatLeavesAfterItsGreetingLeavesWaitingRequestsToTheEnd) {
  Peer first = client(), second = client();
  first.send(1, FrameType::Request, exec());
  second.send(1, FrameType::Request, exec());
  settle();
  Peer guest = agent();
  guest.greet("agent");
  guest.hang_up();
  settle();
  EXPECT_NE(lost_, "");
  mux_.end_all({Kind::Unavailable, "the sandbox has ended"});
  EXPECT_EQ(first.next(loop_)->type, FrameType::End);
  EXPECT_EQ(second.next(loop_)->type, FrameType::End);
}

TEST_F(MuxTest, InputSentAlongWithAWaitingRequestArrivesAfterIt) {
  Peer user = client();
  Bytes all;
  proto::append_frame(all, 1, FrameType::Request, exec());
  proto::append_frame(all, 1, FrameType::Data, as_bytes("input"));
  proto::append_frame(all, 1, FrameType::Eof);
  user.send_raw(all);
  settle();
  Peer guest = agent();
  guest.greet("agent");
  EXPECT_EQ(guest.next(loop_)->type, FrameType::Request);
  EXPECT_EQ(as_text(guest.next(loop_)->payload), "input");
  EXPECT_EQ(guest.next(loop_)->type, FrameType::Eof);
}

TEST_F(MuxTest, ClientsAreHeardAgainOnceTheAgentHasTakenWhatWaited) {
  Peer guest = agent();
  guest.greet("agent");
  Peer user = client();
  Bytes all;
  constexpr size_t kWanted = 8 * size_t{proto::kInitialWindow};
  for (uint32_t stream = 1; stream <= 8; ++stream) {
    proto::append_frame(all, stream, FrameType::Request, exec());
    for (size_t sent = 0; sent < proto::kInitialWindow; sent += proto::kMaxPayload)
      proto::append_frame(all, stream, FrameType::Data, Bytes(proto::kMaxPayload));
  }
  // The agent reads nothing yet: in the end the client's socket is full, since nobody reads it
  // either.
  size_t pushed = 0;
  for (int idle = 0; idle < 10; settle()) {
    const size_t more = user.push(ByteView(all).subspan(pushed));
    pushed += more;
    idle = more == 0 ? idle + 1 : 0;
  }
  ASSERT_LT(pushed, all.size());
  Peer other = client();
  other.send(1, FrameType::Request, proto::encode_request(proto::kSandboxStatusVerb));
  settle();
  EXPECT_EQ(askers_.size(), 1U);  // who asks only the sandbox does not wait
  size_t requests = 0, bytes = 0;
  while (bytes < kWanted) {
    pushed += user.push(ByteView(all).subspan(pushed));
    const auto frame = guest.next(loop_);
    ASSERT_TRUE(frame);
    if (frame->type == FrameType::Request) ++requests;
    if (frame->type == FrameType::Data) bytes += frame->payload.size();
  }
  EXPECT_EQ(requests, 8U);
}

TEST_F(MuxTest, ASealedSandboxRefusesWithoutAskingTheAgent) {
  proto::SandboxConfig config;
  config.profile = proto::Profile::Sealed;
  Mux sealed(loop_, config,
             {[](Asker, ByteView) {}, [] {}, [](AgentLoss, const std::string&) {}, [] {}});
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  sealed.add_client(std::move(ours));
  Peer peer(std::move(theirs));
  peer.greet("client");
  EXPECT_EQ(peer.next(loop_)->type, FrameType::Hello);
  // There is no agent yet, and still the answer comes at once.
  peer.send(1, FrameType::Request, proto::encode_request("put"));
  const auto answer = peer.next(loop_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type, FrameType::End);
  const auto end = proto::End::decode(answer->payload);
  ASSERT_TRUE(end && end->error);
  EXPECT_EQ(end->error->kind, Kind::Denied);
  EXPECT_NE(end->error->message.find("profile 'sealed'"), std::string::npos);
}

// ---- runs

static Bytes exec_as(const std::string& run) {
  proto::ExecRequest request;
  request.argv = {"true"};
  request.run = run;
  return request.encode();
}

TEST_F(MuxTest, TellsOfEachRunOnceAtItsStartAndItsEnd) {
  Peer guest = agent();
  guest.greet("agent");
  settle();
  Peer user = client();
  user.send(1, FrameType::Request, exec_as("run-mine"));
  const auto request = guest.next(loop_);
  ASSERT_TRUE(request);
  // The guest need not know what the host calls it.
  EXPECT_TRUE(proto::ExecRequest::decode(request->payload)->run.empty());
  proto::ExecResult result;
  result.exit_code = 3;
  guest.send(request->stream, FrameType::End, proto::encode_ok(result.encode()));
  ASSERT_TRUE(user.next(loop_));
  EXPECT_EQ(runs_, (std::vector<std::string>{"start run-mine", "end run-mine 3"}));
}

TEST_F(MuxTest, PicksAnIdWhereTheClientGivesNoneOrOneThatIsNone) {
  Peer guest = agent();
  guest.greet("agent");
  settle();
  Peer user = client();
  user.send(1, FrameType::Request, exec_as(""));
  ASSERT_TRUE(guest.next(loop_));
  user.send(2, FrameType::Request, exec_as("\"},{\n"));
  ASSERT_TRUE(guest.next(loop_));
  ASSERT_EQ(runs_.size(), 2U);
  for (const std::string& run : runs_) EXPECT_EQ(run.substr(0, 10), "start run-");
  EXPECT_NE(runs_[0], runs_[1]);
}

TEST_F(MuxTest, StartsNothingThatCannotBeRecorded) {
  full_disk_ = "No space left on device";
  Peer guest = agent();
  guest.greet("agent");
  settle();
  Peer user = client();
  user.send(1, FrameType::Request, exec_as("run-mine"));
  const auto end = user.next(loop_);
  ASSERT_TRUE(end && end->type == FrameType::End);
  const auto decoded = proto::End::decode(end->payload);
  ASSERT_TRUE(decoded && decoded->error);
  EXPECT_EQ(decoded->error->kind, Kind::Exhausted);
  EXPECT_NE(decoded->error->message.find("No space left"), std::string::npos);
  EXPECT_TRUE(runs_.empty());
}

TEST_F(MuxTest, TellsThatARunEndedWithoutAResultWhenTheAgentIsLost) {
  {
    Peer guest = agent();
    guest.greet("agent");
    settle();
    Peer user = client();
    user.send(1, FrameType::Request, exec_as("run-mine"));
    ASSERT_TRUE(guest.next(loop_));
    guest.hang_up();
    settle();
  }
  EXPECT_EQ(runs_.back(), "end run-mine unknown");
}

}
