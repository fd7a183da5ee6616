// What the agent does with a host that does not keep to the protocol, and with verbs besides exec
// and copy.
#include <string>

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/proto/cbor.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "client.h"

namespace mvm::guest {

using proto::FrameType;

// The agent's only connection is closed, so it ends; by itself and in order.
static void expect_cut_off(Client& client) {
  EXPECT_EQ(client.agent_end(Client::kDeadline), (sys::ExitStatus{0, 0}));
}

static void send_raw(Client& client, std::string_view bytes) {
  sys::write_all(client.socket(), as_bytes(bytes));
}

TEST(Connection, IsCutOffForGarbage) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\0\0\0\0", 4),
        std::string("\xFF\xFF\xFF\xFF", 4), std::string("\x05\0\0\0\x01\0\0\0\xEE", 9)}) {
    Client client;
    send_raw(client, garbage);
    expect_cut_off(client);
  }
}

TEST(Connection, IsCutOffForFramesThatDoNotFit) {
  const auto cut_off = [](auto misbehave) {
    Client client;
    proto::ExecRequest request;
    request.argv = {"sleep", "60"};
    request.stdin_open = true;
    const uint32_t stream = client.start(request);
    client.wait_started(stream);
    misbehave(client, stream);
    expect_cut_off(client);
  };
  // A second greeting; a request on a stream in use; frames that only servers send.
  cut_off([](Client& client, uint32_t) {
    client.send(proto::kConnectionStream, FrameType::Hello, proto::Hello{}.encode());
  });
  cut_off([](Client& client, uint32_t stream) {
    client.send(stream, FrameType::Request, proto::encode_request(proto::kPingVerb));
  });
  cut_off([](Client& client, uint32_t stream) { client.send(stream, FrameType::Stdout); });
  cut_off([](Client& client, uint32_t stream) { client.send(stream, FrameType::End); });
  // Credit that was never spent, or of the wrong size.
  cut_off([](Client& client, uint32_t stream) {
    const uint32_t credit = 1;
    client.send(stream, FrameType::Window, std::as_bytes(std::span(&credit, 1)));
  });
  cut_off([](Client& client, uint32_t stream) {
    client.send(stream, FrameType::Window, as_bytes("abc"));
  });
  // More data than the window: sleep reads none of it.
  cut_off([](Client& client, uint32_t stream) {
    const Bytes block(proto::kMaxPayload);
    try {
      for (int i = 0; i < 8; ++i) client.send(stream, FrameType::Data, block);
    } catch (const Error&) {
      // The agent has closed before we were done.
    }
  });
}

TEST(Connection, NeedsTheGreetingFirstAndItsVersion) {
  Client client(Trees::ByScan, proto::Hello{proto::kProtocolVersion + 1, "client", "test"});
  expect_cut_off(client);
  Client silent(Trees::ByScan, std::nullopt);
  silent.send(1, FrameType::Request, proto::encode_request(proto::kPingVerb));
  expect_cut_off(silent);
}

TEST(Connection, IgnoresFramesForStreamsThatHaveEnded) {
  Client client;
  const uint32_t stream = client.start(shell_request("true"));
  client.finish(stream);
  client.signal(stream, 15);
  client.send(stream, FrameType::Data, as_bytes("late"));
  client.send(stream, FrameType::Eof);
  client.send(stream, FrameType::Cancel);
  client.send(99, FrameType::Eof);
  EXPECT_EQ(client.shell("echo still here").out, "still here\n");
}

TEST(Connection, AnswersMalformedRequestsOnTheirStream) {
  Client client;
  const auto error = [&](ByteView payload) {
    return client.finish(client.request(payload)).error.value();
  };
  EXPECT_EQ(error(as_bytes("\xFF")).kind, Kind::Invalid);
  EXPECT_EQ(error({}).kind, Kind::Invalid);
  EXPECT_EQ(error(proto::encode_request("dance")).kind, Kind::Unsupported);
  EXPECT_EQ(error(proto::encode_request("dance")).message,
            "the agent does not know the verb 'dance'");
  EXPECT_EQ(error(proto::encode_request("exec")).kind, Kind::Invalid);  // no argv
  EXPECT_EQ(error(proto::encode_request("put")).kind, Kind::Invalid);   // no path
  EXPECT_EQ(client.shell("echo fine").out, "fine\n");
}

// A host that asks and never reads is held to a bound.
TEST(Connection, IsCutOffWhenRepliesPileUp) {
  Client client;
  Bytes pings;
  uint32_t stream = 1000;
  bool closed = false;
  // Each ping costs its reply 14 bytes in the agent's queue; the bound is 8 MiB.
  for (int round = 0; round < 4000 && !closed; ++round) {
    pings.clear();
    for (int i = 0; i < 1000; ++i)
      proto::append_frame(pings, stream++, FrameType::Request,
                          proto::encode_request(proto::kPingVerb));
    try {
      sys::write_all(client.socket(), pings);
    } catch (const Error&) {
      closed = true;
    }
  }
  EXPECT_TRUE(closed);
  expect_cut_off(client);
}

TEST(Verbs, PingInfoAndClock) {
  Client client;
  client.ping();
  const auto outcome = client.finish(client.request(proto::encode_request(proto::kInfoVerb)));
  ASSERT_TRUE(outcome.info);
  EXPECT_NE(outcome.info->kernel, "");
  EXPECT_NE(outcome.info->software, "");
  EXPECT_GT(outcome.info->uptime_ms, 0U);
  EXPECT_GT(outcome.info->memory_total, 0U);
  EXPECT_GT(outcome.info->memory_available, 0U);
  EXPECT_LE(outcome.info->memory_available, outcome.info->memory_total);
  EXPECT_EQ(outcome.info->commands, 0U);
  if (::geteuid() == 0) return;  // would set this machine's clock
  EXPECT_EQ(client.finish(client.request(proto::SyncTimeRequest{1}.encode())).error.value().kind,
            Kind::Denied);
}

TEST(Verbs, ShutdownIsAnsweredAndEndsCommands) {
  Client client;
  const uint32_t sleeper = client.start(shell_request("sleep 60"));
  client.wait_started(sleeper);
  const auto outcome = client.finish(client.request(proto::ShutdownRequest{}.encode()));
  EXPECT_FALSE(outcome.error);
  EXPECT_EQ(client.agent_end(Client::kDeadline), (sys::ExitStatus{0, 0}));
}

}
