// Streams that a rule leaves to a person wait, one by one, while the others of their connection go
// on.
#include "http2_rig.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Http2Ask : public Http2 {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (IsSkipped()) return;
    settings_.on_question = [this](const OpenQuestion& question) { put_.push_back(question); };
    const auto rule = [](const char* id, const char* method, Outcome outcome) {
      return policy::RouteRule{id, method, policy::PathPattern::parse("/**").value(), outcome};
    };
    settings_.policy.routes.push_back(
        {"api",
         policy::HostPattern::parse("api.example").value(),
         {443},
         {rule("read", "GET", Outcome::Allow), rule("write", "POST", Outcome::Ask)},
         Outcome::Deny});
  }
  std::unique_ptr<Program> start_python(const std::string& code) {
    return start_guest({"/usr/bin/python3", "-c", std::string(kHttp2Client) + code, authority_});
  }
  bool says(Program& program, const std::string& text) {
    const bool said = eventually([&] { return program.exit().out == text || program.ended(); }) &&
                      program.exit().out == text;
    if (!said) ADD_FAILURE() << program.exit().out << program.exit().err;
    return said;
  }
  bool ends(Program& program) {
    return eventually([&] { return program.ended(); });
  }
  bool asks(size_t how_many) {
    return eventually([&] { return proxy_->questions().size() == how_many; });
  }
  void answer(const std::string& path, bool allow) {
    for (const OpenQuestion& question : proxy_->questions())
      if (question.path == path) {
        proxy_->answer(question.number, allow);
        return;
      }
    ADD_FAILURE() << "nobody asks about " << path;
  }
  std::vector<OpenQuestion> put_;
};

TEST_F(Http2Ask, AStreamWaitsAndTheOthersGoOn) {
  Program& server = serve_http2();
  start_proxy();
  const auto client = start_python(R"(
c = Client()
one = c.ask('/echo', method='POST', end=False); c.c.send_data(one, b'first '); c.flush()
two = c.ask('/sum', method='POST')
print(c.answer(c.ask('/a'))['body'].decode(), flush=True)
c.c.send_data(one, b'last', end_stream=True); c.flush()
sys.stdin.read()
print(c.answer(c.ask('/b'))['body'].decode())
g = c.answer(one); print(g['status'], g['body'].decode())
g = c.answer(two); print(g['status'], b'ask_user' in g['body'])
print(c.answer(c.ask('/c'))['body'].decode())
)");
  ASSERT_TRUE(says(*client, "hello /a\n"));
  ASSERT_TRUE(asks(2));
  EXPECT_EQ(put_.at(0).method + " " + put_.at(0).path, "POST /echo");
  EXPECT_EQ(put_.at(0).rule, "write");
  EXPECT_EQ(server.exit().out, "GET /a\n");
  EXPECT_THAT(told(), Contains("http ask ask_user POST api.example 93.184.216.34 443"));
  answer("/echo", true);
  answer("/sum", false);
  client->end_input();
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out,
            "hello /a\nhello /b\n200 undefined|undefined|first last\n403 True\nhello /c\n")
      << client->exit().err;
  EXPECT_THAT(server.exit().out, AllOf(HasSubstr("POST /echo\n"), Not(HasSubstr("/sum"))));
  EXPECT_THAT(told(), Contains("http allow allowed POST api.example 93.184.216.34 443"));
  EXPECT_THAT(told(), Contains("http deny ask_user POST api.example 93.184.216.34 443"));
}

TEST_F(Http2Ask, CurlWaitsWithABodyOfAnySize) {
  serve_http2();
  start_proxy();
  const auto client = start_guest(
      {"sh", "-c", R"(cd "$0"; head -c 3000000 /dev/urandom >body; sha256sum <body | cut -c1-64
         curl -sS --http2 --cacert authority.pem --data-binary @body https://api.example/sum)",
       directory()});
  ASSERT_TRUE(asks(1));
  answer("/sum", true);
  ASSERT_TRUE(ends(*client));
  const std::string& out = client->exit().out;
  ASSERT_EQ(out.size(), 129U) << out << client->exit().err;
  EXPECT_EQ(out.substr(0, 64), out.substr(65));
}

// The same rules where the client wants no HTTP/2.
TEST_F(Http2Ask, Http1OverTlsWaitsToo) {
  serve_python(
      "import http.server, ssl\n"
      "class H(http.server.BaseHTTPRequestHandler):\n"
      "  protocol_version = 'HTTP/1.1'\n"
      "  def do_POST(self):\n"
      "    body = self.rfile.read(int(self.headers['Content-Length']))\n"
      "    self.send_response(200); self.send_header('Content-Length', str(len(body)))\n"
      "    self.end_headers(); self.wfile.write(body)\n"
      "s = http.server.ThreadingHTTPServer(('93.184.216.34', 443), H)\n"
      "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('" +
          pem_ + "', '" + pem_ +
          ".key')\n"
          "s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)\n"
          "s.serve_forever()",
      {ip(kPublic), 443});
  start_proxy();
  const auto client = start_guest(
      {"curl", "-sS", "--http1.1", "--cacert", authority_, "-d", "yes", "https://api.example/w"});
  ASSERT_TRUE(asks(1));
  answer("/w", true);
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "yes") << client->exit().err;
}

