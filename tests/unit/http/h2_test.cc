// A client session and a server session with memory between them.

#include "mvm/http/h2.h"

#include <malloc.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

#include "h2_link.h"

namespace mvm::http {
namespace {

TEST(H2, CarriesARequestAndItsAnswer) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), true);
  link.run();
  EXPECT_EQ(link.server.log(), "[1 head GET /a][1 end]");
  EXPECT_EQ(link.server.head, get());
  link.server.session.respond(id, answer(), false);
  link.server.session.send(id, as_bytes("hello"));
  link.server.session.finish(id);
  link.run();
  EXPECT_EQ(link.client.log(), "[1 head 200][1 data 5][1 end]");
  EXPECT_EQ(link.client.body, "hello");
  EXPECT_EQ(link.client.head, answer());
  EXPECT_EQ(link.client.session.open_streams(), 0U);
  EXPECT_EQ(link.server.session.open_streams(), 0U);
}

TEST(H2, WorksByteByByte) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), false);
  link.client.session.send(id, as_bytes("question"));
  link.client.session.finish(id, {{"checksum", "1"}});
  link.run(1);
  EXPECT_EQ(link.server.body, "question");
  EXPECT_EQ(link.server.trailers, (Headers{{"checksum", "1"}}));
  link.server.session.respond(id, answer(), true);
  link.run(1);
  EXPECT_EQ(link.client.log(), "[1 head 200][1 end]");
}

// As gRPC does it: a body that goes on while the answer comes, and a status behind the answer.
TEST(H2, CarriesTrailersInBothDirections) {
  H2Link link;
  const int32_t id = link.client.session.request(get("/svc/Method"), false);
  link.client.session.send(id, as_bytes("one"));
  link.run();
  link.server.session.respond(id, answer(), false);
  link.server.session.send(id, as_bytes("1"));
  link.run();
  EXPECT_EQ(link.client.log(), "[1 head 200][1 data 1]");
  link.client.session.send(id, as_bytes("two"));
  link.client.session.finish(id);
  link.run();
  EXPECT_EQ(link.server.log(), "[1 head GET /svc/Method][1 data 3][1 data 3][1 end]");
  link.server.session.finish(id, {{"grpc-status", "0"}});
  link.run();
  EXPECT_EQ(link.client.log(), "[1 trailers][1 end]");
  EXPECT_EQ(link.client.trailers, (Headers{{"grpc-status", "0"}}));
}

TEST(H2, InterimAnswersComeFirst) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), false);
  link.run();
  EXPECT_TRUE(link.server.session.interim(id, answer(103)));
  link.server.session.respond(id, answer(), true);
  EXPECT_FALSE(link.server.session.interim(id, answer(103)));
  link.run();
  EXPECT_EQ(link.client.log(), "[1 interim 103][1 head 200][1 end]");
}

TEST(H2, StreamsAreIndependent) {
  H2Link link;
  link.run();
  std::vector<int32_t> ids;
  for (int at = 0; at < 50; ++at)
    ids.push_back(link.client.session.request(get("/" + std::to_string(at)), true));
  link.run();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    link.server.session.respond(*id, answer(), false);
    link.server.session.send(*id, as_bytes(std::to_string(*id)));
    link.server.session.finish(*id);
  }
  link.run();
  const std::string log = link.client.log();
  for (const int32_t id : ids)
    EXPECT_NE(log.find("[" + std::to_string(id) + " end]"), std::string::npos) << id;
}

// ---- back-pressure

