// Exchanges that filters look into and change, with real clients and servers.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";

// POST answers with how the body came and what it was; GET with what the path names.
constexpr const char* kServer = R"(
import http.server, ssl, sys, json
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.requestline, flush=True)
  def body(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      out = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        out += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline(); return out
    return self.rfile.read(int(self.headers.get('Content-Length', 0)))
  def say(self, text):
    self.send_response(200); self.send_header('Content-Length', str(len(text))); self.end_headers()
    if self.command != 'HEAD': self.wfile.write(text)
  def do_GET(self):
    if self.path == '/close':
      self.send_response(200); self.end_headers(); self.wfile.write(b'until the end e')
      self.close_connection = True
    elif self.path == '/none': self.send_response(204); self.end_headers()
    else: self.say(b'one two')
  do_HEAD = do_GET
  def do_POST(self):
    body = self.body(); h = self.headers
    self.say(('%s|%s|%s|%d|%s' % (h.get('Content-Length'), h.get('Transfer-Encoding'), h.get('Expect'),
              len(body), body[:40].decode())).encode())
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
if len(sys.argv) > 3:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

// Every `from` becomes `to`; bytes that might be the beginning of one are held back. Refuses where
// a body holds `forbidden`.
struct Swap {
  std::string name;
  std::string from;
  std::string to;
  BodyUse request = BodyUse::Rewrite;
  BodyUse response = BodyUse::Rewrite;
  std::string forbidden = "\1";
  bool refuses_request = false;
  bool refuses_response = false;
  std::string header;  // put into the request
};

class SwapFilter : public ExchangeFilter {
 public:
  SwapFilter(const Swap& swap, std::vector<std::string>& log) : swap_(swap), log_(log) {}
  FilterVerdict request_head(http::RequestHead& head, BodyUse& body) override {
    if (swap_.refuses_request) return refusal("request");
    if (!swap_.header.empty()) head.headers.push_back({"X-Filter", swap_.header});
    body = swap_.request;
    log_.push_back(swap_.name + " " + head.method + " " + head.target);
    return {};
  }
  FilterVerdict request_body(ByteView in, bool last, Bytes& out) override {
    return pass(in, last, out);
  }
  FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) override {
    if (swap_.refuses_response) return refusal("response");
    body = swap_.response;
    log_.push_back(swap_.name + " " + std::to_string(head.status));
    return {};
  }
  FilterVerdict response_body(ByteView in, bool last, Bytes& out) override {
    return pass(in, last, out);
  }
  void ended(bool whole) noexcept override {
    log_.push_back(swap_.name + (whole ? " whole" : " broken"));
  }

 private:
  static FilterVerdict refusal(std::string_view what) {
    FilterRefusal out;
    out.reason = Reason::RouteDenied;
    out.rule = "swap";
    out.answer.reason = "swap_" + std::string(what);
    return out;
  }
  FilterVerdict pass(ByteView in, bool last, Bytes& out) {
    held_ += as_text(in);
    if (held_.find(swap_.forbidden) != std::string::npos) return refusal("body");
    std::string made;
    size_t at = 0;
    while (at < held_.size()) {
      if (held_.compare(at, swap_.from.size(), swap_.from) == 0) {
        made += swap_.to;
        at += swap_.from.size();
      } else if (!last && held_.size() - at < swap_.from.size()) {
        break;
      } else {
        made += held_[at++];
      }
    }
    held_.erase(0, at);
    const ByteView bytes = as_bytes(made);
    out.insert(out.end(), bytes.begin(), bytes.end());
    return {};
  }

  const Swap& swap_;
  std::vector<std::string>& log_;
  std::string held_;
};

class SwapSource : public FilterSource {
 public:
  SwapSource(Swap swap, std::vector<std::string>& log) : swap_(std::move(swap)), log_(log) {}
  std::unique_ptr<ExchangeFilter> begin(const Exchange& exchange) override {
    if (exchange.host != "api.example") return nullptr;
    return std::make_unique<SwapFilter>(swap_, log_);
  }

 private:
  Swap swap_;
  std::vector<std::string>& log_;
};

