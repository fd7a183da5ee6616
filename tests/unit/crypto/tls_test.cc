// The engine against itself and against plain OpenSSL, in memory.

#include "mvm/crypto/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>

#include "raw_tls.h"
#include "tls_pair.h"

namespace mvm::crypto {
namespace {

class Tls : public testing::Test {
 protected:
  // Up to the server's decision.
  Pair begin(const TlsPeer& peer) {
    Pair pair(server_, client_, peer);
    pair.run();
    return pair;
  }
  Pair connect(const TlsPeer& peer, std::string_view protocol = "") {
    Pair pair = begin(peer);
    pair.server.engine.accept(leaf(peer.host), protocol);
    pair.run();
    return pair;
  }
  std::shared_ptr<const Leaf> leaf(std::string_view host) {
    return authority_.leaf(host, clock_now());
  }

  CertificateAuthority authority_ = test_authority();
  std::shared_ptr<const TrustStore> trust_ = TrustStore::from_pem(authority_.root_pem(), "root");
  TlsServerContext server_;
  TlsClientContext client_{trust_};
};

TEST_F(Tls, CarriesDataBothWays) {
  Pair pair = connect({.host = "api.example.com"});
  ASSERT_EQ(pair.server.engine.phase(), TlsPhase::Open);
  ASSERT_EQ(pair.client.engine.phase(), TlsPhase::Open);
  EXPECT_EQ(pair.client.engine.version(), "TLSv1.3");
  pair.client.say("question");
  pair.server.say("answer");
  pair.run();
  EXPECT_EQ(pair.server.plain, "question");
  EXPECT_EQ(pair.client.plain, "answer");
}

TEST_F(Tls, TheServerWaitsForADecision) {
  Pair pair = begin({.host = "api.example.com", .protocols = {"h2", "http/1.1"}});
  ASSERT_EQ(pair.server.engine.phase(), TlsPhase::Hello);
  EXPECT_EQ(pair.server.engine.hello().server_name, "api.example.com");
  EXPECT_EQ(pair.server.engine.hello().protocols, (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_TRUE(pair.server.engine.output().empty());
  // What the client sends meanwhile is left where it is.
  EXPECT_EQ(pair.server.feed("more"), "more");
}

TEST_F(Tls, ProtocolIsWhatTheServerChose) {
  const TlsPeer peer{.host = "example.com", .protocols = {"h2", "http/1.1"}};
  for (const char* protocol : {"h2", "http/1.1", ""}) {
    Pair pair = connect(peer, protocol);
    EXPECT_EQ(pair.server.engine.protocol(), protocol);
    EXPECT_EQ(pair.client.engine.protocol(), protocol);
  }
}

TEST_F(Tls, AProtocolThatWasNotOfferedEndsTheHandshake) {
  Pair pair = connect({.host = "example.com", .protocols = {"http/1.1"}}, "h2");
  EXPECT_EQ(pair.server.engine.failure().fault, TlsFault::NoCommonProtocol);
  EXPECT_EQ(pair.client.engine.failure().fault, TlsFault::Alert);
  EXPECT_EQ(alert_name(pair.client.engine.failure().alert), "no_application_protocol");
}

TEST_F(Tls, ARefusalIsAnAlert) {
  Pair pair = begin({.host = "example.com"});
  pair.server.engine.refuse(TlsAlert::AccessDenied);
  EXPECT_EQ(pair.server.engine.failure().fault, TlsFault::Refused);
  pair.run();
  EXPECT_EQ(pair.client.engine.failure().text, "the peer ended TLS with the alert access_denied");
}

TEST_F(Tls, TheAlertOfARelayIsReadByClients) {
  Pair pair(server_, client_, {.host = "example.com"});
  const auto record = alert_record(TlsAlert::UnrecognizedName);
  pair.client.feed(as_text(record));
  EXPECT_EQ(alert_name(pair.client.engine.failure().alert), "unrecognized_name");
}

TEST_F(Tls, WorksByteByByte) {
  Pair pair(server_, client_, {.host = "example.com"});
  pair.run(1);
  pair.server.engine.accept(leaf("example.com"), "");
  pair.run(1);
  const std::string text(40'000, 'x');
  pair.client.say(text);
  pair.server.say(text);
  pair.run(1);
  EXPECT_EQ(pair.server.plain, text);
  EXPECT_EQ(pair.client.plain, text);
}

TEST_F(Tls, AddressesAreVerifiedAndHaveNoServerName) {
  Pair pair = connect({.host = "192.0.2.9"});
  EXPECT_EQ(pair.client.engine.phase(), TlsPhase::Open) << pair.client.engine.failure().text;
  EXPECT_EQ(pair.server.engine.hello().server_name, "");
  Pair other = begin({.host = "192.0.2.9"});
  other.server.engine.accept(leaf("192.0.2.10"), "");
  other.run();
  EXPECT_EQ(other.client.engine.failure().text,
            "its certificate is for 192.0.2.10, not for 192.0.2.9");
}

// ---- sessions

TEST_F(Tls, SessionsAreResumedTowardsTheSameServer) {
  const TlsPeer peer{.host = "example.com", .protocols = {"h2"}};
  EXPECT_FALSE(connect(peer, "h2").client.engine.resumed());
  Pair second = connect(peer, "h2");
  EXPECT_TRUE(second.client.engine.resumed());
  EXPECT_TRUE(second.server.engine.resumed());
  EXPECT_EQ(second.client.engine.protocol(), "h2");
  second.client.say("hello");
  second.run();
  EXPECT_EQ(second.server.plain, "hello");
}

TEST_F(Tls, SessionsAreNotResumedUnderOtherConditions) {
  const auto other_trust = TrustStore::from_pem(authority_.root_pem(), "root");
  connect({.host = "example.com"});
  EXPECT_FALSE(connect({.host = "www.example.com"}).client.engine.resumed());
  EXPECT_FALSE(connect({.host = "example.com", .port = 8443}).client.engine.resumed());
  EXPECT_FALSE(connect({.host = "example.com", .protocols = {"http/1.1"}}).client.engine.resumed());
  EXPECT_FALSE(connect({.host = "example.com", .trust = other_trust}).client.engine.resumed());
  EXPECT_TRUE(connect({.host = "example.com"}).client.engine.resumed());
}

// The client would skip the certificate, so the server must not let it.
TEST_F(Tls, ATicketIsGoodForItsHostOnly) {
  SSL_SESSION* session = nullptr;
  for (const char* host : {"example.com", "example.org"}) {
    TlsEngine server(server_);
    RawClient client;
    client.server_name(host);
    if (session != nullptr) SSL_set_session(client.ssl(), session);
    std::byte buffer[100];
    for (int round = 0; round < 4; ++round) {
      client.step();
      const std::string sent = client.take();
      ByteView input = as_bytes(sent);
      server.read(input, buffer);
      if (server.phase() == TlsPhase::Hello) server.accept(leaf(host), "");
      client.give(server.output());
      server.sent(server.output().size());
    }
    client.step();
    EXPECT_EQ(server.phase(), TlsPhase::Open);
    EXPECT_FALSE(server.resumed());
    SSL_SESSION_free(session);
    session = SSL_get1_session(client.ssl());
    EXPECT_TRUE(SSL_SESSION_has_ticket(session));
  }
  SSL_SESSION_free(session);
}

// ---- the end

TEST_F(Tls, ClosesInGoodOrder) {
  Pair pair = connect({.host = "example.com"});
  pair.client.say("last");
  pair.client.engine.close();
  pair.client.say("too late");
  pair.run();
  EXPECT_EQ(pair.server.plain, "last");
  EXPECT_TRUE(pair.server.engine.peer_closed());
  EXPECT_EQ(pair.server.engine.phase(), TlsPhase::Open);
  pair.server.say("answer");  // the other direction goes on
  pair.run();
  EXPECT_EQ(pair.client.plain, "answer");
  pair.server.engine.close();
  pair.run();
  EXPECT_EQ(pair.server.engine.phase(), TlsPhase::Closed);
  EXPECT_EQ(pair.client.engine.phase(), TlsPhase::Closed);
  pair.client.engine.end_of_input();
  EXPECT_EQ(pair.client.engine.phase(), TlsPhase::Closed);
}

TEST_F(Tls, AnEndWithoutCloseNotifyIsTruncation) {
  Pair pair = connect({.host = "example.com"});
  pair.server.say("half of it");
  pair.run();
  pair.client.engine.end_of_input();
  EXPECT_EQ(pair.client.engine.failure().fault, TlsFault::Truncated);
  EXPECT_EQ(pair.client.engine.failure().text, "the connection ended without a close_notify");

  Pair early(server_, client_, {.host = "example.com"});
  early.client.engine.end_of_input();
  EXPECT_EQ(early.client.engine.failure().text, "the connection ended within the TLS handshake");
}

TEST_F(Tls, ClosingBeforeTheHandshakeIsQuiet) {
  Pair pair(server_, client_, {.host = "example.com"});
  pair.client.take();
  pair.client.engine.close();
  EXPECT_EQ(pair.client.engine.phase(), TlsPhase::Closed);
  EXPECT_TRUE(pair.client.engine.output().empty());
}

// ---- bounds

TEST_F(Tls, WritingStopsWhenTheOutputIsFull) {
  Pair pair = connect({.host = "example.com"});
  const std::string much(1'000'000, 'x');
  ByteView plain = as_bytes(much);
  pair.client.engine.write(plain);
  EXPECT_GT(plain.size(), much.size() - 2 * kMaxOutput);
  EXPECT_LT(pair.client.engine.output().size(), kMaxOutput + 20'000);
  const size_t left = plain.size();
  pair.client.engine.write(plain);
  EXPECT_EQ(plain.size(), left);
  // Nor does the engine read now: what it would have to answer has no place.
  pair.server.say("answer");
  const std::string answer = pair.server.take();
  EXPECT_EQ(pair.client.feed(answer), answer);
  while (!plain.empty()) {
    pair.run();
    pair.client.engine.write(plain);
  }
  pair.run();
  EXPECT_EQ(pair.server.plain, much);
}

TEST_F(Tls, ReadingTakesNoMoreThanFits) {
  Pair pair = connect({.host = "example.com"});
  pair.server.say(std::string(100'000, 'x'));
  const std::string records = pair.server.take();
  ByteView input = as_bytes(records);
  std::byte little[10];
  EXPECT_EQ(pair.client.engine.read(input, little), sizeof little);
  // One record has been taken, of the seven that there are.
  EXPECT_GT(input.size(), records.size() - 17'000);
  EXPECT_TRUE(pair.client.engine.holds_plaintext());
  size_t total = sizeof little;
  while (const size_t got = pair.client.engine.read(input, little)) total += got;
  EXPECT_EQ(total, 100'000U);
  EXPECT_TRUE(input.empty());
}

// ---- peers that do what the engine would not

// Carries bytes between a raw client and a server engine, `rounds` times there and back.
void exchange(RawClient& client, End& server, int rounds = 4) {
  for (int round = 0; round < rounds; ++round) {
    client.step();
    server.feed(client.take());
    client.give(as_bytes(server.take()));
  }
  client.step();
}

TEST_F(Tls, OlderClientsGetTls12) {
  RawClient client;
  SSL_set_max_proto_version(client.ssl(), TLS1_2_VERSION);
  client.server_name("example.com");
  End server{TlsEngine(server_), {}};
  exchange(client, server, 1);
  server.engine.accept(leaf("example.com"), "");
  client.give(as_bytes(server.take()));
  exchange(client, server);
  ASSERT_EQ(server.engine.phase(), TlsPhase::Open);
  EXPECT_EQ(server.engine.version(), "TLSv1.2");
  server.say("hello");
  exchange(client, server);
  EXPECT_EQ(client.plain, "hello");

  // Renegotiation is refused; OpenSSL as a client ends the connection for it.
  SSL_renegotiate(client.ssl());
  SSL_do_handshake(client.ssl());
  server.feed(client.take());
  EXPECT_EQ(server.engine.phase(), TlsPhase::Open);
  client.give(as_bytes(server.take()));
  client.step();
  EXPECT_EQ(ERR_GET_REASON(ERR_get_error()), SSL_R_NO_RENEGOTIATION);
}

TEST_F(Tls, VersionsBefore12AreRefused) {
  RawClient client;
  SSL_set_security_level(client.ssl(), 0);
  SSL_set_min_proto_version(client.ssl(), TLS1_VERSION);
  SSL_set_max_proto_version(client.ssl(), TLS1_1_VERSION);
  SSL_set_cipher_list(client.ssl(), "ALL:@SECLEVEL=0");
  End server{TlsEngine(server_), {}};
  exchange(client, server, 1);
  if (server.engine.phase() == TlsPhase::Hello) server.engine.accept(leaf("example.com"), "");
  EXPECT_EQ(server.engine.failure().fault, TlsFault::NoCommonVersion);
  EXPECT_EQ(server.engine.failure().text, "the peer speaks no TLS newer than 1.1");
}

TEST_F(Tls, AClientMayBeAskedToRetryItsHello) {
  RawClient client;
  client.server_name("example.com");
  SSL_set1_groups_list(client.ssl(), "X448:P-256");  // offers a share of the first, which we lack
  End server{TlsEngine(server_), {}};
  exchange(client, server, 1);
  server.engine.accept(leaf("example.com"), "");
  client.give(as_bytes(server.take()));
  exchange(client, server);
  EXPECT_EQ(server.engine.phase(), TlsPhase::Open) << server.engine.failure().text;
}

TEST_F(Tls, AMalformedServerNameIsRefused) {
  for (const char* name : {"exa mple.com", "example.com/x", "a..b"}) {
    RawClient client;
    client.server_name(name);
    End server{TlsEngine(server_), {}};
    exchange(client, server, 1);
    EXPECT_EQ(server.engine.failure().text, "the server name in the ClientHello is malformed");
  }
}

TEST_F(Tls, ServerNamesComeInLowerCase) {
  RawClient client;
  client.server_name("API.Example.COM");
  End server{TlsEngine(server_), {}};
  exchange(client, server, 1);
  EXPECT_EQ(server.engine.hello().server_name, "api.example.com");
}

TEST_F(Tls, PlainHttpIsTold) {
  End server{TlsEngine(server_), {}};
  server.feed("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
  EXPECT_EQ(server.engine.failure().text, "the peer does not speak TLS");
  Pair pair(server_, client_, {.host = "example.com"});
  pair.client.feed("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_EQ(pair.client.engine.failure().text, "the peer does not speak TLS");
}

TEST_F(Tls, KeyUpdatesDoNotPileUpAnswers) {
  RawClient client;
  client.server_name("example.com");
  End server{TlsEngine(server_), {}};
  exchange(client, server, 1);
  server.engine.accept(leaf("example.com"), "");
  client.give(as_bytes(server.take()));
  exchange(client, server);
  ASSERT_EQ(server.engine.version(), "TLSv1.3");
  for (int round = 0; round < 2000; ++round) {
    SSL_key_update(client.ssl(), SSL_KEY_UPDATE_REQUESTED);
    SSL_do_handshake(client.ssl());
  }
  server.feed(client.take());
  server.say("x");
  EXPECT_LT(server.engine.output().size(), kMaxOutput);
}

TEST_F(Tls, ATamperedRecordEndsTheConnection) {
  Pair pair = connect({.host = "example.com"});
  pair.client.say("hello");
  std::string record = pair.client.take();
  record.back() = static_cast<char>(record.back() ^ 1);
  pair.server.feed(record);
  EXPECT_EQ(pair.server.engine.failure().fault, TlsFault::Protocol);
  EXPECT_EQ(pair.server.plain, "");
  pair.run();
  EXPECT_EQ(alert_name(pair.client.engine.failure().alert), "bad_record_mac");
}

}
}
