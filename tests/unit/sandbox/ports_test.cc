// Published ports with real sockets: the test plays the agent on one side, and TCP clients on the
// other.
#include "../../../src/sandbox/ports.h"

#include <csignal>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/proto/forward.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

using proto::FrameType;

struct AgentFrame {
  uint32_t stream = 0;
  FrameType type = FrameType::Hello;
  Bytes payload;
};

class PortsTest : public testing::Test {
 protected:
  PortsTest() {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    mux_.set_agent(std::move(ours));
    agent_ = std::move(theirs);
    sys::set_nonblocking(agent_.get());
    proto::Hello hello;
    hello.role = "agent";
    say(proto::kConnectionStream, FrameType::Hello, hello.encode());
    EXPECT_EQ(hear().type, FrameType::Hello);
    while (!mux_.agent_ready()) loop_.run_once(std::chrono::milliseconds(10));
    port_.guest = 80;
    publish(port_);
  }

  void publish(proto::PublishedPort& port) {
    std::vector<sys::Fd> listeners;
    listeners.push_back(sys::listen_tcp(port.address, port.host));
    ports_.publish({port}, std::move(listeners));
  }

  // ---- the agent

  void say(uint32_t stream, FrameType type, ByteView payload = {}) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    for (ByteView rest = out; !rest.empty();) {
      const size_t put = sys::send_some(agent_.get(), rest).value_or(0);
      rest = rest.subspan(put);
      if (put == 0) loop_.run_once(std::chrono::milliseconds(1));
    }
  }
  // The next frame, turning the loop until it is there. An Hello of stream 0 when there is none.
  AgentFrame hear() {
    while (true) {
      if (const auto frame = decoder_.next())
        return {frame->stream, frame->type, Bytes(frame->payload.begin(), frame->payload.end())};
      const auto got = sys::read_some(agent_.get(), decoder_.space());
      if (got == 0U) return {};
      if (got) {
        decoder_.commit(*got);
      } else {
        loop_.run_once(std::chrono::milliseconds(10));
      }
    }
  }
  // The stream of the next connection, which the guest accepts.
  uint32_t accept() {
    const AgentFrame request = hear();
    EXPECT_EQ(request.type, FrameType::Request);
    EXPECT_EQ(proto::TcpRequest::decode(request.payload).value().port, 80);
    say(request.stream, FrameType::Event, proto::encode_event(proto::kConnectedEvent));
    return request.stream;
  }

  // ---- clients

  sys::Fd dial() const {
    sys::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_.host);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    sys::set_nonblocking(fd.get());
    return fd;
  }
  // What comes until `length` bytes are there or the connection ends, which is told by "<end>" or
  // "<reset>".
  std::string receive(const sys::Fd& client, size_t length) {
    std::string text;
    while (text.size() < length) {
      std::array<char, 65536> piece{};
      const ssize_t got = ::recv(client.get(), piece.data(), piece.size(), 0);
      if (got == 0) return text + "<end>";
      if (got < 0 && errno == ECONNRESET) return text + "<reset>";
      if (got < 0) loop_.run_once(std::chrono::milliseconds(10));
      if (got > 0) text.append(piece.data(), static_cast<size_t>(got));
    }
    return text;
  }
  void settle() {
    for (int i = 0; i < 10; ++i) loop_.run_once(std::chrono::milliseconds(0));
  }

  loop::Loop loop_;
  proto::SandboxConfig config_;
  std::string lost_;
  std::vector<bool> uses_;
  Mux mux_{loop_,
           config_,
           {[](Asker, ByteView) {},
            [] {},
            [this](AgentLoss, const std::string& why) { lost_ = why; },
            [] {},
            [this](bool in_use) { uses_.push_back(in_use); },
            {},
            {}}};
  Ports ports_{loop_, mux_};
  proto::PublishedPort port_;
  sys::Fd agent_;
  proto::FrameDecoder decoder_;
};

TEST_F(PortsTest, BytesGoBothWaysAndEachDirectionEndsByItself) {
  ports_.start();
  const sys::Fd client = dial();
  const uint32_t stream = accept();
  sys::write_all(client.get(), as_bytes("GET /"));
  ::shutdown(client.get(), SHUT_WR);
  AgentFrame frame = hear();
  EXPECT_EQ(frame.type, FrameType::Data);
  EXPECT_EQ(as_text(frame.payload), "GET /");
  EXPECT_EQ(hear().type, FrameType::Eof);
  // The client has ended, and still hears all of the answer.
  say(stream, FrameType::Data, as_bytes("200 "));
  EXPECT_EQ(receive(client, 4), "200 ");
  say(stream, FrameType::Data, as_bytes("OK"));
  say(stream, FrameType::Eof);
  say(stream, FrameType::End, proto::encode_ok());
  EXPECT_EQ(receive(client, 100), "OK<end>");
  settle();
  EXPECT_EQ(ports_.connections(), 0U);
  EXPECT_EQ(uses_, (std::vector<bool>{true, false}));
}

