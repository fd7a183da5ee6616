#include "mvm/http/forward.h"

#include <random>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/http/parser.h"

namespace mvm::http {
namespace {

RequestHead parsed_request(std::string_view text) {
  RequestParser parser;
  ByteView input = as_bytes(text);
  EXPECT_EQ(parser.next(input).kind, EventKind::Head) << text;
  return parser.head();
}
ResponseHead parsed_response(std::string_view text, std::string_view method = "GET") {
  ResponseParser parser;
  parser.expect(method);
  ByteView input = as_bytes(text);
  parser.next(input);
  return parser.head();
}
std::string forwarded(const RequestHead& head) {
  std::string out;
  append_forwarded(out, head);
  return out;
}
std::string forwarded(const ResponseHead& head, std::string_view method = "GET") {
  std::string out;
  append_forwarded(out, head, method);
  return out;
}

TEST(Forward, AHeadIsPassedOnAsItCame) {
  for (const std::string text :
       {"GET /a?b HTTP/1.1\r\nhOST: x\r\nB: 1\r\nA: 2\r\nb: 3\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-LENGTH: 3\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTRANSFER-encoding: chunked\r\nZ: y\r\n\r\n",
        "GET / HTTP/1.0\r\nX: y\r\n\r\n"}) {
    EXPECT_EQ(forwarded(parsed_request(text)), text);
  }
  const std::string answer =
      "HTTP/1.1 200 All right\r\nServer: x\r\nContent-Length: 3\r\nB: c\r\n\r\n";
  EXPECT_EQ(forwarded(parsed_response(answer)), answer);
}

TEST(Forward, FramingIsWhatTheHeadSays) {
  RequestHead head =
      parsed_request("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nA: b\r\n\r\n");
  head.framing.length = 50;
  EXPECT_EQ(forwarded(head), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nA: b\r\n\r\n");
  head.framing = {BodyKind::Chunked, 0};
  EXPECT_EQ(forwarded(head),
            "POST / HTTP/1.1\r\nHost: x\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n");
  head.framing = {};
  EXPECT_EQ(forwarded(head), "POST / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n");
}

// Values that a parser would not have let through, made by whoever built the head.
TEST(Forward, NeverWritesAHeadWithTwoFramings) {
  RequestHead head{"POST", "/", 1, {}, {BodyKind::Length, 3}};
  head.headers = {{"Host", "x"},
                  {"Transfer-Encoding", "chunked"},
                  {"Content-Length", "7"},
                  {"content-length", "8"}};
  EXPECT_EQ(forwarded(head), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n");
}

TEST(Forward, AnswersToHeadAnd304KeepTheirLength) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
  EXPECT_EQ(forwarded(parsed_response(head, "HEAD"), "HEAD"), head);
  const std::string unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
  EXPECT_EQ(forwarded(parsed_response(unchanged)), unchanged);
  EXPECT_EQ(forwarded(parsed_response("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n")),
            "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST(Forward, RefusesInjectionAndLeavesNothingBehind) {
  std::string out = "before";
  RequestHead head{"GET", "/", 1, {{"Host", "x"}, {"A", "b\r\nC: d"}}, {}};
  EXPECT_THROW(append_forwarded(out, head), Error);
  EXPECT_EQ(out, "before");
  EXPECT_THROW(append_forwarded(out, ResponseHead{200, "OK", 1, head.headers, {}}, "GET"), Error);
  EXPECT_EQ(out, "before");
}

TEST(Hops, FieldsOfThisHopAreRemoved) {
  Headers headers{{"Host", "x"},
                  {"Connection", "close, X-Mine"},
                  {"x-mine", "1"},
                  {"Keep-Alive", "timeout=5"},
                  {"Proxy-Connection", "keep-alive"},
                  {"Proxy-Authorization", "Basic x"},
                  {"TE", "trailers"},
                  {"Upgrade", "h2c"},
                  {"HTTP2-Settings", "x"},
                  {"Accept", "*/*"}};
  strip_hop_by_hop(headers);
  EXPECT_EQ(headers, (Headers{{"Host", "x"}, {"Accept", "*/*"}}));
}

TEST(Hops, ConnectionCannotRemoveWhatTheMessageMeans) {
  Headers headers{{"Connection", "Host, Authorization, Cookie, Content-Length"},
                  {"Host", "x"},
                  {"Authorization", "y"},
                  {"Cookie", "z"},
                  {"Content-Length", "3"}};
  strip_hop_by_hop(headers);
  EXPECT_EQ(headers.size(), 4U);
}

TEST(Expect, KnowsOneExpectation) {
  const auto expect = [](const char* value, int minor = 1) {
    return expectation(RequestHead{"POST", "/", minor, {{"Expect", value}}, {}});
  };
  EXPECT_EQ(expect("100-Continue"), Expectation::Continue);
  EXPECT_EQ(expect("100-continue", 0), Expectation::None);
  EXPECT_EQ(expect("100-continue, x"), Expectation::Unknown);
  EXPECT_EQ(expect("tea"), Expectation::Unknown);
  EXPECT_EQ(expectation(RequestHead{"POST", "/", 1, {}, {}}), Expectation::None);
}

TEST(Trailers, AreWrittenAndReadBack) {
  std::string body;
  append_chunk_size(body, 3);
  body += "abc";
  body += kChunkEnd;
  append_last_chunk(body, {{"Grpc-Status", "0"}});
  EXPECT_EQ(body, "3\r\nabc\r\n0\r\nGrpc-Status: 0\r\n\r\n");
  ResponseParser parser;
  const std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body;
  ByteView input = as_bytes(text);
  while (parser.next(input).kind != EventKind::End) {
  }
  EXPECT_EQ(parser.trailers(), (Headers{{"Grpc-Status", "0"}}));
}

TEST(Trailers, MayNotSayWhatBelongsInTheHead) {
  std::string out;
  for (const char* name : {"Content-Length", "transfer-encoding", "Host", "Authorization"})
    EXPECT_THROW(append_last_chunk(out, {{name, "x"}}), Error) << name;
  EXPECT_EQ(out, "");
}

// Messages made at random, written by the writer and read by the parser in random pieces: what
// comes out is what went in.
TEST(Forward, RoundTripsWhateverIsGenerated) {
  std::mt19937 random(11);
  const auto pick = [&](std::string_view from, size_t most, size_t least = 0) {
    std::string out;
    const size_t length = least + random() % (most - least + 1);
    while (out.size() < length) out += from[random() % from.size()];
    return out;
  };
  for (int round = 0; round < 500; ++round) {
    RequestHead head{pick("GETPOS-!", 8, 1), "/" + pick("ab/?&=%41.~{}|", 40), 1, {}, {}};
    head.headers.push_back({"Host", "a" + pick("bc-9", 20) + ".example"});
    if (head.headers[0].value.find("-.") != std::string::npos) continue;
    for (size_t count = random() % 8; count > 0; --count) {
      std::string value = pick("a b\tc,;\"\xc3\xa4", 60);
      while (!value.empty() && (value.front() <= ' ' && value.front() > 0)) value.erase(0, 1);
      while (!value.empty() && (value.back() <= ' ' && value.back() > 0)) value.pop_back();
      head.headers.push_back({"X" + pick("-aB1~", 12), std::move(value)});
    }
    const std::string body = pick("body\r\n0", 3000);
    const bool chunked = random() % 2 == 0;
    head.framing = chunked ? Framing{BodyKind::Chunked, 0} : Framing{BodyKind::Length, body.size()};
    std::string wire = forwarded(head);
    for (size_t at = 0; at < body.size() && chunked;) {
      const size_t length = std::min<size_t>(1 + random() % 700, body.size() - at);
      append_chunk(wire, std::string_view(body).substr(at, length));
      at += length;
    }
    wire += chunked ? std::string(kLastChunk) : body;

    RequestParser parser;
    std::string read;
    bool ended = false;
    for (size_t at = 0; at < wire.size();) {
      const size_t length = std::min<size_t>(1 + random() % 200, wire.size() - at);
      ByteView input = as_bytes(std::string_view(wire).substr(at, length));
      at += length;
      for (Event event = parser.next(input); event.kind != EventKind::More;
           event = parser.next(input)) {
        ASSERT_NE(event.kind, EventKind::Bad) << fault_text(event.fault) << "\n" << wire;
        if (event.kind == EventKind::Body) read += as_text(event.body);
        ended = ended || event.kind == EventKind::End;
      }
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(read, body);
    EXPECT_EQ(parser.head().method, head.method);
    EXPECT_EQ(parser.head().target, head.target);
    EXPECT_EQ(parser.head().framing, head.framing);
    EXPECT_TRUE(
        std::equal(head.headers.begin(), head.headers.end(), parser.head().headers.begin()));
  }
}

}
}
