// The round-trip matrix: real clients and servers on both sides of the proxy, and a server that
// does with the tokens it got whatever a server may. Exact tokens of an exchange come back as the
// values; nothing else does.

#include "unit/privacy/roundtrip.h"

#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/privacy/filter.h"
#include "mvm/sys/file.h"

#include "unit/egress/rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
// What JSON has to escape.
constexpr const char* kQuoted = R"(quoted Q"[0-9]{6}\\[a-z]{4})";

class RoundTrip : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    const std::string path = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    serve({"/usr/bin/python3", "-u", "-c", with_codings(kServer), kPublic, "443", path},
          {ip(kPublic), 443});
    allow_host("api.example");
  }
  void protect(proto::PiiConfig config) {
    privacy::Rules rules = privacy::compile(config);
    settings_.policy.inspect = rules.inspect;
    settings_.filters = {std::make_shared<privacy::PiiSource>(
        std::move(rules), [this](const privacy::Note& note) { notes_.push_back(note); })};
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  uint64_t mismatches() const {
    uint64_t count = 0;
    for (const privacy::Note& note : notes_)
      if (note.kind == privacy::Note::Kind::Mismatched) count += note.count;
    return count;
  }
  std::string authority_;
  std::vector<privacy::Note> notes_;
};

TEST_F(RoundTrip, ExactTokensComeBackAndNothingElse) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.patterns = {kQuoted};
  config.on_undecodable = "allow";  // the WebSocket
  protect(config);
  const auto exit = guest({"/usr/bin/python3", "-c", with_codings(kClient), authority_, "1"});
  EXPECT_EQ(exit.out, "exact 522 restored 522 other 0 of 197\n") << exit.err;
  EXPECT_EQ(exit.err, "");
  // For the benchmark.
  RecordProperty("roundtrip", exit.out);
  std::printf("protect.roundtrip over HTTP/1: %s", exit.out.c_str());
  EXPECT_GT(mismatches(), 50U);
}

TEST_F(RoundTrip, SoTheyDoOverHttp2) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.patterns = {kQuoted};
  protect(config);
  const auto exit = guest({"/usr/bin/python3", "-c", with_codings(kClient), authority_, "2"});
  EXPECT_EQ(exit.out, "exact 518 restored 518 other 0 of 187\n") << exit.err;
  EXPECT_EQ(exit.err, "");
  std::printf("protect.roundtrip over HTTP/2: %s", exit.out.c_str());
  EXPECT_GT(mismatches(), 50U);
}

// What a trailer holds is refused before the request has its end.
TEST_F(RoundTrip, WhatATrailerHoldsDoesNotLeave) {
  proto::PiiConfig config;
  config.mode = "refuse";
  protect(config);
  constexpr const char* kTrailer = R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
s.sendall(b'POST / HTTP/1.1\r\nHost: api.example\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
          b'2\r\n[]\r\n0\r\nX-Value-0: %s\r\n\r\n' % sys.argv[2].encode())
data = b''
while (part := s.recv(65536)): data += part
print(data.decode())
)";
  const auto ask = [&](const std::string& value) {
    return guest({"/usr/bin/python3", "-c", kTrailer, authority_, value}).out;
  };
  EXPECT_THAT(ask("jane.doe@example.com"),
              AllOf(HasSubstr("HTTP/1.1 403"), HasSubstr("personal_data"), Not(HasSubstr("jane"))));
  EXPECT_THAT(told(), ::testing::Contains(HasSubstr("http deny personal_data POST api.example")));
}

TEST_F(RoundTrip, RefusalsAreAnsweredAndNothingLeaves) {
  proto::PiiConfig config;
  config.mode = "refuse";
  protect(config);
  const auto ask = [&](std::vector<std::string> words) {
    std::vector<std::string> argv{"curl", "-sS", "-m", "20", "--cacert", authority_};
    argv.insert(argv.end(), words.begin(), words.end());
    argv.emplace_back("https://api.example/");
    return guest(argv).out;
  };
  EXPECT_THAT(
      ask({"-d", "mail=jane.doe%40example.com"}),
      AllOf(HasSubstr("personal_data"), HasSubstr("\"class\":\"email\""), Not(HasSubstr("jane"))));
  EXPECT_THAT(ask({"-H", "Content-Type: image/png", "-d", "x"}), HasSubstr("unreadable"));
  EXPECT_THAT(ask({"-H", "Content-Type: application/json", "-d", "[\"clean\"]"}),
              HasSubstr("{\"values\": [\"clean\"]}"));
  EXPECT_THAT(told(), ::testing::Contains(HasSubstr("http deny personal_data POST api.example")));
  EXPECT_THAT(told(), ::testing::Contains(HasSubstr("http deny unreadable POST api.example")));
}

constexpr const char* kHandshake = R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
s.sendall(b'GET /?value=%s HTTP/1.1\r\nHost: api.example\r\nX-Value: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
          b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n' % ((sys.argv[2].encode(),) * 2))
data = b''
while (part := s.recv(65536)): data += part
print(data.decode())
)";

// What would be said on it is not read: by default there is none, and the refusal says what lets it
// pass.
TEST_F(RoundTrip, AWebSocketIsRefusedWhereAnythingIsLookedFor) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  protect(config);
  const auto exit = guest({"/usr/bin/python3", "-c", kHandshake, authority_, "nothing"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("HTTP/1.1 403"), HasSubstr("unreadable"),
                              HasSubstr("what is said on a WebSocket is not read"),
                              HasSubstr("allow all at api.example")))
      << exit.err;
  const auto events = events_of(EventKind::Http);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().reason, policy::Reason::Unreadable);
  EXPECT_EQ(events.back().rule, "pii.on_undecodable");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0].kind, privacy::Note::Kind::Undecodable);
  EXPECT_EQ(notes_[0].name, "websocket");
}

TEST_F(RoundTrip, ARuleAdmitsTheWebSocketsOfItsHost) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.rules = {"allow all at api.example"};
  protect(config);
  // Unread, and so is what stands in its handshake.
  const auto exit =
      guest({"/usr/bin/python3", "-c", kHandshake, authority_, "jane.doe@example.com"});
  EXPECT_THAT(exit.out,
              AllOf(HasSubstr("HTTP/1.1 101"), HasSubstr("X-Value-0: jane.doe@example.com")))
      << exit.err;
  EXPECT_TRUE(notes_.empty());
}

}
}