TEST_F(PortsTest, GuestThatEndsFirstStillHearsTheClient) {
  ports_.start();
  const sys::Fd client = dial();
  const uint32_t stream = accept();
  say(stream, FrameType::Eof);
  EXPECT_EQ(receive(client, 1), "<end>");
  sys::write_all(client.get(), as_bytes("late"));
  EXPECT_EQ(as_text(hear().payload), "late");
}

TEST_F(PortsTest, ClientOfAPortWhereNobodyListensIsReset) {
  ports_.start();
  const sys::Fd client = dial();
  const AgentFrame request = hear();
  say(request.stream, FrameType::End, proto::encode_error({Kind::Unavailable, "refused"}));
  EXPECT_EQ(receive(client, 1), "<reset>");
}

TEST_F(PortsTest, ClientThatGoesResetsTheGuestsConnection) {
  ports_.start();
  for (const bool accepted : {true, false}) {
    sys::Fd client = dial();
    const uint32_t stream = accepted ? accept() : hear().stream;
    settle();
    const linger at_once{1, 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    client.reset();
    const AgentFrame frame = hear();
    EXPECT_EQ(frame.type, FrameType::Cancel);
    EXPECT_EQ(frame.stream, stream);
    // What crossed with it is nobody's, and harms nobody.
    say(stream, FrameType::Event, proto::encode_event(proto::kConnectedEvent));
    say(stream, FrameType::Data, as_bytes("late"));
    say(stream, FrameType::End, proto::encode_ok());
    settle();
    EXPECT_EQ(ports_.connections(), 0U);
  }
  EXPECT_EQ(lost_, "");
}

TEST_F(PortsTest, SlowReadersHoldTheOtherSideUp) {
  ports_.start();
  const sys::Fd client = dial();
  const uint32_t stream = accept();
  // A client that does not read: the guest is given no more credit than the window and what the
  // kernel holds, and nothing of it is lost.
  const Bytes piece(proto::kMaxPayload, std::byte{'g'});
  size_t credit = proto::kInitialWindow;
  size_t sent = 0;
  for (int quiet = 0; quiet < 20; ++quiet) {
    for (; credit >= piece.size(); credit -= piece.size(), sent += piece.size()) {
      say(stream, FrameType::Data, piece);
      quiet = 0;
    }
    loop_.run_once(std::chrono::milliseconds(1));
    // Windows that came.
    while (true) {
      if (const auto frame = decoder_.next()) {
        if (frame->type == FrameType::Window)
          credit += proto::decode_window(frame->payload).value();
        continue;
      }
      const auto got = sys::read_some(agent_.get(), decoder_.space());
      if (!got || *got == 0) break;
      decoder_.commit(*got);
    }
    ASSERT_LT(sent, size_t{64} << 20) << "the client's slowness is not felt";
  }
  EXPECT_EQ(receive(client, sent).size(), sent);

  // A guest that does not read: the client can write no more than that.
  size_t written = 0;
  const Bytes mine(65536, std::byte{'c'});
  for (int quiet = 0; quiet < 20; ++quiet) {
    while (const auto put = sys::send_some(client.get(), mine)) {
      written += *put;
      quiet = 0;
      ASSERT_LT(written, size_t{64} << 20) << "the guest's slowness is not felt";
      settle();
    }
    loop_.run_once(std::chrono::milliseconds(1));
  }
  size_t heard = 0;
  while (heard < proto::kInitialWindow) {
    const AgentFrame frame = hear();
    if (frame.type == FrameType::Data) heard += frame.payload.size();
  }
  EXPECT_EQ(heard, proto::kInitialWindow);
  EXPECT_GT(written, heard);
}

TEST_F(PortsTest, AgentThatSendsBeyondItsCreditHasBrokenTheProtocol) {
  ports_.start();
  const sys::Fd client = dial();
  const uint32_t stream = accept();
  const Bytes piece(proto::kMaxPayload, std::byte{'x'});
  for (int i = 0; i < 200 && lost_.empty(); ++i) {
    Bytes out;
    proto::append_frame(out, stream, FrameType::Data, piece);
    sys::send_some(agent_.get(), out);
    loop_.run_once(std::chrono::milliseconds(1));
  }
  EXPECT_NE(lost_, "");
  EXPECT_NE(receive(client, size_t{1} << 30).find("<reset>"), std::string::npos);
  settle();
  EXPECT_EQ(ports_.connections(), 0U);
}

TEST_F(PortsTest, ClientsWaitUntilTheGuestIsReadyAndBeyondTheBound) {
  std::vector<sys::Fd> clients;
  clients.push_back(dial());
  settle();
  EXPECT_EQ(ports_.connections(), 0U);
  ports_.start();
  const uint32_t first = accept();
  while (clients.size() < Ports::kMaxConnections + 1) {
    clients.push_back(dial());
    settle();
  }
  EXPECT_EQ(ports_.connections(), Ports::kMaxConnections);
  // One goes, and the one that waited is let in.
  say(first, FrameType::End, proto::encode_error({Kind::Unavailable, "reset"}));
  settle();
  EXPECT_EQ(ports_.connections(), Ports::kMaxConnections);
  EXPECT_EQ(receive(clients[0], 1), "<reset>");
}

TEST_F(PortsTest, TheEndOfTheAgentIsTheEndOfItsConnections) {
  ports_.start();
  const sys::Fd client = dial();
  accept();
  agent_.reset();
  EXPECT_EQ(receive(client, 1), "<reset>");
  EXPECT_EQ(uses_, (std::vector<bool>{true, false}));
  // And nobody is let in to a dead one.
  EXPECT_EQ(receive(dial(), 1), "<reset>");
}

TEST_F(PortsTest, PublishesAllOrNothing) {
  proto::PublishedPort another;
  another.guest = 81;
  const auto refused = [&](std::vector<proto::PublishedPort> ports, bool listening) {
    std::vector<sys::Fd> fds;
    for (size_t i = 0; i < ports.size(); ++i) {
      uint16_t number = 0;
      fds.push_back(listening ? sys::listen_tcp(another.address, number)
                              : sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    }
    try {
      ports_.publish(ports, std::move(fds));
    } catch (const Error& error) {
      return error.kind();
    }
    return Kind::Internal;
  };
  another.host = 9;
  EXPECT_EQ(refused({another}, false), Kind::Invalid);
  EXPECT_EQ(refused({another, port_}, true), Kind::Conflict);
  EXPECT_EQ(refused(std::vector(proto::kMaxPublishedPorts, another), true), Kind::Exhausted);
  EXPECT_THROW(ports_.publish({another}, {}), Error);
  EXPECT_EQ(refused({another}, true), Kind::Internal) << "what was refused left nothing behind";
}

TEST_F(PortsTest, ClosedPortsFreeTheirNumbers) {
  ports_.start();
  const sys::Fd client = dial();
  accept();
  ports_.close();
  EXPECT_EQ(receive(client, 1), "<reset>");
  uint16_t same = port_.host;
  EXPECT_TRUE(sys::listen_tcp(port_.address, same));
}

// Over the control socket, with the listener beside the request.
TEST(PortRequests, AreAnsweredOverTheControlSocket) {
  loop::Loop loop;
  proto::SandboxConfig config;
  Ports* answering = nullptr;
  Mux mux(loop, config,
          {[&](Asker asker, ByteView request) { EXPECT_TRUE(answering->answer(asker, request)); },
           [] {},
           [](AgentLoss, const std::string&) {},
           [] {},
           {},
           {},
           {}});
  Ports ports(loop, mux);
  answering = &ports;
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  mux.add_client(std::move(ours));
  sys::set_nonblocking(theirs.get());
  proto::FrameDecoder decoder;
  const auto ask = [&](uint32_t stream, ByteView request, std::vector<int> passed = {}) {
    Bytes out;
    if (stream == 1) {
      proto::Hello hello;
      hello.role = "daemon";
      proto::append_frame(out, proto::kConnectionStream, FrameType::Hello, hello.encode());
    }
    proto::append_frame(out, stream, FrameType::Request, request);
    sys::send_message(theirs.get(), out, passed);
    while (true) {
      while (const auto frame = decoder.next())
        if (frame->stream == stream) return Bytes(frame->payload.begin(), frame->payload.end());
      if (const auto got = sys::read_some(theirs.get(), decoder.space())) decoder.commit(*got);
      loop.run_once(std::chrono::milliseconds(10));
    }
  };
  proto::PublishedPort port;
  port.guest = 80;
  const sys::Fd listener = sys::listen_tcp(port.address, port.host);
  const Bytes publish = proto::PublishRequest{{port}}.encode();
  const Bytes list = proto::encode_request(proto::kSandboxPortsVerb);
  EXPECT_TRUE(proto::End::decode(ask(1, publish))->error) << "without a socket";
  EXPECT_FALSE(proto::End::decode(ask(2, publish, {listener.get()}))->error);
  const Bytes answer = ask(3, list);
  EXPECT_EQ(proto::PortList::decode(proto::End::decode(answer)->result)->ports, std::vector{port});
  EXPECT_TRUE(proto::End::decode(ask(4, publish, {listener.get()}))->error) << "twice";
  EXPECT_FALSE(proto::End::decode(ask(5, proto::UnpublishRequest{port}.encode()))->error);
  EXPECT_TRUE(proto::End::decode(ask(6, proto::UnpublishRequest{port}.encode()))->error);
}

}
