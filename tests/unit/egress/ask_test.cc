// What a rule leaves to a person: real clients wait, and are let through or not.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kPublic = "93.184.216.34";

class Ask : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("a.example.com", kPublic);
    resolver_.add("b.example.com", kPublic);
    settings_.on_question = [this](const OpenQuestion& question) { put_.push_back(question); };
  }
  // Every connection to the host, at these ports.
  void ask_about(std::string_view host, std::vector<uint16_t> ports) {
    settings_.policy.routes.push_back({"ask " + std::string(host),
                                       policy::HostPattern::parse(host).value(),
                                       std::move(ports),
                                       {},
                                       Outcome::Ask});
  }
  // Says hello at once, and counts who came.
  void serve_hello(uint16_t port) {
    serve_python(
        "import socket\n"
        "l = socket.create_server(('93.184.216.34', " +
            std::to_string(port) +
            "))\n"
            "while True:\n"
            "  c = l.accept()[0]; c.sendall(b'hello'); c.close()",
        {ip(kPublic), port});
  }
  void serve_http() {
    serve_python(
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  protocol_version = 'HTTP/1.1'\n"
        "  def answer(self):\n"
        "    n = int(self.headers.get('Content-Length', 0)); body = self.command.encode() + b' ' + "
        "self.path.encode() + b' ' + self.rfile.read(n)\n"
        "    self.send_response(200); self.send_header('Content-Length', str(len(body)))\n"
        "    self.end_headers(); self.wfile.write(body)\n"
        "  do_GET = do_POST = answer\n"
        "http.server.ThreadingHTTPServer(('93.184.216.34', 80), H).serve_forever()",
        {ip(kPublic), 80});
  }
  std::unique_ptr<Program> connect(const std::string& host, uint16_t port) {
    return start_guest({"python3", "-c",
                        "import socket\n"
                        "try:\n"
                        "  s = socket.create_connection(('" +
                            host + "', " + std::to_string(port) +
                            "), 60); print(s.recv(9).decode())\n"
                            "except OSError as e: print(type(e).__name__)"});
  }
  bool ends(Program& program) {
    return eventually([&] { return program.ended(); });
  }
  bool asks(size_t how_many) {
    return eventually([&] { return proxy_->questions().size() == how_many; });
  }

  std::vector<OpenQuestion> put_;
};

// Nobody's answer would let one out.
TEST_F(Ask, ADatagramIsRefusedAndNotAskedAbout) {
  ask_about("a.example.com", {443});
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "to = socket.gethostbyname('a.example.com')\n"
                           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                           "s.connect((to, 443)); s.send(b'quic'); s.settimeout(30)\n"
                           "try: s.recv(1)\n"
                           "except OSError as e: print(e.errno)"});
  EXPECT_EQ(exit.out, "113\n") << exit.err;  // EHOSTUNREACH
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::Connect).empty(); }));
  EXPECT_THAT(told(),
              Contains("connect deny protocol_unsupported a.example.com 93.184.216.34 443"));
  EXPECT_EQ(events_of(EventKind::Connect).front().suggestion, "");
  EXPECT_TRUE(put_.empty());
}

TEST_F(Ask, AConnectionWaitsBeforeAnythingIsDialled) {
  ask_about("a.example.com", {7000});
  start_proxy();
  const auto client = connect("a.example.com", 7000);
  ASSERT_TRUE(asks(1));
  const OpenQuestion question = proxy_->questions().at(0);
  EXPECT_EQ(question.host, "a.example.com");
  EXPECT_EQ(question.port, 7000);
  EXPECT_EQ(question.method, "");
  EXPECT_EQ(question.rule, "ask a.example.com");
  EXPECT_EQ(question.waiting, 1U);
  EXPECT_GT(question.left, std::chrono::seconds(30));
  EXPECT_THAT(put_, SizeIs(1));
  // The server begins only now: who had dialled before would have found nobody.
  serve_hello(7000);
  EXPECT_EQ(proxy_->answer(question.number, true)->number, question.number);
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "hello\n");
  EXPECT_FALSE(proxy_->answer(question.number, true));
  EXPECT_THAT(told(), Contains("connect ask ask_user a.example.com 93.184.216.34 7000").Times(1));
  EXPECT_THAT(told(), Contains("connect allow allowed a.example.com 93.184.216.34 7000").Times(1));
  // Once is once.
  const auto again = connect("a.example.com", 7000);
  ASSERT_TRUE(asks(1));
  EXPECT_GT(proxy_->questions().at(0).number, question.number);
}

