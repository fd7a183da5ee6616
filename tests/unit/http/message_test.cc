#include "mvm/http/message.h"

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/http/parser.h"

namespace mvm::http {

TEST(Encode, RequestRoundTrips) {
  RequestHead head{"POST", "/v1/x?y=z", 1, {{"Host", "mvm"}, {"X", "a b"}}, {BodyKind::Length, 3}};
  const std::string wire = encode(head);
  RequestParser parser;
  ByteView input = as_bytes(wire);
  ASSERT_EQ(parser.next(input).kind, EventKind::Head);
  head.headers.push_back({"Content-Length", "3"});
  EXPECT_EQ(parser.head(), head);
}

TEST(Encode, ResponseRoundTrips) {
  ResponseHead head{200, "OK", 1, {{"Content-Type", "text/plain"}}, {BodyKind::Chunked, 0}};
  std::string wire = encode(head);
  append_chunk(wire, "hello");
  append_chunk(wire, "");
  append_chunk(wire, std::string(1000, 'x'));
  wire += kLastChunk;
  ResponseParser parser;
  parser.expect("GET");
  ByteView input = as_bytes(wire);
  ASSERT_EQ(parser.next(input).kind, EventKind::Head);
  head.headers.push_back({"Transfer-Encoding", "chunked"});
  EXPECT_EQ(parser.head(), head);
  std::string body;
  Event event = parser.next(input);
  for (; event.kind == EventKind::Body; event = parser.next(input)) body += as_text(event.body);
  EXPECT_EQ(event.kind, EventKind::End);
  EXPECT_EQ(body, "hello" + std::string(1000, 'x'));
}

TEST(Encode, RefusesInjection) {
  const auto with = [](std::string name, std::string value) {
    return RequestHead{"GET", "/", 1, {{std::move(name), std::move(value)}}, {}};
  };
  EXPECT_THROW(encode(with("X", "a\r\nY: b")), Error);
  EXPECT_THROW(encode(with("X", " a")), Error);
  EXPECT_THROW(encode(with("X\r\nY", "a")), Error);
  EXPECT_THROW(encode(with("", "a")), Error);
  EXPECT_THROW(encode(with("Content-Length", "5")), Error);
  EXPECT_THROW(encode(RequestHead{"GET", "/a b", 1, {}, {}}), Error);
  EXPECT_THROW(encode(RequestHead{"GET /", "/", 1, {}, {}}), Error);
  EXPECT_THROW(encode(ResponseHead{200, "OK\r\nX: y", 1, {}, {}}), Error);
}

TEST(Headers, TokensAreFoundInLists) {
  const Headers headers{{"Connection", "Upgrade , close"}, {"connection", "x"}};
  EXPECT_TRUE(has_token(headers, "connection", "CLOSE"));
  EXPECT_TRUE(has_token(headers, "Connection", "x"));
  EXPECT_FALSE(has_token(headers, "connection", "clos"));
}

TEST(Headers, KeepAliveFollowsVersionAndField) {
  EXPECT_TRUE(keeps_alive(1, {}));
  EXPECT_FALSE(keeps_alive(1, {{"Connection", "close"}}));
  EXPECT_FALSE(keeps_alive(0, {}));
  EXPECT_TRUE(keeps_alive(0, {{"Connection", "keep-alive"}}));
}

}
