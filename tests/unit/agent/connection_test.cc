// The client against far sides of every kind: good, silent, dead, of another version, and hostile.
#include "mvm/agent/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/file.h"

#include "peer.h"

namespace mvm::agent {

using proto::FrameType;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Long enough for a loaded machine; no good test waits for it.
constexpr milliseconds kPatience{60'000};

TEST(Connection, GreetsAndAsksInOneWrite) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::SeqPacket);  // keeps writes apart
  Connection connection(std::move(ours));
  EXPECT_EQ(error_of([&] { connection.ping(milliseconds(1)); }).kind(), Kind::Timeout);
  const auto message = sys::receive_message(theirs.get(), 4096);
  ASSERT_TRUE(message);
  proto::FrameDecoder decoder;
  decoder.feed(message->data);
  const auto hello = decoder.next();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->type, FrameType::Hello);
  EXPECT_EQ(proto::Hello::decode(hello->payload)->role, "client");
  const auto request = decoder.next();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->type, FrameType::Request);
  EXPECT_EQ(proto::request_verb(request->payload), proto::kPingVerb);
  EXPECT_EQ(decoder.pending(), 0U);
}

TEST(Connection, MakesOneCallAfterAnother) {
  Peer peer([](Peer& self) {
    self.ok(self.accept().stream);
    proto::AgentInfo info;
    info.kernel = "6.1.0";
    info.commands = 3;
    const auto second = self.receive();
    self.ok(second->stream, info.encode());
    self.read_to_end();
  });
  Connection connection(peer.client());
  connection.ping(kPatience);
  const auto info = connection.info(kPatience);
  EXPECT_EQ(info.kernel, "6.1.0");
  EXPECT_EQ(info.commands, 3U);
}

TEST(Connection, AsksTheSandboxProcess) {
  Peer peer([](Peer& self) {
    const auto stop = self.accept();
    EXPECT_TRUE(proto::StopRequest::decode(stop.payload)->kill);
    self.ok(stop.stream, proto::SandboxEnd{proto::EndReason::Killed, "asked"}.encode());
    const auto status = self.receive();
    proto::SandboxStatus answer;
    answer.state = "running";
    answer.monitor_pid = 42;
    self.ok(status->stream, answer.encode());
    const auto wait = self.receive();
    EXPECT_EQ(proto::request_verb(wait->payload), proto::kSandboxWaitVerb);
    self.ok(wait->stream, proto::SandboxEnd{proto::EndReason::Panic, "oops"}.encode());
    self.read_to_end();
  });
  Connection connection(peer.client());
  proto::StopRequest stop;
  stop.kill = true;
  EXPECT_EQ(connection.stop(stop, kPatience).reason, proto::EndReason::Killed);
  EXPECT_EQ(connection.status(kPatience).monitor_pid, 42U);
  EXPECT_EQ(connection.wait_end(std::nullopt).reason, proto::EndReason::Panic);
}

TEST(Connection, PassesOnARefusalAndLives) {
  Peer peer([](Peer& self) {
    const auto request = self.accept();
    self.send(request.stream, FrameType::End,
              proto::encode_error({Kind::Conflict, "no\x1b[31m way"}));
    self.ok(self.receive()->stream);
    self.read_to_end();
  });
  Connection connection(peer.client());
  const Error error = error_of([&] { connection.wait_ready(kPatience); });
  EXPECT_EQ(error.kind(), Kind::Conflict);
  EXPECT_EQ(error.message(), "no\\x1b[31m way");
  connection.ping(kPatience);
}

TEST(Connection, CutsALongRefusal) {
  Peer peer([](Peer& self) {
    self.send(self.accept().stream, FrameType::End,
              proto::encode_error({Kind::Invalid, std::string(4000, 'x')}));
    self.read_to_end();
  });
  Connection connection(peer.client());
  const Error error = error_of([&] { connection.ping(kPatience); });
  EXPECT_LT(error.message().size(), kMaxErrorText + 8);
}