class Filter : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
  }
  void add(Swap swap) {
    settings_.filters.push_back(std::make_shared<SwapSource>(std::move(swap), log_));
  }
  void start_http() {
    serve({"python3", "-u", "-c", kServer, kPublic, "80"}, {ip(kPublic), 80});
    allow_endpoint("* http://api.example/**");
    start_proxy();
  }
  std::string get(const std::string& path, std::vector<std::string> words = {}) {
    std::vector<std::string> argv{"curl", "-sS", "-m", "20", "http://api.example" + path};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv).out;
  }
  std::string post(const std::string& body, std::vector<std::string> words = {}) {
    words.insert(words.end(), {"--data-binary", "@" + file("body", body)});
    return get("/", std::move(words));
  }
  std::vector<std::string> log_;
};

TEST_F(Filter, RewritesSmallBodiesWithTheirNewLength) {
  add({"a", "cat", "tiger", BodyUse::Rewrite, BodyUse::Ignore});
  start_http();
  EXPECT_EQ(post("a cat, a cat"), "16|None|None|16|a tiger, a tiger");
  EXPECT_EQ(post("ca"), "2|None|None|2|ca");
  EXPECT_EQ(post(""), "0|None|None|0|");
  // What waits for a word before it sends is told to go on.
  EXPECT_EQ(post("cat", {"-H", "Expect: 100-continue", "--expect100-timeout", "15"}),
            "5|None|None|5|tiger");
  EXPECT_THAT(log_, ElementsAre("a POST /", "a 200", "a whole", "a POST /", "a 200", "a whole",
                                "a POST /", "a 200", "a whole", "a POST /", "a 200", "a whole"));
}

