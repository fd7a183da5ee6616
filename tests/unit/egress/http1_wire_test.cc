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