TEST_F(Http2Ask, NobodysAnswerIsNo) {
  Program& server = serve_http2();
  settings_.ask_patience = std::chrono::milliseconds(50);
  start_proxy();
  const auto exit = curl({"-d", "x", "https://api.example/w", "-w", "%{http_code}"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("ask_user"), HasSubstr("403"))) << exit.err;
  EXPECT_THAT(put_, SizeIs(1));
  EXPECT_THAT(proxy_->questions(), IsEmpty());
  EXPECT_EQ(server.exit().out, "");
}

TEST_F(Http2Ask, AStreamsResetTakesItsQuestionBack) {
  serve_http2();
  start_proxy();
  const auto client = start_python(R"(
c = Client(); n = c.ask('/w', method='POST', end=False); sys.stdin.read()
c.c.reset_stream(n); c.flush(); print(c.answer(c.ask('/a'))['body'].decode())
)");
  ASSERT_TRUE(asks(1));
  client->end_input();
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "hello /a\n") << client->exit().err;
  EXPECT_THAT(proxy_->questions(), IsEmpty());
}

TEST_F(Http2Ask, IsTakenBackWithTheFlow) {
  serve_http2();
  start_proxy();
  const auto client = start_guest(
      {"curl", "-sS", "--http2", "--cacert", authority_, "-d", "x", "https://api.example/w"});
  ASSERT_TRUE(asks(1));
  proxy_->reset();
  EXPECT_THAT(proxy_->questions(), IsEmpty());
  ASSERT_TRUE(ends(*client));
  EXPECT_NE(client->exit().code, 0);
}

TEST_F(Http2Ask, HowManyWaitIsBounded) {
  serve_http2();
  start_proxy();
  const auto client = start_python(R"(
c = Client()
for i in range(32): c.ask('/w%d' % i, method='POST')
g = c.answer(c.ask('/more', method='POST')); print(g['status'], b'resource_exhausted' in g['body'])
print(c.answer(c.ask('/a'))['body'].decode(), flush=True); sys.stdin.read()
)");
  ASSERT_TRUE(says(*client, "403 True\nhello /a\n"));
  EXPECT_THAT(proxy_->questions(), SizeIs(32));
}

// Bodies that wait fill no more than half of what the connection may send.
TEST_F(Http2Ask, BodiesThatWaitLeaveRoomForTheOthers) {
  serve_http2();
  start_proxy();
  const auto client = start_python(R"(
c = Client(); body = bytes(16000)
def upload(path):
  n = c.ask(path, method='POST', end=False)
  while c.c.local_flow_control_window(n) >= len(body) and c.got[n]['reset'] is None:
    c.c.send_data(n, body); c.flush()
  return n
c.turn(); waiting = [upload('/w%d' % i) for i in range(3)]
n = c.ask('/sum', method='GET', end=False); c.c.send_data(n, b'x', end_stream=True); c.flush()
print(len(c.answer(n)['body']), c.got[waiting[2]]['reset'], c.got[waiting[0]]['reset'], flush=True)
sys.stdin.read()
)");
  ASSERT_TRUE(says(*client, "64 7 None\n"));
  EXPECT_THAT(proxy_->questions(), SizeIs(2));
}

// The server's connection does not last as long as the question: the client makes a new one, and
// nobody is asked again.
TEST_F(Http2Ask, OutlivesTheServersConnection) {
  Program& server = serve_http2();
  start_proxy();
  const auto client = start_guest({"curl", "-sS", "--http2", "--cacert", authority_, "-d", "x",
                                   "https://api.example/w", "-w", " %{http_code} %{num_connects}"});
  ASSERT_TRUE(asks(1));
  server.kill();
  ASSERT_TRUE(ends(server));
  Program& next = serve_http2();
  ASSERT_THAT(proxy_->questions(), SizeIs(1));
  answer("/w", true);
  ASSERT_TRUE(ends(*client));
  EXPECT_THAT(client->exit().out, HasSubstr("hello /w 200")) << client->exit().err;
  EXPECT_EQ(next.exit().out, "POST /w\n");
  EXPECT_THAT(put_, SizeIs(1));
  // Once is once.
  const auto again = start_guest(
      {"curl", "-sS", "--http2", "--cacert", authority_, "-d", "x", "https://api.example/w"});
  EXPECT_TRUE(asks(1));
}

// It hears of the server's GOAWAY when nobody is asked any more; until then, what else it wants is
// for a new connection.
TEST_F(Http2Ask, TheServersGoawayWaitsToo) {
  serve_http2();
  start_proxy();
  const auto client = start_python(R"(
c = Client(); n = c.ask('/w', method='POST')
print(c.answer(c.ask('/goaway'))['body'].decode(), flush=True)
print(c.answer(c.ask('/a'))['reset'], c.goaway, flush=True)
g = c.answer(n); print(g['status'], c.goaway)
while c.goaway is None: c.turn()
print(int(c.goaway))
)");
  ASSERT_TRUE(says(*client, "last\n7 None\n"));
  ASSERT_TRUE(asks(1));
  answer("/w", false);
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "last\n7 None\n403 None\n0\n") << client->exit().err;
}

}
}