TEST_F(Filter, RewritesLargeAndChunkedBodiesInChunks) {
  add({"a", "cat", "tiger", BodyUse::Rewrite, BodyUse::Ignore});
  start_http();
  std::string large;
  for (int i = 0; i < 200'000; ++i) large += "cat";
  EXPECT_EQ(post(large), "None|chunked|None|1000000|tigertigertigertigertigertigertigertiger");
  EXPECT_EQ(post("a cat", {"-H", "Transfer-Encoding: chunked"}), "None|chunked|None|7|a tiger");
}

TEST_F(Filter, RewritesAnswersHoweverTheyEnd) {
  add({"a", "e", "EEE", BodyUse::Ignore, BodyUse::Rewrite});
  start_http();
  EXPECT_EQ(get("/"), "onEEE two");
  EXPECT_EQ(get("/", {"-0"}), "onEEE two");
  EXPECT_EQ(get("/close"), "until thEEE EEEnd EEE");
  EXPECT_EQ(get("/none", {"-w", "%{http_code}"}), "204");
  EXPECT_THAT(get("/", {"-I"}), HasSubstr("Content-Length: 7"));
  // One connection serves on.
  EXPECT_EQ(get("/", {"http://api.example/x", "-w", " %{num_connects}\n"}),
            "onEEE two 1\nonEEE two 0\n");
}

TEST_F(Filter, PassRequestsInOrderAndAnswersTheOtherWay) {
  add({"first", "x", "yy"});
  add({"reader", "y", "!", BodyUse::Read, BodyUse::Read});
  add({"last", "yy", "z", BodyUse::Rewrite, BodyUse::Rewrite});
  start_http();
  EXPECT_EQ(post("x"), "1|None|None|1|z");
  EXPECT_THAT(log_,
              ElementsAre("first POST /", "reader POST /", "last POST /", "last 200", "reader 200",
                          "first 200", "first whole", "reader whole", "last whole"));
}

class WatchFilter : public ExchangeFilter {
 public:
  explicit WatchFilter(std::vector<std::string>& log) : log_(log) {}
  FilterVerdict request_head(http::RequestHead&, BodyUse& body) override {
    body = BodyUse::Watch;
    return {};
  }
  FilterVerdict request_body(ByteView in, bool last, Bytes&) override {
    log_.push_back("asked " + std::string(as_text(in)) + (last ? "." : ""));
    return {};
  }
  void request_left() noexcept override { log_.emplace_back("left"); }
  FilterVerdict response_head(http::ResponseHead&, BodyUse& body) override {
    log_.emplace_back("answered");
    body = BodyUse::Watch;
    return {};
  }
  FilterVerdict response_body(ByteView in, bool last, Bytes&) override {
    log_.push_back("said " + std::string(as_text(in)) + (last ? "." : ""));
    return {};
  }
  void ended(bool whole) noexcept override { log_.emplace_back(whole ? "whole" : "broken"); }

 private:
  std::vector<std::string>& log_;
};

TEST_F(Filter, WatchWhatHasPassed) {
  struct Source : FilterSource {
    explicit Source(std::vector<std::string>& to) : log(to) {}
    std::unique_ptr<ExchangeFilter> begin(const Exchange&) override {
      return std::make_unique<WatchFilter>(log);
    }
    std::vector<std::string>& log;
  };
  settings_.filters.push_back(std::make_shared<Source>(log_));
  start_http();
  EXPECT_EQ(post("abc"), "3|None|None|3|abc");
  EXPECT_THAT(log_,
              ElementsAre("asked abc.", "left", "answered", "said 3|None|None|3|abc.", "whole"));
}

TEST_F(Filter, LetNothingPassThatIsNotOnRecord) {
  add({"a", "cat", "tiger", BodyUse::Rewrite, BodyUse::Ignore});
  bool recorded = true;
  settings_.commit = [&](Passage passage) {
    log_.emplace_back(passage == Passage::Before ? "before" : "after");
    return recorded;
  };
  start_http();
  EXPECT_EQ(post("a cat"), "7|None|None|7|a tiger");
  // Once for the request, with all that its head and its body had to tell.
  EXPECT_THAT(std::vector(log_.begin(), log_.begin() + 3),
              ElementsAre("a POST /", "before", "after"));
  EXPECT_EQ(log_.back(), "after");
  log_.clear();
  recorded = false;
  EXPECT_THAT(post("a cat", {"-w", "%{http_code}"}),
              AllOf(HasSubstr("not_recorded"), HasSubstr("503")));
  EXPECT_THAT(log_, Not(Contains("a 200")));
}

TEST_F(Filter, RewriteAnswersThatAreThereAsAWholeWithTheirNewLength) {
  constexpr const char* kAtOnce = R"(
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
  connection = server.accept()[0]
  asked = connection.recv(65536)
  if asked:
    said = b'#wo' if b'/bad' in asked else b'two'
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\none ' + said)
  connection.close()
)";
  Swap swap{"a", "e", "EEE", BodyUse::Ignore, BodyUse::Rewrite};
  swap.forbidden = "#";
  add(swap);
  serve({"python3", "-u", "-c", kAtOnce, kPublic, "80"}, {ip(kPublic), 80});
  allow_endpoint("* http://api.example/**");
  start_proxy();
  EXPECT_THAT(get("/", {"-D", "-"}), AllOf(HasSubstr("Content-Length: 9"), HasSubstr("onEEE two"),
                                           Not(HasSubstr("chunked"))));
  // None of it has passed, so the client is told.
  EXPECT_THAT(get("/bad"), AllOf(HasSubstr("swap_body"), Not(HasSubstr("one "))));
}

TEST_F(Filter, RefuseRequestsByTheirHeads) {
  Swap request{"request", "a", "b"};
  request.refuses_request = true;
  add(request);
  start_http();
  EXPECT_THAT(get("/", {"-w", "%{http_code}"}), AllOf(HasSubstr("swap_request"), HasSubstr("403")));
  EXPECT_THAT(told(), Contains("http deny route_denied GET api.example 93.184.216.34 80"));
  EXPECT_THAT(told(), Not(Contains(HasSubstr("http allow"))));
  EXPECT_EQ(events_of(EventKind::Http).at(0).rule, "swap");
  EXPECT_THAT(log_, ElementsAre("request broken"));
}

