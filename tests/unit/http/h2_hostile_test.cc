// Frames that no honest peer sends, made by hand.

#include <gtest/gtest.h>

#include "h2_link.h"

namespace mvm::http {
namespace {

std::string headers(uint32_t stream, std::string_view block, int flags = kEndStream | kEndHeaders) {
  return frame(kHeadersFrame, flags, stream, block);
}
std::string number(uint32_t value) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift);
  return out;
}

// What a server makes of `frames` behind the preface.
struct Verdict {
  std::string log;
  std::string_view reason;
};
Verdict verdict(std::string_view frames, const H2Limits& limits = {}) {
  H2End server(H2Side::Server, limits);
  server.feed(preface() + std::string(frames));
  server.take();
  server.feed("");
  return {server.log(), server.reason};
}

TEST(H2Hostile, RequestsThatBreakTheRulesAreReset) {
  const struct {
    const char* name;
    std::string block;
  } table[] = {
      {"no method", field(":scheme", "https") + field(":authority", "a") + field(":path", "/")},
      {"no path", field(":method", "GET") + field(":scheme", "https") + field(":authority", "a")},
      {"two paths", request_block() + field(":path", "/b")},
      {"pseudo field after another", field("x", "y") + request_block()},
      {"unknown pseudo field", request_block() + field(":x", "y")},
      {"a response's pseudo field", request_block() + field(":status", "200")},
      {"upper case", request_block() + field("Accept", "x")},
      {"line break in a value", request_block() + field("x", "a\r\nb: c")},
      {"zero byte in a value", request_block() + field("x", std::string_view("a\0b", 3))},
      {"colon in a name", request_block() + field("a:b", "c")},
      {"empty name", request_block() + field("", "c")},
      {"connection", request_block() + field("connection", "close")},
      {"transfer-encoding", request_block() + field("transfer-encoding", "chunked")},
      {"upgrade", request_block() + field("upgrade", "websocket")},
      {"te other than trailers", request_block() + field("te", "gzip")},
      {"two lengths",
       request_block() + field("content-length", "0") + field("content-length", "0")},
      {"length without a body", request_block() + field("content-length", "5")},
      {"no authority", field(":method", "GET") + field(":scheme", "https") + field(":path", "/")},
      {"authority with user", request_block("/", "u@example.com")},
      {"authority that is a list", request_block("/", "a,b")},
      {"host that differs", request_block() + field("host", "other.com")},
      {"two hosts", request_block() + field("host", "example.com") + field("host", "example.com")},
      {"path without a slash", request_block("a")},
      {"space in the path", request_block("/a b")},
      {"fragment", request_block("/a#b")},
      {"asterisk for GET", request_block("*")},
      {"scheme", field(":method", "GET") + field(":scheme", "ftp") + field(":authority", "a") +
                     field(":path", "/")},
      {"CONNECT without a port", field(":method", "CONNECT") + field(":authority", "a")},
      {"extended CONNECT", field(":method", "CONNECT") + field(":protocol", "websocket") +
                               field(":scheme", "https") + field(":authority", "a") +
                               field(":path", "/")},
  };
  for (const auto& row : table) {
    const std::string next = headers(3, request_block("/next"));
    EXPECT_EQ(verdict(headers(1, row.block) + next).log, "[1 malformed][3 head GET /next][3 end]")
        << row.name;
  }
}

TEST(H2Hostile, HostMayStandInForAuthority) {
  const std::string block = field(":method", "GET") + field(":scheme", "https") +
                            field(":path", "/") + field("host", "example.com");
  EXPECT_EQ(verdict(headers(1, block)).log, "[1 head GET /][1 end]");
  EXPECT_EQ(verdict(headers(1, request_block() + field("host", "EXAMPLE.com"))).log,
            "[1 head GET /][1 end]");
}

TEST(H2Hostile, ABodyThatIsNotItsLengthIsReset) {
  const std::string head = headers(1, request_block() + field("content-length", "5"), kEndHeaders);
  EXPECT_EQ(verdict(head + frame(kDataFrame, kEndStream, 1, "abc")).log,
            "[1 head GET /][1 data 3][1 reset protocol_error]");
  EXPECT_EQ(verdict(head + frame(kDataFrame, 0, 1, "abcdef")).log,
            "[1 head GET /][1 reset protocol_error]");
}

