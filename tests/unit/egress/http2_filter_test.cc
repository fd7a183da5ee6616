// Filters of exchanges that are streams of HTTP/2.
#include "http2_rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Bodies grow by half: each 'a' becomes "bc". Refuses what holds a '!', and paths that end in "no".
class Grow : public ExchangeFilter {
 public:
  explicit Grow(std::vector<std::string>& log) : log_(log) {}
  FilterVerdict request_head(http::RequestHead& head, BodyUse& body) override {
    path_ = head.target;
    if (path_.ends_with("no")) return refusal();
    log_.push_back(head.method + " " + path_ + (http::find(head.headers, "te") ? " te" : "") +
                   (http::find(head.headers, "host") ? " host" : "") +
                   (head.framing.kind == http::BodyKind::None ? "" : " body"));
    head.headers.push_back({"X-Filter", "Seen"});
    body = BodyUse::Rewrite;
    return {};
  }
  FilterVerdict request_body(ByteView in, bool, Bytes& out) override { return pass(in, out); }
  FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) override {
    log_.push_back(path_ + " " + std::to_string(head.status));
    head.headers.push_back({"X-Filter", "Seen"});
    body = BodyUse::Rewrite;
    return {};
  }
  FilterVerdict response_body(ByteView in, bool, Bytes& out) override { return pass(in, out); }
  void ended(bool whole) noexcept override {
    log_.push_back(path_ + (whole ? " whole" : " broken"));
  }

 private:
  static FilterVerdict refusal() {
    FilterRefusal out;
    out.reason = Reason::RouteDenied;
    out.rule = "grow";
    out.answer.reason = "grown_enough";
    return out;
  }
  static FilterVerdict pass(ByteView in, Bytes& out) {
    for (const char c : as_text(in)) {
      if (c == '!') return refusal();
      out.push_back(static_cast<std::byte>(c == 'a' ? 'b' : c));
      if (c == 'a') out.push_back(std::byte{'c'});
    }
    return {};
  }
  std::vector<std::string>& log_;
  std::string path_;
};

struct Source : FilterSource {
  explicit Source(std::vector<std::string>& to) : log(to) {}
  std::unique_ptr<ExchangeFilter> begin(const Exchange& exchange) override {
    log.push_back(exchange.host + ":" + std::to_string(exchange.port) +
                  (exchange.tls ? " tls " : " ") + std::to_string(exchange.index));
    return std::make_unique<Grow>(log);
  }
  std::vector<std::string>& log;
};

class Http2Filter : public Http2 {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (IsSkipped()) return;
    allow_endpoint("* https://api.example/**");
    settings_.filters.push_back(std::make_shared<Source>(log_));
    serve_http2();
    start_proxy();
  }
  std::vector<std::string> log_;
};

// Of a body whose length was told, the server hears the new one; of others, none.
TEST_F(Http2Filter, SeeAndChangeEachStream) {
  const auto exit = python(R"(
c = Client()
def post(body, more):
  n = c.ask('/echo', 'POST', end=False, more=more); c.c.send_data(n, body, end_stream=True); c.flush(); return c.answer(n)
g = post(b'1a2a', [('content-length', '4'), ('te', 'trailers')]); print(g['body'], g['headers'].get(b'content-length'), g['headers'][b'x-filter'])
g = post(b'1a2a', []); print(g['body'])
g = c.answer(c.ask('/a')); print(g['body'], g['headers'].get(b'content-length'))
g = c.answer(c.ask('/a', 'HEAD')); print(g['body'], g['status'])
g = c.answer(c.ask('/trailers')); print(g['body'], g['trailers'])
)");
  EXPECT_EQ(exit.out,
            "b'6|Seen|1bc2bc' None b'Seen'\nb'undefined|Seen|1bc2bc'\nb'hello /bc' None\nb'' 200\n"
            "b'body' {b'x-sum': b'7', b'x-te': b'none'}\n")
      << exit.err;
  ASSERT_GE(log_.size(), 8U);
  EXPECT_THAT(std::vector(log_.begin(), log_.begin() + 8),
              ElementsAre("api.example:443 tls 0", "POST /echo te body", "/echo 200", "/echo whole",
                          "api.example:443 tls 1", "POST /echo body", "/echo 200", "/echo whole"));
}

TEST_F(Http2Filter, RefuseAStreamAndNoOther) {
  const auto exit = python(R"(
c = Client()
def post(path, body, more, end=True):
  n = c.ask(path, 'POST', end=False, more=more); c.c.send_data(n, body, end_stream=end); c.flush(); return c.answer(n)
for g in (c.answer(c.ask('/no')), post('/kept', b'ab!', [('content-length', '3')]), post('/sum', b'ab!', []), post('/sum', b'ab!', [], False)):
  print(g['status'], b'grown_enough' in g['body'])
g = c.answer(c.ask('/bang!')); print(g['body'], g['reset'])
print(c.answer(c.ask('/on'))['body'])
)");
  EXPECT_EQ(exit.out, "403 True\n403 True\n403 True\n403 True\nb'' 2\nb'hello /on'\n") << exit.err;
  // A body that is collected is refused before anything of it leaves.
  EXPECT_THAT(told(), Contains("http deny route_denied POST api.example 93.184.216.34 443"));
  EXPECT_THAT(log_, AllOf(Contains("/kept broken"), Contains("/sum broken"),
                          Contains("/bang! broken"), Contains("/on whole")));
  for (const Event& event : events_of(EventKind::Http))
    EXPECT_EQ(event.rule == "grow", event.outcome == policy::Outcome::Deny) << event.path;
}

TEST_F(Http2Filter, EndWithTheirStreams) {
  const auto exit = python(R"(
c = Client()
n = c.ask('/endless')
while not c.got[n]['body']: c.turn()
c.c.reset_stream(n, h2.errors.ErrorCodes.CANCEL); c.flush(); c.answer(c.ask('/x'))
c.answer(c.ask('/reset')); c.ask('/deaf'); c.answer(c.ask('/y'))
)");
  EXPECT_EQ(exit.err, "");
  EXPECT_TRUE(eventually([&] { return std::ranges::count(log_, "/deaf broken") == 1; }));
  EXPECT_THAT(log_, AllOf(Contains("/endless broken"), Contains("/reset broken"),
                          Contains("/x whole"), Contains("/y whole")));
}

// What a filter makes of a body is not as long as what came, and windows count both.
TEST_F(Http2Filter, LongBodiesGrowAndPass) {
  const auto exit = guest({"sh", "-c", "cd " + directory() + R"(
head -c 3000000 /dev/zero | tr '\0' a > up; tr a 'b' < up | sed 's/b/bc/g' > want
want=$(sha256sum < want | cut -d' ' -f1 | sed 's/a/bc/g')
for how in Expect: 'Transfer-Encoding: chunked'; do
  for i in 1 2 3; do
    got=$(curl -sS --http2 --cacert authority.pem -H "$how" --data-binary @up https://api.example/sum)
    test "$got" = "$want" || echo "$how: $got"
  done
done)"});
  EXPECT_EQ(exit.out + exit.err, "");
}

}
}