TEST_F(Filter, RefuseBodiesBeforeAndWhileTheyLeave) {
  Swap swap{"a", "a", "b", BodyUse::Rewrite, BodyUse::Ignore};
  swap.forbidden = "#";
  add(swap);
  start_http();
  EXPECT_THAT(post("a#"), HasSubstr("swap_body"));
  EXPECT_THAT(log_, ElementsAre("a POST /", "a broken"));
  EXPECT_THAT(post(std::string(600'000, 'a') + "#", {"-H", "Expect:"}), HasSubstr("swap_body"));
  EXPECT_THAT(told(), Contains("http deny route_denied POST api.example 93.184.216.34 80"));
  EXPECT_EQ(post("a"), "1|None|None|1|b");
}

TEST_F(Filter, RefuseAnswersBeforeTheyHaveBegun) {
  Swap head{"a", "a", "b"};
  head.refuses_response = true;
  add(head);
  start_http();
  EXPECT_THAT(get("/"), AllOf(HasSubstr("swap_response"), Not(HasSubstr("one"))));
}

TEST_F(Filter, CutOffAnswersThatHaveBegun) {
  Swap swap{"a", "a", "b", BodyUse::Ignore, BodyUse::Rewrite};
  swap.forbidden = "end";
  add(swap);
  start_http();
  EXPECT_THAT(get("/close"), Not(HasSubstr("end")));
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).at(0).reason, Reason::RouteDenied);
  EXPECT_THAT(log_, ElementsAre("a GET /close", "a 200", "a broken"));
}

TEST_F(Filter, CannotPutALineBreakIntoAHead) {
  Swap swap{"a", "a", "b"};
  swap.header = "one\r\nX-Injected: two";
  add(swap);
  start_http();
  EXPECT_THAT(get("/", {"-w", "%{http_code}"}), AllOf(HasSubstr("502"), Not(HasSubstr("one two"))));
}

TEST_F(Filter, SeeOnlyWhatThePolicyLooksInto) {
  const std::string path = certificate("api.example");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
  serve({"python3", "-u", "-c", kServer, kPublic, "443", path}, {ip(kPublic), 443});
  add({"a", "two", "three", BodyUse::Ignore, BodyUse::Rewrite});
  allow_host("api.example");
  settings_.policy.inspect.push_back(
      {policy::HostPattern::parse("api.example").value(), {443}, true});
  start_proxy();
  const std::string authority = file("authority.pem", proxy_->authority_pem());
  EXPECT_EQ(guest({"curl", "-sS", "--cacert", authority, "https://api.example/"}).out, "one three");
  // An exception in front of it.
  policy::Policy policy = settings_.policy;
  policy.inspect.insert(policy.inspect.begin(),
                        {policy::HostPattern::parse("api.example").value(), {}, false});
  proxy_->set_policy(policy, Mode::Enforce);
  EXPECT_EQ(guest({"curl", "-sS", "--cacert", path, "https://api.example/"}).out, "one two");
}

TEST_F(Filter, SeeWhatAuditModeLetsThroughToo) {
  const std::string path = certificate("api.example");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
  serve({"python3", "-u", "-c", kServer, kPublic, "443", path}, {ip(kPublic), 443});
  serve({"python3", "-u", "-c", kServer, kPublic, "80"}, {ip(kPublic), 80});
  add({"a", "two", "three", BodyUse::Ignore, BodyUse::Rewrite});
  settings_.mode = Mode::Audit;  // and no rule
  settings_.policy.inspect.push_back({{}, {}, true});
  start_proxy();
  const std::string authority = file("authority.pem", proxy_->authority_pem());
  EXPECT_EQ(guest({"curl", "-sS", "--cacert", authority, "https://api.example/"}).out, "one three");
  EXPECT_EQ(get("/"), "one three");
  EXPECT_TRUE(events_of(EventKind::Http).at(0).audited);
}

TEST_F(Filter, NothingUnreadPassesWhereEverythingIsLookedInto) {
  allow_host("api.example:2222");
  settings_.policy.inspect.push_back({{}, {}, true});
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket; s = socket.create_connection(('api.example', 2222)); "
                           "s.sendall(b'SSH-2.0-x\\r\\n\\r\\n'); print(s.recv(100))"});
  EXPECT_THAT(exit.out, HasSubstr("HTTP/1.1 400")) << exit.err;
}

}
}