TEST(H2Hostile, WhatBreaksTheConnectionEndsIt) {
  const std::string open = headers(1, request_block(), kEndHeaders);
  const struct {
    const char* name;
    std::string frames;
    const char* log;
  } table[] = {
      {"DATA on stream 0", frame(kDataFrame, 0, 0, "x"), "[bad protocol_error]"},
      {"DATA on an idle stream", frame(kDataFrame, 0, 5, "x"), "[bad protocol_error]"},
      {"an even stream", headers(2, request_block()), "[bad protocol_error]"},
      {"a block that cannot be decompressed", headers(1, "\xff\xff\xff\xff\xff\xff"),
       "[bad compression]"},
      {"DATA within a header block",
       frame(kHeadersFrame, 0, 1, request_block()) + frame(kDataFrame, 0, 1, "x"),
       "[bad protocol_error]"},
      {"CONTINUATION without HEADERS", frame(kContinuationFrame, kEndHeaders, 1, ""),
       "[bad protocol_error]"},
      {"PUSH_PROMISE", frame(5, kEndHeaders, 1, number(2)), "[bad protocol_error]"},
      {"SETTINGS of odd length", frame(kSettingsFrame, 0, 0, "abc"), "[bad frame_size]"},
      {"window beyond 2^31", frame(kWindowFrame, 0, 0, number(0x7fffffff)), "[bad flow_control]"},
      {"PING of odd length", frame(kPingFrame, 0, 0, "abc"), "[bad frame_size]"},
      {"a frame too large", frame(kDataFrame, 0, 1, std::string(16'385, 'x')), "[bad frame_size]"},
  };
  for (const auto& row : table) EXPECT_EQ(verdict(row.frames).log, row.log) << row.name;
}

TEST(H2Hostile, SomethingElseThanHttp2IsTold) {
  H2End server(H2Side::Server);
  server.feed("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
  EXPECT_EQ(server.log(), "[bad protocol_error]");
  EXPECT_TRUE(server.session.over());
  H2End client(H2Side::Client);
  client.take();
  client.feed("HTTP/1.1 400 Bad Request\r\n\r\n");
  client.take();
  client.feed("");
  EXPECT_TRUE(client.session.over());
}

TEST(H2Hostile, TheHeaderListIsBounded) {
  const H2Limits limits{.header_list = 2000, .headers = 10};
  std::string large = request_block();
  for (int at = 0; at < 5; ++at)
    large += field("x", std::string(120, 'y')) + field("z", std::string(120, 'y'));
  EXPECT_EQ(verdict(headers(1, large), limits).log, "[1 malformed]");
  std::string many = request_block();
  for (int at = 0; at < 7; ++at) many += field("x", "");
  EXPECT_EQ(verdict(headers(1, many), limits).reason, "there are too many header fields");
}

// A name in the table, then a reference to it by a byte each: small on the wire, large when read.
TEST(H2Hostile, AHeaderBombIsBounded) {
  std::string block = request_block();
  block += std::string("\x40\x01x\x7f\xe1\x1e", 6) + std::string(4064 - 0, 'y');
  block += std::string(10'000, '\xbe');
  const Verdict bomb = verdict(frame(kHeadersFrame, kEndStream | kEndHeaders, 1, block));
  EXPECT_EQ(bomb.log.find("head"), std::string::npos) << bomb.log;
}

// CVE-2024-28182 and its siblings.
TEST(H2Hostile, ContinuationsWithoutEndAreCutOff) {
  H2End server(H2Side::Server);
  server.feed(preface() + frame(kHeadersFrame, kEndStream, 1, request_block()));
  int count = 0;
  while (!server.session.over() && count < 1000) {
    server.feed(frame(kContinuationFrame, 0, 1, field("x", "y")));
    ++count;
  }
  EXPECT_LT(count, 100);
}

// CVE-2023-44487: each costs the server a request, and leaves no stream open.
TEST(H2Hostile, RapidResetsAreCutOff) {
  H2End server(H2Side::Server);
  server.feed(preface());
  uint32_t stream = 1;
  for (; !server.session.over() && stream < 20'000; stream += 2) {
    server.feed(headers(stream, request_block()) + frame(kResetFrame, 0, stream, number(8)));
    server.take();
    server.feed("");
    EXPECT_LE(server.session.open_streams(), 1U);
  }
  EXPECT_LT(stream, 2 * 1000U);
  EXPECT_NE(server.log().find("[bad "), std::string::npos);  // nghttp2 says internal_error
}

// CVE-2025-8671: here the server is made to do the resetting.
TEST(H2Hostile, RequestsThatHaveToBeResetAreCutOff) {
  H2End server(H2Side::Server);
  server.feed(preface());
  uint32_t stream = 1;
  for (; !server.session.over() && stream < 20'000; stream += 2) {
    server.feed(headers(stream, request_block(), kEndHeaders) +
                frame(kWindowFrame, 0, stream, number(0)));
    server.take();
    server.feed("");
  }
  EXPECT_LT(stream, 2 * 2000U);
}

TEST(H2Hostile, FramesThatMoveNothingAreCutOff) {
  const std::string open = headers(1, request_block(), kEndHeaders);
  const struct {
    const char* name;
    std::string frame;
  } table[] = {
      {"PING", frame(kPingFrame, 0, 0, "12345678")},
      {"PING answers", frame(kPingFrame, 1, 0, "12345678")},
      {"SETTINGS", frame(kSettingsFrame, 0, 0, "")},
      {"PRIORITY", frame(kPriorityFrame, 0, 1, std::string("\0\0\0\0\1", 5))},
      {"empty DATA", frame(kDataFrame, 0, 1, "")},
      {"padding alone", frame(kDataFrame, 8, 1, std::string("\3\0\0\0", 4))},
      {"WINDOW_UPDATE", frame(kWindowFrame, 0, 1, number(1))},
      {"unknown frames", frame(0x42, 0, 0, "x")},
  };
  for (const auto& row : table) {
    H2End server(H2Side::Server);
    server.feed(preface() + open);
    int count = 0;
    for (; !server.session.over() && count < 10'000; ++count) {
      server.feed(row.frame);
      server.take();
      server.feed("");
    }
    EXPECT_LE(count, 1001) << row.name;
    EXPECT_TRUE(server.session.over()) << row.name;
  }
}

TEST(H2Hostile, AnswersThatNobodyTakesAreBounded) {
  H2End server(H2Side::Server);
  server.feed(preface());
  for (int at = 0; at < 2000; ++at) server.feed(frame(kPingFrame, 0, 0, "12345678"));
  EXPECT_LT(server.take().size(), 20'000U);
  EXPECT_TRUE(server.session.over());
}

TEST(H2Hostile, AnIdleConnectionMayBeKeptAlive) {
  H2End server(H2Side::Server);
  server.feed(preface());
  for (int at = 0; at < 5000; ++at) {
    server.feed(frame(kPingFrame, 0, 0, "12345678"));
    server.take();
    server.session.time_passed(1);
  }
  EXPECT_FALSE(server.session.over());
}

TEST(H2Hostile, MoreStreamsThanAllowedAreRefused) {
  const H2Limits limits{.streams = 2};
  H2End server(H2Side::Server, limits);
  server.feed(preface());
  server.take();
  server.feed(frame(kSettingsFrame, 1, 0, ""));  // the client knows the limit
  for (uint32_t stream = 1; stream < 20; stream += 2)
    server.feed(headers(stream, request_block(), kEndHeaders));
  EXPECT_EQ(server.log(), "[1 head GET /][3 head GET /]");
  EXPECT_EQ(server.session.open_streams(), 2U);
}

TEST(H2Hostile, AServerCannotSendWhatWasNotAskedFor) {
  const auto client_log = [](std::string_view frames) {
    H2End client(H2Side::Client);
    client.session.request(get(), true);
    client.take();
    client.feed(frame(kSettingsFrame, 0, 0, "") + std::string(frames));
    client.take();
    client.feed("");
    return client.log();
  };
  EXPECT_EQ(client_log(headers(3, field(":status", "200"))), "[bad protocol_error]");
  // Refused by nghttp2 as long as the server may not have seen our SETTINGS.
  EXPECT_EQ(client_log(frame(5, kEndHeaders, 1, number(2) + request_block())), "");
  EXPECT_EQ(client_log(frame(kSettingsFrame, 1, 0, "") +
                       frame(5, kEndHeaders, 1, number(2) + request_block())),
            "[bad protocol_error]");
  EXPECT_EQ(client_log(headers(1, field(":status", "99"))), "[1 reset protocol_error]");
  EXPECT_EQ(client_log(headers(1, field(":status", "101"))), "[1 reset protocol_error]");
  EXPECT_EQ(client_log(headers(1, field("x", "y"))), "[1 reset protocol_error]");
  EXPECT_EQ(client_log(headers(1, field(":status", "103"))), "[1 reset protocol_error]");
  EXPECT_EQ(client_log(frame(kDataFrame, 0, 1, "x")), "[bad protocol_error]");
}

}
}