TEST_F(Ask, ADenialResetsAndIsTold) {
  serve_hello(7000);
  ask_about("a.example.com", {7000});
  start_proxy();
  const auto client = connect("a.example.com", 7000);
  ASSERT_TRUE(asks(1));
  EXPECT_TRUE(proxy_->answer(proxy_->questions().at(0).number, false));
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "ConnectionResetError\n");
  EXPECT_THAT(told(), Contains("connect deny ask_user a.example.com 93.184.216.34 7000"));
  EXPECT_EQ(proxy_->counters().flows_now, 0U);
  EXPECT_THAT(events_of(EventKind::End), IsEmpty());
}

TEST_F(Ask, NobodysAnswerIsNo) {
  serve_hello(7000);
  settings_.ask_patience = std::chrono::milliseconds(50);
  ask_about("a.example.com", {7000});
  start_proxy();
  const auto client = connect("a.example.com", 7000);
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "ConnectionResetError\n");
  EXPECT_THAT(put_, SizeIs(1));
  EXPECT_THAT(told(), Contains("connect deny ask_user a.example.com 93.184.216.34 7000"));
}

TEST_F(Ask, EqualOnesAreOneQuestion) {
  serve_hello(7000);
  ask_about("*.example.com", {7000});
  start_proxy();
  const auto one = connect("a.example.com", 7000);
  ASSERT_TRUE(asks(1));
  const auto two = connect("a.example.com", 7000);
  ASSERT_TRUE(eventually([&] { return proxy_->questions().at(0).waiting == 2; }));
  EXPECT_THAT(put_, SizeIs(1));
  proxy_->answer(proxy_->questions().at(0).number, true);
  ASSERT_TRUE(ends(*one) && ends(*two));
  EXPECT_EQ(one->exit().out + two->exit().out, "hello\nhello\n");
}

TEST_F(Ask, IsTakenBackWithTheFlow) {
  ask_about("a.example.com", {7000});
  start_proxy();
  const auto client = connect("a.example.com", 7000);
  ASSERT_TRUE(asks(1));
  proxy_->reset();
  EXPECT_THAT(proxy_->questions(), IsEmpty());
  ASSERT_TRUE(ends(*client));
}

TEST_F(Ask, APolicyThatDecidesAnswers) {
  serve_hello(7000);
  ask_about("a.example.com", {7000, 7001});
  start_proxy();
  const auto allowed = connect("a.example.com", 7000);
  const auto denied = connect("a.example.com", 7001);
  ASSERT_TRUE(asks(2));
  policy::Policy policy = settings_.policy;
  policy.routes.insert(
      policy.routes.begin(),
      {"allow", policy::HostPattern::parse("a.example.com").value(), {7000}, {}, Outcome::Allow});
  policy.denied_hosts = {{"deny", policy::HostPattern::parse("a.example.com").value(), {7001}}};
  proxy_->set_policy(policy, Mode::Enforce);
  ASSERT_TRUE(ends(*allowed) && ends(*denied));
  EXPECT_EQ(allowed->exit().out, "hello\n");
  EXPECT_EQ(denied->exit().out, "ConnectionResetError\n");
}

// The handshake is judged before a person is asked, and the answer is for the name in it.
TEST_F(Ask, TlsIsAskedAboutByItsServerName) {
  const std::string path = certificate("b.example.com");
  serve({"openssl", "s_server", "-accept", "93.184.216.34:443", "-cert", path, "-key",
         path + ".key", "-www"},
        {ip(kPublic), 443});
  ask_about("a.example.com", {443});
  ask_about("b.example.com", {443});
  start_proxy();
  guest({"getent", "ahostsv4", "a.example.com"});
  const auto client =
      start_guest({"curl", "-sS", "--cacert", directory() + "/b.example.com.pem",
                   "https://b.example.com/", "-o", "/dev/null", "-w", "%{http_code}"});
  ASSERT_TRUE(asks(1));
  EXPECT_EQ(proxy_->questions().at(0).host, "b.example.com");
  proxy_->answer(proxy_->questions().at(0).number, true);
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "200") << client->exit().err;
  const auto refused = start_guest({"curl", "-sS", "-k", "https://a.example.com/"});
  ASSERT_TRUE(asks(1));
  proxy_->answer(proxy_->questions().at(0).number, false);
  ASSERT_TRUE(ends(*refused));
  EXPECT_THAT(refused->exit().err, HasSubstr("alert"));
}