TEST(Connection, GivesUpOnSilence) {
  Peer peer([](Peer& self) { self.read_to_end(); });
  Connection connection(peer.client());
  const Error error = error_of([&] { connection.ping(milliseconds(20)); });
  EXPECT_EQ(error.kind(), Kind::Timeout);
  EXPECT_THAT(error.message(), HasSubstr("20ms"));
  // The connection is closed, so that a late answer is not taken for that of the next call.
  EXPECT_EQ(error_of([&] { connection.ping(kPatience); }).kind(), Kind::Unavailable);
}

TEST(Connection, GivesUpOnAFrameThatNeverEnds) {
  Peer peer([](Peer& self) {
    const auto stream = self.accept().stream;
    Bytes frame;
    proto::append_frame(frame, stream, FrameType::End, proto::encode_ok());
    self.raw(ByteView(frame).first(frame.size() - 1));
    self.read_to_end();
  });
  Connection connection(peer.client());
  EXPECT_EQ(error_of([&] { connection.ping(milliseconds(50)); }).kind(), Kind::Timeout);
}

TEST(Connection, RefusesAnotherVersion) {
  Peer peer([](Peer& self) {
    self.hello(proto::kProtocolVersion + 1);
    self.read_to_end();
  });
  Connection connection(peer.client());
  EXPECT_EQ(error_of([&] { connection.ping(kPatience); }).kind(), Kind::Unsupported);
}

TEST(Connection, ReportsAPeerThatCloses) {
  Peer peer([](Peer& self) {
    self.accept();
    self.close();
  });
  Connection connection(peer.client());
  const Error error = error_of([&] { connection.ping(kPatience); });
  EXPECT_EQ(error.kind(), Kind::Unavailable);
  EXPECT_THAT(error.message(), HasSubstr("closed"));
}

TEST(Connection, HearsTheReasonOfAPeerThatDidNotReadAll) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  Bytes said;
  proto::append_frame(said, proto::kConnectionStream, FrameType::Hello,
                      proto::Hello{proto::kProtocolVersion, "agent", "test"}.encode());
  proto::append_frame(said, 1, FrameType::End,
                      proto::encode_error({Kind::Exhausted, "too many connections"}));
  sys::write_all(theirs.get(), said);
  theirs.reset();
  Connection connection(std::move(ours));
  EXPECT_EQ(error_of([&] { connection.ping(kPatience); }).message(), "too many connections");
}

TEST(Connection, StopsWhenInterrupted) {
  const sys::Fd interrupt = sys::event_fd();
  Peer peer([&](Peer& self) {
    self.accept();
    sys::signal_event(interrupt.get());
    self.read_to_end();
  });
  Connection connection(peer.client(), interrupt.get());
  EXPECT_EQ(error_of([&] { connection.wait_end(std::nullopt); }).message(), "interrupted");
}

TEST(Connection, SaysWhenNobodyListens) {
  const sys::TempDir dir;
  const std::string path = dir.path() + "/control.sock";
  const Error error = error_of([&] { Connection::connect(path); });
  EXPECT_EQ(error.kind(), Kind::Unavailable);
  EXPECT_THAT(error.message(), HasSubstr(path));
}

struct Hostile {
  const char* name;
  std::function<void(Peer&)> play;  // the request is stream 1
};

class HostilePeer : public testing::TestWithParam<Hostile> {};

TEST_P(HostilePeer, EndsTheConnection) {
  Peer peer([&](Peer& self) {
    GetParam().play(self);
    self.read_to_end();
  });
  Connection connection(peer.client());
  const Error error = error_of([&] { connection.ping(kPatience); });
  EXPECT_EQ(error.kind(), Kind::Unavailable);
  EXPECT_THAT(error.message(), StartsWith("the sandbox speaks garbage: "));
  EXPECT_EQ(error_of([&] { connection.ping(kPatience); }).kind(), Kind::Unavailable);
}

