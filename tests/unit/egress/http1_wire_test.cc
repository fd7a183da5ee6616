// HTTP/1.1 to the letter: what a server gets and a client is sent, byte by byte.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";

class Http1Wire : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    allow_endpoint("* http://api.example/v1/**");
  }
  // A server that reads with `until(text)`, which gives all that came, and answers with `say`.
  Program& serve_raw(const std::string& body) {
    return serve_python(R"(
import socket, sys
l = socket.create_server(('93.184.216.34', 80), backlog=8)
while True:
  c = l.accept()[0]; got = b''
  def until(end):
    global got
    while end not in got:
      more = c.recv(65536)
      if not more: raise EOFError
      got += more
    return got
  say = c.sendall
  try:
)" + body + R"(
  except (EOFError, OSError): pass
  c.close()
)",
                        {ip(kPublic), 80});
  }
  std::string client(const std::string& body) {
    const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('api.example', 80)); s.settimeout(30); got = b''
def until(end):
  global got
  while end not in got:
    more = s.recv(65536)
    if not more: raise EOFError(got)
    got += more
  return got.decode()
)" + body});
    return exit.out + exit.err;
  }
};

TEST_F(Http1Wire, CarriesTrailersBothWays) {
  Program& server = serve_raw(R"(
    print(until(b'x-sum: 7\r\n\r\n').decode(), flush=True)
    say(b'HTTP/1.1 200 OK\r\nTrailer: X-Check\r\nTransfer-Encoding: chunked\r\n\r\n'
        b'4\r\nbody\r\n0\r\nX-Check: 9\r\nContent-Length: 3\r\n\r\n'))");
  start_proxy();
  const std::string out = client(R"(
s.sendall(b'POST /v1/a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n'
          b'3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n')
print(until(b'X-Check: 9\r\n\r\n'))
)");
  EXPECT_THAT(out, AllOf(HasSubstr("Transfer-Encoding: chunked"), HasSubstr("4\r\nbody\r\n"),
                         HasSubstr("0\r\nX-Check: 9\r\n\r\n"), Not(HasSubstr("Content-Length"))));
  EXPECT_THAT(server.exit().out, HasSubstr("3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"));
}