TEST_F(Ask, RequestsWaitOneByOne) {
  serve_http();
  settings_.policy.routes.push_back(
      {"api",
       policy::HostPattern::parse("a.example.com").value(),
       {80},
       {{"read", "GET", policy::PathPattern::parse("/**").value(), Outcome::Allow},
        {"write", "POST", policy::PathPattern::parse("/**").value(), Outcome::Ask}},
       Outcome::Deny});
  start_proxy();
  const auto client =
      start_guest({"curl", "-sS", "http://a.example.com/r", "--next", "-sS", "-d", "body", "-H",
                   "Expect: 100-continue", "http://a.example.com/w?x=1", "--next", "-sS", "-d",
                   "no", "http://a.example.com/other"});
  ASSERT_TRUE(asks(1));
  OpenQuestion question = proxy_->questions().at(0);
  EXPECT_EQ(question.method + " " + question.path, "POST /w");
  EXPECT_EQ(question.rule, "write");
  EXPECT_THAT(told(), Contains("http ask ask_user POST a.example.com 93.184.216.34 80"));
  proxy_->answer(question.number, true);
  ASSERT_TRUE(eventually(
      [&] { return !proxy_->questions().empty() && proxy_->questions().at(0).path == "/other"; }));
  proxy_->answer(proxy_->questions().at(0).number, false);
  ASSERT_TRUE(ends(*client));
  EXPECT_THAT(client->exit().out,
              AllOf(HasSubstr("GET /r POST /w?x=1 body"), HasSubstr("\"ask_user\""),
                    HasSubstr("leaves this request to a person")));
  EXPECT_THAT(told(), Contains("http allow allowed POST a.example.com 93.184.216.34 80"));
  EXPECT_THAT(told(), Contains("http deny ask_user POST a.example.com 93.184.216.34 80"));
}

// A guest cannot keep a person busy: so many a minute, however quickly they are answered.
TEST_F(Ask, HowManyAreAskedInAMinuteIsBounded) {
  constexpr size_t kAMinute = 60;
  std::vector<uint16_t> ports;
  for (uint16_t port = 7000; port < 7000 + kAMinute + 1; ++port) ports.push_back(port);
  ask_about("a.example.com", ports);
  start_proxy();
  const auto client =
      start_guest({"python3", "-c",
                   "import socket\n"
                   "for i in range(61):\n"
                   "  try: socket.create_connection(('a.example.com', 7000 + i)).recv(1)\n"
                   "  except ConnectionError: pass"});
  ASSERT_TRUE(eventually([&] {
    for (const OpenQuestion& open : proxy_->questions()) proxy_->answer(open.number, false);
    return client->ended();
  }));
  EXPECT_THAT(put_, SizeIs(kAMinute));
  EXPECT_THAT(told(), Contains("connect deny rate_limited a.example.com 93.184.216.34 7060"));
}

TEST_F(Ask, HowManyWaitIsBounded) {
  constexpr size_t kMost = 32;
  std::vector<uint16_t> ports;
  for (uint16_t port = 7000; port < 7000 + kMost + 1; ++port) ports.push_back(port);
  ask_about("a.example.com", ports);
  start_proxy();
  const auto client =
      start_guest({"python3", "-c",
                   "import socket, sys\n"
                   "kept = [socket.create_connection(('a.example.com', 7000 + i)) "
                   "for i in range(32)]\n"
                   "print('up', flush=True); sys.stdin.read()\n"
                   "try: socket.create_connection(('a.example.com', 7032)).recv(1)\n"
                   "except ConnectionError: print('reset')"});
  ASSERT_TRUE(eventually([&] { return client->exit().out == "up\n"; }));
  ASSERT_TRUE(asks(kMost));
  client->end_input();
  ASSERT_TRUE(ends(*client));
  EXPECT_EQ(client->exit().out, "up\nreset\n");
  EXPECT_THAT(told(), Contains("connect deny resource_exhausted a.example.com 93.184.216.34 7032"));
  EXPECT_THAT(put_, SizeIs(kMost));
}

}
}