TEST(H2, TheConsumerOpensTheWindow) {
  const H2Limits limits{.stream_window = 100'000, .connection_window = 150'000};
  H2Link link(limits);
  link.run();
  link.server.consume = false;
  const int32_t id = link.client.session.request(get(), false);
  link.client.session.send(id, as_bytes(std::string(250'000, 'x')));
  link.run();
  EXPECT_EQ(link.server.body.size(), 100'000U);
  EXPECT_EQ(link.client.session.unsent(id), 150'000U);
  size_t sent = 0;
  H2Sent one;
  while (link.client.session.take_sent(one)) sent += one.length;
  EXPECT_EQ(sent, 100'000U);

  // Another stream has what is left of the connection's window, and no more.
  const int32_t other = link.client.session.request(get(), false);
  link.client.session.send(other, as_bytes(std::string(100'000, 'y')));
  link.run();
  EXPECT_EQ(link.server.body.size(), 150'000U);

  link.server.session.consumed(id, 100'000);
  link.run();
  EXPECT_EQ(link.server.body.size(), 250'000U);
  EXPECT_EQ(link.client.session.unsent(id) + link.client.session.unsent(other), 100'000U);
}

TEST(H2, WritingStopsAtItsLimit) {
  H2Link link;
  link.run();
  const int32_t id = link.client.session.request(get(), false);
  link.client.session.send(id, as_bytes(std::string(200'000, 'x')));
  std::string out;
  link.client.session.write(out, 40'000);
  EXPECT_GE(out.size(), 40'000U);
  EXPECT_LT(out.size(), 40'000U + 17'000U);
  EXPECT_TRUE(link.client.session.wants_write());
}

TEST(H2, WhatGoesDownWithItsStreamCountsAsSent) {
  H2Link link;
  link.server.consume = false;
  const int32_t id = link.client.session.request(get(), false);
  link.client.session.send(id, as_bytes(std::string(1'000'000, 'x')));
  link.run();
  link.server.session.reset(id, H2Error::Cancel);
  link.run();
  EXPECT_EQ(link.client.log(), "[1 reset cancel]");
  size_t sent = 0;
  H2Sent one;
  while (link.client.session.take_sent(one)) sent += one.length;
  EXPECT_EQ(sent, 1'000'000U);
}

// What has left goes, also of a body that is never all gone; otherwise a long one would be kept
// whole.
TEST(H2, ABodyThatNeverEndsIsNotKept) {
  const H2Limits limits{.stream_window = 100'000, .connection_window = 100'000};
  H2Link link(limits);
  const int32_t id = link.client.session.request(get(), false);
  link.client.session.send(id, as_bytes(std::string(200'000, 'x')));
  link.run();
  const size_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  for (int at = 0; at < 400; ++at) {
    H2Sent one;
    while (link.client.session.take_sent(one))
      link.client.session.send(id, as_bytes(std::string(one.length, 'y')));
    link.server.body.clear();
    link.server.feed(link.client.take());
    link.client.feed(link.server.take());
    ASSERT_GT(link.client.session.unsent(id), 0U);
  }
  EXPECT_LT(::mallinfo2().uordblks + ::mallinfo2().hblkhd, before + 4'000'000);
}

// The peer may not take the reset for a long time.
TEST(H2, AResetStreamKeepsNoBody) {
  H2End client(H2Side::Client);
  const int32_t id = client.session.request(get(), false);
  client.session.send(id, as_bytes(std::string(200'000, 'x')));
  client.session.reset(id, H2Error::Cancel);
  EXPECT_EQ(client.session.unsent(id), 0U);
  H2Sent sent;
  ASSERT_TRUE(client.session.take_sent(sent));
  EXPECT_EQ(sent.length, 200'000U);
  client.take();
  EXPECT_FALSE(client.session.take_sent(sent));
}

TEST(H2, SaysWhenAnAnswerHasLeft) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), false);
  link.run();
  link.server.session.respond(id, answer(), false);
  link.server.session.send(id, as_bytes("no"));
  link.server.session.finish(id);
  EXPECT_FALSE(link.server.session.written(id));
  const std::string down = link.server.take();
  EXPECT_TRUE(link.server.session.written(id));
  EXPECT_TRUE(link.server.session.reset(id, H2Error::NoError));
  link.client.feed(down + link.server.take());
  EXPECT_EQ(link.client.log(), "[1 head 200][1 data 2][1 end][1 reset no_error]");
  EXPECT_FALSE(link.server.session.written(id));
}

// ---- ends

TEST(H2, AResetIsToldToTheOtherSide) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), false);
  link.run();
  link.client.session.reset(id, H2Error::Cancel);
  link.run();
  EXPECT_EQ(link.server.log(), "[1 head GET /a][1 reset cancel]");
  EXPECT_FALSE(link.server.session.respond(id, answer(), true));
  EXPECT_FALSE(link.client.session.send(id, as_bytes("x")));
}

TEST(H2, ShuttingDownLetsStreamsEnd) {
  H2Link link;
  const int32_t id = link.client.session.request(get(), true);
  link.run();
  link.server.session.shut_down();
  link.run();
  EXPECT_EQ(link.client.log(), "[1 goaway no_error]");
  EXPECT_FALSE(link.client.session.can_request());
  EXPECT_EQ(link.client.session.request(get(), true), 0);
  link.server.session.respond(id, answer(), true);
  link.run();
  EXPECT_EQ(link.client.log(), "[1 head 200][1 end]");
  EXPECT_TRUE(link.server.session.over());
}

TEST(H2, GoAwayResetsWhatWillNotBeAnswered) {
  H2End client(H2Side::Client);
  client.feed(frame(kSettingsFrame, 0, 0, ""));
  client.session.request(get(), true);
  client.session.request(get(), true);
  client.take();
  client.feed(frame(kGoAwayFrame, 0, 0, std::string("\0\0\0\1\0\0\0\0", 8)));
  EXPECT_EQ(client.log(), "[1 goaway no_error][3 reset refused_stream]");
}

TEST(H2, TheNumberOfStreamsIsThePeers) {
  const H2Limits few{.streams = 2};
  H2Link link(few);
  link.run();
  EXPECT_NE(link.client.session.request(get(), true), 0);
  EXPECT_NE(link.client.session.request(get(), true), 0);
  EXPECT_FALSE(link.client.session.can_request());
  EXPECT_EQ(link.client.session.request(get(), true), 0);
}

// A server that takes two refuses the third; what it takes is known when its settings are there.
TEST(H2, OneStreamUntilTheServerHasSaidHowManyItTakes) {
  H2End client(H2Side::Client);
  EXPECT_NE(client.session.request(get(), true), 0);
  EXPECT_FALSE(client.session.can_request());
  client.feed(frame(kSettingsFrame, 0, 0, ""));
  EXPECT_TRUE(client.session.can_request());
  EXPECT_NE(client.session.request(get(), true), 0);
}

// ---- what is not written

TEST(H2, RefusesHeadsThatCouldNotBeReadBack) {
  H2Session client(H2Side::Client);
  const auto with = [](std::string name, std::string value) {
    H2Head head = get();
    head.headers.push_back({std::move(name), std::move(value)});
    return head;
  };
  EXPECT_THROW(client.request(with("Upper", "x"), true), Error);
  EXPECT_THROW(client.request(with("a b", "x"), true), Error);
  EXPECT_THROW(client.request(with("a", "x\r\ny"), true), Error);
  EXPECT_THROW(client.request(with("connection", "close"), true), Error);
  EXPECT_THROW(client.request(with("transfer-encoding", "chunked"), true), Error);
  EXPECT_THROW(client.request(get("/a b"), true), Error);
  EXPECT_EQ(client.open_streams(), 0U);
}

}
}