// Its case is the client's to choose; the answer to it is the server's.
TEST_F(Http1Wire, LeavesAnExpectationToTheServer) {
  serve_raw(R"(
    head = until(b'\r\n\r\n')
    if b'/v1/no' in head: say(b'HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno')
    else:
      say(b'HTTP/1.1 100 Continue\r\n\r\n'); until(b'\r\n\r\nbody')
      say(b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes'))");
  start_proxy();
  const std::string head =
      " HTTP/1.1\\r\\nHost: api.example\\r\\nExpect: 100-Continue\\r\\nContent-Length: "
      "4\\r\\n\\r\\n";
  EXPECT_THAT(client("s.sendall(b'POST /v1/yes" + head + R"(')
print(until(b'\r\n\r\n').split('\r\n')[0]); s.sendall(b'body'); print(until(b'yes').split('\r\n\r\n')[-1]))"),
              HasSubstr("HTTP/1.1 100 Continue\nyes\n"));
  EXPECT_THAT(client("s.sendall(b'POST /v1/no" + head + R"(')
print(until(b'\r\n\r\nno').split('\r\n')[0]))"),
              HasSubstr("HTTP/1.1 417 Expectation Failed\n"));
  // One that the rules refuse is refused before its body.
  EXPECT_THAT(client("s.sendall(b'POST /other" + head + R"(')
print(until(b'\r\n\r\n').split('\r\n')[0]))"),
              HasSubstr("HTTP/1.1 403 Forbidden\n"));
}

// Nobody waits for a body that nobody will read: the client hears that the connection ends.
TEST_F(Http1Wire, SaysThatAnAnswerInPlaceOfABodyIsTheLast) {
  serve_raw(R"(
    head = until(b'\r\n\r\n')
    if b'/v1/wait' in head: until(b'bo')
    close = b'' if b'/v1/keep' in head else b'Connection: close\r\n'
    say(b'HTTP/1.1 417 Expectation Failed\r\n' + close + b'Content-Length: 2\r\n\r\nno')
    if not close: until(b'never'))");
  start_proxy();
  for (const std::string path : {"keep", "close", "wait"}) {
    const std::string out =
        client("s.sendall(b'POST /v1/" + path +
               " HTTP/1.1\\r\\nHost: api.example\\r\\nExpect: 100-continue"
               "\\r\\nContent-Length: 4\\r\\n\\r\\n" +
               (path == "wait" ? "bo" : "") + "'); print(until(b'\\r\\n\\r\\nno'))");
    EXPECT_THAT(out, AllOf(HasSubstr("417 Expectation Failed"), HasSubstr("Connection: close")))
        << path;
  }
}

// Clients that begin with HTTP/2, such as gRPC's without TLS, read nothing else.
TEST_F(Http1Wire, TellsAClientOfHttp2WhyInItsOwnWords) {
  start_proxy();
  // The frames' types and lengths; of the last, a GOAWAY: HTTP_1_1_REQUIRED and why.
  EXPECT_EQ(client(R"(
s.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
while (more := s.recv(999)): got += more
while got:
  length = int.from_bytes(got[:3], 'big'); print(got[3], length); last, got = got[9:9 + length], got[9 + length:]
print(int.from_bytes(last[4:8], 'big'), last[8:].decode())
)"),
            "4 0\n7 48\n13 mvm carries HTTP/2 over TLS, not without\n");
  EXPECT_THAT(told(), ::testing::Contains("http deny protocol_unsupported api.example "
                                          "93.184.216.34 80"));
}

TEST_F(Http1Wire, SaysWhatIsWrongWithARequestThatIsNotHostile) {
  start_proxy();
  EXPECT_THAT(client("s.sendall(b'GET /v1/' + b'a' * 9000 + b' HTTP/1.1\\r\\nHost: api.example"
                     "\\r\\n\\r\\n'); print(until(b'}}'))"),
              AllOf(HasSubstr("HTTP/1.1 414 "), HasSubstr("the request target is too long")));
  EXPECT_THAT(client("s.sendall(b'GET /v1/a HTTP/1.0\\r\\n\\r\\n'); print(until(b'}}'))"),
              AllOf(HasSubstr("authority_mismatch"), HasSubstr("names no host")));
}

// Answers without a body leave the connection as it is, whatever length their heads speak of.
TEST_F(Http1Wire, AnswersWithoutABodyEndWithTheirHead) {
  serve_raw(R"(
    for answer in (b'204 No Content\r\nX: 1', b'304 Not Modified\r\nContent-Length: 5\r\nETag: "a"',
                   b'200 OK\r\nContent-Length: 7', b'200 OK\r\nContent-Length: 4\r\n\r\nbody'):
      until(b'\r\n\r\n'); got = b''
      say(b'HTTP/1.1 ' + answer + (b'' if b'body' in answer else b'\r\n\r\n')))");
  start_proxy();
  const std::string out = client(R"(
for method in (b'DELETE', b'GET', b'HEAD', b'GET'):
  s.sendall(method + b' /v1/a HTTP/1.1\r\nHost: api.example\r\n\r\n')
  head, _, rest = until(b'\r\n\r\n').partition('\r\n\r\n'); got = b''
  if 'Length: 4' in head and not rest: rest = until(b'body')
  print(head.split()[1], 'Length: 5' in head, 'Length: 7' in head, repr(rest))
)");
  EXPECT_EQ(out,
            "204 False False ''\n304 True False ''\n200 False True ''\n200 False False 'body'\n");
}

// Each word goes when the answer to the last has come: neither side waits for the other's end.
TEST_F(Http1Wire, AnswersMayComeWhileTheRequestGoes) {
  serve_raw(R"(
    until(b'\r\n\r\n'); say(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    for word in (b'one', b'two', b'six'): until(word); say(b'3\r\n' + word.upper() + b'\r\n')
    until(b'0\r\n\r\n'); say(b'0\r\n\r\n'); got = b''; until(b'/v1/b')
    say(b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmore'))");
  start_proxy();
  const std::string out = client(R"(
s.sendall(b'POST /v1/a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n'); until(b'\r\n\r\n')
for word in (b'one', b'two', b'six'): s.sendall(b'3\r\n' + word + b'\r\n'); until(word.upper() + b'\r\n')
s.sendall(b'0\r\n\r\n'); until(b'\r\n0\r\n\r\n')
s.sendall(b'GET /v1/b HTTP/1.1\r\nHost: api.example\r\n\r\n'); print(until(b'more')[-4:])
)");
  EXPECT_EQ(out, "more\n");
}

// A connection that was kept may end as a request is on its way, and what has become of that
// nobody knows. Only what may be done twice is asked for again (RFC 9110 §9.2.2).
TEST_F(Http1Wire, WhatMayNotBeDoneTwiceIsNotAskedForTwice) {
  Program& server = serve_raw(R"(
    def asked():
      global got
      head = until(b'\r\n\r\n'); got = b''; print(head.split()[0].decode(), flush=True)
    asked(); say(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'); asked())");
  start_proxy();
  const std::string out = client(R"(
for method in (b'GET', b'DELETE', b'POST', b'PATCH'):
  s = socket.create_connection(('api.example', 80)); s.settimeout(30)
  for one in (b'GET', method):
    got = b''
    s.sendall(one + b' /v1/a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\n\r\n')
    head = until(b'\r\n\r\n')
    if '200' in head: until(b'hi')
  print(method.decode(), head.split()[1]); s.close()
)");
  EXPECT_EQ(out, "GET 200\nDELETE 200\nPOST 502\nPATCH 502\n");
  EXPECT_EQ(server.exit().out, "GET\nGET\nGET\nGET\nDELETE\nDELETE\nGET\nPOST\nGET\nPATCH\n");
}

// A head has an end, and a length that it may have.
TEST_F(Http1Wire, HeadsThatDoNotEndAreRefused) {
  Program& server = serve_raw("    print(until(b'never'), flush=True)");
  start_proxy();
  const std::string out = client(R"(
import select
def attempt(first, more):
  s = socket.create_connection(('api.example', 80)); s.settimeout(30)
  try:
    s.sendall(first)
    for i in range(1 << 20):
      if select.select([s], [], [], 0)[0]: break
      s.sendall(more(i))
  except OSError: pass
  try: return s.recv(12).decode()
  except OSError as e: return type(e).__name__
head = b'GET /v1/a HTTP/1.1\r\nHost: api.example\r\n'
answers = [attempt(head, lambda i: b'X-%d: %s\r\n' % (i, b'x' * 4000)), attempt(head, lambda i: b'X: y\r\n'),
           attempt(head + b'X: ', lambda i: b'x' * 4000), attempt(b'GET /v1/', lambda i: b'x' * 4000)]
print(all(a in ('HTTP/1.1 431', 'HTTP/1.1 414', 'HTTP/1.1 400', 'ConnectionResetError') for a in answers), answers)
)");
  EXPECT_THAT(out, testing::StartsWith("True "));
  EXPECT_EQ(server.exit().out, "");
  EXPECT_THAT(told(),
              testing::Contains("http deny protocol_unsupported api.example 93.184.216.34 80"));
}

// A refusal is a failure to programs that look at the status alone, and names itself to others.
TEST_F(Http1Wire, RefusalsAreFailures) {
  serve_raw("    until(b'never')");
  start_proxy();
  const auto exit = guest({"curl", "-sSf", "http://api.example/other"});
  EXPECT_EQ(exit.code, 22) << exit.out;
  const auto shown = guest({"curl", "-sSi", "http://api.example/other"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("HTTP/1.1 403 Forbidden\r\n"),
                               HasSubstr("X-Mvm-Egress-Reason: policy_denied\r\n"),
                               HasSubstr("Content-Type: application/json"),
                               HasSubstr("\"reason\":\"policy_denied\"")));
}

TEST_F(Http1Wire, WhatIsForThisHopAloneStaysHere) {
  Program& server = serve_raw(R"(
    print(until(b'\r\n\r\n').decode(), flush=True)
    say(b'HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: a\r\nX-End: b\r\nContent-Length: 0\r\n\r\n'))");
  start_proxy();
  const std::string out = client(R"(
s.sendall(b'GET /v1/a HTTP/1.1\r\nHOST: api.example\r\nzeta: 1\r\nProxy-Authorization: Basic eDp5\r\n'
          b'Proxy-Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 2\r\nAlpha: 3\r\n\r\n')
print(until(b'\r\n\r\n'))
)");
  EXPECT_THAT(out, AllOf(HasSubstr("X-End: b"), Not(HasSubstr("X-Hop"))));
  // The rest in its order and spelling.
  EXPECT_THAT(server.exit().out,
              HasSubstr("GET /v1/a HTTP/1.1\r\nHOST: api.example\r\nzeta: 1\r\nAlpha: 3\r\n\r\n"));
}

}
}
