// The parsers against hostile and honest input, each fed whole and in every way of cutting it.

#include "mvm/http/parser.h"

#include <random>

#include <gtest/gtest.h>

#include "cutting.h"

namespace mvm::http {

TEST(RequestParser, ReadsARequestWithoutBody) {
  EXPECT_EQ(request("GET /v1/version HTTP/1.1\r\nHost: mvm\r\n\r\n"),
            "[head]GET /v1/version[end] then [end]");
}

TEST(RequestParser, KeepsOrderAndCaseOfHeaders) {
  RequestParser parser;
  ByteView input = as_bytes("GET / HTTP/1.1\r\nhOST: a\r\nX-B:  two words\t\r\nx-a:\r\n\r\n");
  ASSERT_EQ(parser.next(input).kind, EventKind::Head);
  const Headers expected{{"hOST", "a"}, {"X-B", "two words"}, {"x-a", ""}};
  EXPECT_EQ(parser.head().headers, expected);
}

TEST(RequestParser, ReadsBodyByLength) {
  EXPECT_EQ(request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
            "[head]POST /hello[end] then [end]");
}

TEST(RequestParser, ReadsChunkedBodyWithExtensionsAndTrailers) {
  EXPECT_EQ(request("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                    "5;a=b\r\nhello\r\n00001\r\n!\r\n0\r\nDigest: x\r\n\r\n"),
            "[head]POST /hello![end] then [end]");
}

// What Node's fetch, and curl, leave as they are in a URL.
TEST(RequestParser, TakesTargetsAsClientsWriteThem) {
  for (const std::string target : {"/a[b]{c}|d^e'f", "/a?q=[b]{c}|d^e`f\\g'h", "/a?q=\"b\"<c>?d"})
    EXPECT_EQ(request("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"),
              "[head]GET " + target + "[end] then [end]");
  for (const std::string target : {"/a\\b", "/a`b", "/a\"b", "/a<b", "/a>b", "/a?b#c"})
    EXPECT_EQ(request("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"), bad(Fault::BadTarget));
}

TEST(RequestParser, LeavesPipelinedRequestInPlace) {
  EXPECT_EQ(request("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
                    "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"),
            "[head]POST /ahi[end][head]GET /b[end] then [end]");
}

TEST(RequestParser, ForgivesOneEmptyLineBeforeARequest) {
  EXPECT_EQ(request("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), "[head]GET /[end] then [end]");
  EXPECT_EQ(request("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), bad(Fault::BadStartLine));
}

TEST(RequestParser, TellsAnEndWithinAMessageFromOneBetweenMessages) {
  EXPECT_EQ(request(""), " then [end]");
  EXPECT_EQ(request("GET / HT"), " then " + bad(Fault::Truncated));
  EXPECT_EQ(request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell"),
            "[head]POST /hell then " + bad(Fault::Truncated));
  EXPECT_EQ(request("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
            "[head]POST /x then " + bad(Fault::Truncated));
}

struct Hostile {
  std::string text;
  Fault fault;
};

TEST(RequestParser, RefusesHostileHeads) {
  const std::string host = "Host: a\r\n";
  const std::vector<Hostile> table{
      {"GET  / HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET /a b HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET / HTTP/1.1 \r\n" + host + "\r\n", Fault::BadStartLine},
      {" GET / HTTP/1.1\r\n" + host + "\r\n", Fault::BadMethod},
      {"GET\t/\tHTTP/1.1\r\n" + host + "\r\n", Fault::BadStartLine},
      {"GET /\r\n" + host + "\r\n", Fault::BadStartLine},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", Fault::BadVersion},
      {"GET / HTTP/1.10\r\n" + host + "\r\n", Fault::BadVersion},
      {"GET / http/1.1\r\n" + host + "\r\n", Fault::BadStartLine},
      {"G(T / HTTP/1.1\r\n" + host + "\r\n", Fault::BadMethod},
      {std::string(kMaxMethod + 1, 'A') + " / HTTP/1.1\r\n" + host + "\r\n", Fault::BadMethod},
      {"GET /#x HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET /\x01 HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET /\xc3\xa4 HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET v1 HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET * HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"CONNECT /x HTTP/1.1\r\n" + host + "\r\n", Fault::BadTarget},
      {"GET / HTTP/1.1\n" + host + "\n", Fault::BareLineEnd},
      {"GET / HTTP/1.1\r" + host + "\r\n", Fault::BareLineEnd},
      {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", Fault::BareLineEnd},
      {"GET / HTTP/1.1\r\r\n" + host + "\r\n", Fault::BareLineEnd},
      {"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", Fault::FoldedHeader},
      {"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", Fault::FoldedHeader},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", Fault::BadHeaderName},
      {"GET / HTTP/1.1\r\n: a\r\n\r\n", Fault::BadHeaderName},
      {"GET / HTTP/1.1\r\nHost\r\n\r\n", Fault::BadHeaderName},
      {std::string("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n", 29), Fault::BadHeaderName},
      {std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29), Fault::BadHeaderValue},
      {"GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n", Fault::BadHeaderValue},
      {"GET / HTTP/1.1\r\n\r\n", Fault::BadHost},
      {"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Fault::BadHost},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Fault::BadHost},
      {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", Fault::BadHost},
  };
  for (const Hostile& row : table) EXPECT_EQ(request(row.text), bad(row.fault)) << row.text;
}

TEST(RequestParser, RefusesFramingThatTwoReadersCouldReadTwoWays) {
  const std::vector<Hostile> table{
      {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Fault::LengthAndCoding},
      {"Transfer-Encoding: chunked\r\ncontent-length: 0\r\n", Fault::LengthAndCoding},
      {"Content-Length: 5\r\nContent-Length: 5\r\n", Fault::RepeatedLength},
      {"Content-Length: 5, 5\r\n", Fault::BadLength},
      {"Content-Length: +5\r\n", Fault::BadLength},
      {"Content-Length: -1\r\n", Fault::BadLength},
      {"Content-Length: 0x5\r\n", Fault::BadLength},
      {"Content-Length: 5 5\r\n", Fault::BadLength},
      {"Content-Length:\r\n", Fault::BadLength},
      {"Content-Length: 18446744073709551616\r\n", Fault::BadLength},
      {"Transfer-Encoding: gzip, chunked\r\n", Fault::BadCoding},
      {"Transfer-Encoding: chunked, chunked\r\n", Fault::BadCoding},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Fault::BadCoding},
      {"Transfer-Encoding: xchunked\r\n", Fault::BadCoding},
      {"Transfer-Encoding: \"chunked\"\r\n", Fault::BadCoding},
      {"Transfer-Encoding: identity\r\n", Fault::BadCoding},
      {"Transfer-Encoding:\r\n", Fault::BadCoding},
  };
  for (const Hostile& row : table)
    EXPECT_EQ(request("POST / HTTP/1.1\r\nHost: a\r\n" + row.text + "\r\n"), bad(row.fault))
        << row.text;
  EXPECT_EQ(request("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            bad(Fault::BadCoding));
}

TEST(RequestParser, RefusesHostileChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::string> table{
      "\r\n",
      "x\r\n",
      "-1\r\n",
      "+1\r\n",
      "0x1\r\n",
      " 1\r\n",
      "1 \r\n",
      "1\n",
      "1\rx",
      "1;a\x01\r\n",
      ";a\r\n",
      "11111111111111111\r\n",
      "00000000000000001\r\n",
  };
  for (const std::string& chunk : table)
    EXPECT_EQ(request(head + chunk), "[head]POST /" + bad(Fault::BadChunk)) << chunk;
  EXPECT_EQ(request(head + "1\r\nab"), "[head]POST /a" + bad(Fault::BadChunk));
  EXPECT_EQ(request(head + "1\r\na\nb"), "[head]POST /a" + bad(Fault::BadChunk));
  // The largest size that fits; the body then never comes.
  EXPECT_EQ(request(head + "ffffffffffffffff\r\n"), "[head]POST / then " + bad(Fault::Truncated));
  // Two sizes whose sum overflows 64 bits.
  EXPECT_EQ(request(head + "1\r\na\r\nffffffffffffffff\r\n"),
            "[head]POST /a" + bad(Fault::BodyTooLarge));
  EXPECT_EQ(request(head + "0\r\nbad name: x\r\n\r\n"), "[head]POST /" + bad(Fault::BadHeaderName));
}

TEST(RequestParser, HeadLimitIsExact) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::string end = "\r\n\r\n";
  const std::string fits = start + std::string(kMaxHead - start.size() - end.size(), 'x') + end;
  ASSERT_EQ(fits.size(), kMaxHead);
  EXPECT_EQ(run(RequestParser(), {fits}), "[head]GET /[end] then [end]");
  const std::string over = start + std::string(kMaxHead - start.size() - end.size() + 1, 'x') + end;
  EXPECT_EQ(run(RequestParser(), {over}), bad(Fault::HeadTooLarge));
  // Also while no line end has come at all.
  EXPECT_EQ(run(RequestParser(), {std::string(kMaxHead + 1, 'A')}), bad(Fault::HeadTooLarge));
}

TEST(RequestParser, HeaderCountLimitIsExact) {
  std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (size_t at = 1; at < kMaxHeaders; ++at) text += "X: y\r\n";
  EXPECT_EQ(run(RequestParser(), {text + "\r\n"}), "[head]GET /[end] then [end]");
  EXPECT_EQ(run(RequestParser(), {text + "X: y\r\n\r\n"}), bad(Fault::TooManyHeaders));
}

TEST(RequestParser, TargetLimitIsExact) {
  const auto with = [](size_t length) {
    return "GET /" + std::string(length - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_TRUE(run(RequestParser(), {with(kMaxTarget)}).starts_with("[head]"));
  EXPECT_EQ(run(RequestParser(), {with(kMaxTarget + 1)}), bad(Fault::TargetTooLong));
}

TEST(RequestParser, ChunkLineLimitIsExact) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto line = [](size_t length) { return "0;" + std::string(length - 4, 'x') + "\r\n"; };
  EXPECT_EQ(run(RequestParser(), {head + line(kMaxChunkLine) + "\r\n"}),
            "[head]POST /[end] then [end]");
  EXPECT_EQ(run(RequestParser(), {head + line(kMaxChunkLine + 1) + "\r\n"}),
            "[head]POST /" + bad(Fault::BadChunk));
}

TEST(RequestParser, BodyLimitIsExact) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(request(head + "Content-Length: 4\r\n\r\nabcd", 4), "[head]POST /abcd[end] then [end]");
  EXPECT_EQ(request(head + "Content-Length: 5\r\n\r\nabcde", 4), bad(Fault::BodyTooLarge));
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n";
  EXPECT_EQ(request(chunked + "2\r\ncd\r\n0\r\n\r\n", 4), "[head]POST /abcd[end] then [end]");
  EXPECT_EQ(request(chunked + "3\r\ncde\r\n0\r\n\r\n", 4),
            "[head]POST /ab" + bad(Fault::BodyTooLarge));
}

TEST(ResponseParser, ReadsBodiesOfEachFraming) {
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            "[head]200hi[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
            "[head]200hi[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\n\r\nuntil close"), "[head]200until close then [end]");
  EXPECT_EQ(response("HTTP/1.1 204 No Content\r\n\r\n"), "[head]204[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n"), "[head]304[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD"),
            "[head]200[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\n\r\n", "CONNECT"), "[head]200[end] then [end]");
}

TEST(ResponseParser, PassesInterimResponses) {
  EXPECT_EQ(response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
            "[interim][head]200x[end] then [end]");
  EXPECT_EQ(response("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "[head]101[end] then [end]");
}

TEST(ResponseParser, RefusesHostileHeads) {
  const std::vector<Hostile> table{
      {"HTTP/1.1\r\n\r\n", Fault::BadStartLine},
      {"HTTP/1.1 20\r\n\r\n", Fault::BadStatus},
      {"HTTP/1.1 2000 OK\r\n\r\n", Fault::BadStatus},
      {"HTTP/1.1 099 x\r\n\r\n", Fault::BadStatus},
      {"HTTP/1.1 600 x\r\n\r\n", Fault::BadStatus},
      {"HTTP/1.1  200 OK\r\n\r\n", Fault::BadStatus},
      {"HTTP/3 200 OK\r\n\r\n", Fault::BadVersion},
      {"ICY 200 OK\r\n\r\n", Fault::BadStartLine},
      {"HTTP/1.1 200 O\x01K\r\n\r\n", Fault::BadStartLine},
      {"\r\nHTTP/1.1 200 OK\r\n\r\n", Fault::BadStartLine},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       Fault::LengthAndCoding},
      {"HTTP/1.1 200 OK\nContent-Length: 1\n\n", Fault::BareLineEnd},
  };
  for (const Hostile& row : table) EXPECT_EQ(response(row.text), bad(row.fault)) << row.text;
}

TEST(ResponseParser, TellsATruncatedBody) {
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"),
            "[head]200hi then " + bad(Fault::Truncated));
}

TEST(ResponseParser, BodyLimitHoldsUntilClose) {
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\n\r\nabcd", "GET", 4), "[head]200abcd then [end]");
  EXPECT_EQ(response("HTTP/1.1 200 OK\r\n\r\nabcde", "GET", 4),
            "[head]200abcd" + bad(Fault::BodyTooLarge));
}

// Random damage to a valid message: whatever comes out, it is the same for every way of cutting.
TEST(RequestParser, OutputDoesNotDependOnTheCutting) {
  const std::string valid =
      "POST /v1/a?b=c HTTP/1.1\r\nHost: mvm\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4;x\r\nwxyz\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc";
  std::mt19937 random(42);
  const std::string_view noise = "\r\n :;0fx\t\x00,";
  for (int round = 0; round < 150; ++round) {
    std::string text = valid;
    for (int change = 0; change < 1 + round % 3; ++change)
      text[random() % text.size()] = noise[random() % noise.size()];
    request(text, 64);
  }
}

}