static Bytes bytes_of(std::string_view text) {
  return {as_bytes(text).begin(), as_bytes(text).end()};
}

INSTANTIATE_TEST_SUITE_P(
    Every, HostilePeer,
    testing::Values(Hostile{"Text", [](Peer& p) { p.raw(as_bytes("HTTP/1.1 200 OK\r\n\r\n")); }},
                    Hostile{"FrameTooLarge",
                            [](Peer& p) {
                              Bytes out;
                              Writer(out).u32(static_cast<uint32_t>(proto::kMaxFrame + 1));
                              p.raw(out);
                            }},
                    Hostile{"FrameTooSmall",
                            [](Peer& p) {
                              Bytes out;
                              Writer(out).u32(static_cast<uint32_t>(proto::kFrameOverhead - 1));
                              p.raw(out);
                            }},
                    Hostile{"UnknownType",
                            [](Peer& p) {
                              Bytes out;
                              Writer writer(out);
                              writer.u32(5);
                              writer.u32(1);
                              writer.u8(proto::kLastFrameType + 1);
                              p.raw(out);
                            }},
                    Hostile{"NoGreeting", [](Peer& p) { p.ok(1); }},
                    Hostile{"BadGreeting",
                            [](Peer& p) { p.send(0, FrameType::Hello, bytes_of("\xff\xff")); }},
                    Hostile{"TwoGreetings",
                            [](Peer& p) {
                              p.hello();
                              p.hello();
                            }},
                    Hostile{"EndOfAnotherStream",
                            [](Peer& p) {
                              p.hello();
                              p.ok(2);
                            }},
                    Hostile{"EndThatDoesNotDecode",
                            [](Peer& p) {
                              p.hello();
                              p.send(1, FrameType::End, bytes_of("\xa1"));
                            }},
                    Hostile{"OutputNobodyAskedFor",
                            [](Peer& p) {
                              p.hello();
                              p.send(1, FrameType::Stdout, bytes_of("x"));
                            }},
                    Hostile{"DataNobodyAskedFor",
                            [](Peer& p) {
                              p.hello();
                              p.send(1, FrameType::Data, bytes_of("x"));
                            }},
                    Hostile{"CreditForNothing",
                            [](Peer& p) {
                              p.hello();
                              Bytes out;
                              proto::append_window(out, 1, 1);
                              p.raw(out);
                            }},
                    Hostile{"RequestFromTheServer",
                            [](Peer& p) {
                              p.hello();
                              p.send(1, FrameType::Request, proto::encode_request("ping"));
                            }},
                    Hostile{"EventsWithoutEnd",
                            [](Peer& p) {
                              p.hello();
                              while (p.send(1, FrameType::Event)) {
                              }
                            }}),
    [](const auto& hostile) { return std::string(hostile.param.name); });

TEST(Call, TakesEventsUpToItsLimit) {
  Call call(1, Call::Kind::Unary);
  const proto::Frame event{1, FrameType::Event, {}};
  for (size_t i = 0; i < kMaxEvents; ++i)
    EXPECT_EQ(call.on_frame(event).what, Incoming::What::Nothing);
  EXPECT_EQ(call.on_frame(event).what, Incoming::What::Fault);
}

TEST(Call, TakesDataUpToTheWindowAndNoMore) {
  Call call(1, Call::Kind::Get);
  const Bytes data(proto::kInitialWindow / 4);
  const proto::Frame frame{1, FrameType::Data, data};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(call.on_frame(frame).what, Incoming::What::Data);
  const Bytes one(1);
  EXPECT_EQ(call.on_frame({1, FrameType::Data, one}).what, Incoming::What::Fault);
}

TEST(Call, TakesNothingAfterTheEnd) {
  Call call(1, Call::Kind::Get);
  EXPECT_EQ(call.on_frame({1, FrameType::End, {}}).what, Incoming::What::End);
  EXPECT_EQ(call.on_frame({1, FrameType::Event, {}}).what, Incoming::What::Fault);
}

}
