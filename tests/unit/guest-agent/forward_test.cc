// TCP into the sandbox, through the host's own client of a real agent.
#include "mvm/proto/forward.h"

#include <array>
#include <thread>

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/agent/connection.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

namespace mvm::guest {
namespace {

using agent::Call;
using agent::Incoming;

class Forwarding : public testing::Test {
 protected:
  Forwarding() : agent_(start()) {
    listener_ = sys::Fd(sys::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    sys::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
    sys::check(::listen(listener_.get(), 4), "listen");
    sys::check(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size),
               "name");
    port_ = ntohs(address.sin_port);
  }
  ~Forwarding() override {
    agent_.close();
    child_.wait(std::chrono::seconds(20));
  }

  agent::Connection start(std::vector<std::string> more = {}) {
    ::signal(SIGPIPE, SIG_IGN);
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::SpawnOptions options;
    options.argv = {MVM_AGENT, "--serve-fd", "3"};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
    child_ = sys::spawn(options);
    return agent::Connection(std::move(ours));
  }
  sys::Fd accept() {
    return sys::Fd(
        sys::check(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  }
  Incoming next() { return agent_.wait(std::chrono::seconds(60)); }
  // Data until Eof.
  std::string read_to_end() {
    std::string text;
    while (true) {
      const Incoming incoming = next();
      if (incoming.what == Incoming::What::Eof) return text;
      if (incoming.what != Incoming::What::Data) continue;
      text += as_text(incoming.payload);
      agent_.consumed(incoming.payload.size());
    }
  }

  sys::Child child_;
  agent::Connection agent_;
  sys::Fd listener_;
  uint16_t port_ = 0;
};

TEST_F(Forwarding, EachDirectionEndsByItself) {
  agent_.start(proto::TcpRequest{port_}.encode(), Call::Kind::Duplex);
  agent_.send_data(as_bytes("request"));
  agent_.send_end_of_data();
  std::thread server([&] {
    const sys::Fd peer = accept();
    std::string request;
    std::array<std::byte, 64> buffer;
    // Its end comes though the answer is still to be sent.
    while (const size_t got = sys::read_some(peer.get(), buffer).value_or(0))
      request += as_text(ByteView(buffer).first(got));
    sys::write_all(peer.get(), as_bytes("answer to " + request));
  });
  EXPECT_EQ(read_to_end(), "answer to request");
  server.join();
  EXPECT_EQ(next().what, Incoming::What::End);
}

TEST_F(Forwarding, TheServersEndLeavesTheOtherDirectionOpen) {
  agent_.start(proto::TcpRequest{port_}.encode(), Call::Kind::Duplex);
  agent_.send_data(as_bytes("first "));
  std::string seen;
  std::thread server([&] {
    const sys::Fd peer = accept();
    std::array<std::byte, 64> buffer;
    seen = as_text(ByteView(buffer).first(sys::read_some(peer.get(), buffer).value_or(0)));
    ::shutdown(peer.get(), SHUT_WR);
    while (const size_t got = sys::read_some(peer.get(), buffer).value_or(0))
      seen += as_text(ByteView(buffer).first(got));
  });
  EXPECT_EQ(read_to_end(), "");
  agent_.send_data(as_bytes("second"));
  agent_.send_end_of_data();
  EXPECT_EQ(next().what, Incoming::What::End);
  server.join();
  EXPECT_EQ(seen, "first second");
}

TEST_F(Forwarding, MegabytesPassBothWaysAtOnce) {
  constexpr size_t kLength = size_t{4} << 20;
  agent_.start(proto::TcpRequest{port_}.encode(), Call::Kind::Duplex);
  std::thread echo([&] {
    const sys::Fd peer = accept();
    Bytes buffer(65536);
    while (const size_t got = sys::read_some(peer.get(), buffer).value_or(0))
      sys::write_all(peer.get(), ByteView(buffer).first(got));
  });
  const Bytes piece(proto::kMaxPayload, std::byte{7});
  size_t sent = 0;
  size_t received = 0;
  bool eof = false;
  while (!eof) {
    while (sent < kLength && agent_.room() > 0) {
      const size_t length = std::min(agent_.room(), kLength - sent);
      agent_.send_data(ByteView(piece).first(length));
      sent += length;
      if (sent == kLength) agent_.send_end_of_data();
    }
    const Incoming incoming = next();
    eof = incoming.what == Incoming::What::Eof;
    if (incoming.what != Incoming::What::Data) continue;
    received += incoming.payload.size();
    agent_.consumed(incoming.payload.size());
  }
  EXPECT_EQ(received, kLength);
  EXPECT_EQ(next().what, Incoming::What::End);
  echo.join();
}

TEST_F(Forwarding, APortThatNobodyListensOnIsAnErrorThatSaysSo) {
  listener_.reset();
  agent_.start(proto::TcpRequest{port_}.encode(), Call::Kind::Duplex);
  try {
    next();
    FAIL() << "connected to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Unavailable);
    EXPECT_NE(error.message().find("port " + std::to_string(port_)), std::string::npos);
  }
}

TEST_F(Forwarding, ASealedAgentRefusesByName) {
  agent_.close();
  child_.wait(std::chrono::seconds(20));
  agent_ = start({"--profile", "sealed"});
  agent_.ping(std::chrono::seconds(20));
  for (const Bytes& request : {proto::encode_request("put"), proto::encode_request("fs.read")}) {
    try {
      agent_.request(request, std::chrono::seconds(20));
      FAIL() << "allowed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Kind::Denied);
      EXPECT_NE(error.message().find("profile 'sealed'"), std::string::npos);
    }
  }
}

}
}
