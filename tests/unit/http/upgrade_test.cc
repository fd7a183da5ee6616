#include "mvm/http/upgrade.h"

#include <gtest/gtest.h>

namespace mvm::http {
namespace {

// RFC 6455 §1.2 and §1.3.
RequestHead handshake() {
  return {"GET",
          "/chat",
          1,
          {{"Host", "server.example.com"},
           {"Upgrade", "websocket"},
           {"Connection", "keep-alive, Upgrade"},
           {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
           {"Sec-WebSocket-Protocol", "chat, superchat"},
           {"Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"},
           {"Sec-WebSocket-Version", "13"}},
          {}};
}
ResponseHead answer() {
  return {101,
          "Switching Protocols",
          1,
          {{"Upgrade", "WebSocket"},
           {"Connection", "Upgrade"},
           {"Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
           {"Sec-WebSocket-Protocol", "chat"}},
          {}};
}
template <typename Head>
Head with(Head head, std::string_view name, const char* value) {
  std::erase_if(head.headers, [&](const Header& one) { return same_name(one.name, name); });
  if (value != nullptr) head.headers.push_back({std::string(name), value});
  return head;
}

TEST(WebSocket, RecognisesTheHandshake) {
  EXPECT_EQ(requested_upgrade(handshake()), Upgrade::WebSocket);
}

TEST(WebSocket, PlainRequestsAskForNothing) {
  EXPECT_EQ(requested_upgrade(with(handshake(), "upgrade", nullptr)), Upgrade::None);
  EXPECT_EQ(requested_upgrade(with(handshake(), "connection", "keep-alive")), Upgrade::None);
  EXPECT_EQ(requested_upgrade(with(handshake(), "upgrade", "h2c")), Upgrade::Other);
}

TEST(WebSocket, HandshakesThatAreNotWholeAreTold) {
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"sec-websocket-key", nullptr},
           {"sec-websocket-key", "short"},
           {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ="},
           {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZR=="},
           {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZ_=="},
           {"sec-websocket-version", nullptr},
           {"sec-websocket-version", "8"},
           {"upgrade", "websocket, h2c"}})
    EXPECT_EQ(requested_upgrade(with(handshake(), name, value)), Upgrade::Malformed)
        << name << ": " << (value == nullptr ? "" : value);
  RequestHead post = handshake();
  post.method = "POST";
  EXPECT_EQ(requested_upgrade(post), Upgrade::Malformed);
  RequestHead body = handshake();
  body.framing = {BodyKind::Length, 3};
  EXPECT_EQ(requested_upgrade(body), Upgrade::Malformed);
  RequestHead twice = handshake();
  twice.headers.push_back({"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="});
  EXPECT_EQ(requested_upgrade(twice), Upgrade::Malformed);
}

TEST(WebSocket, AnAnswerMustFitTheHandshake) {
  EXPECT_TRUE(accepts_websocket(handshake(), answer()));
  EXPECT_TRUE(accepts_websocket(handshake(), with(answer(), "sec-websocket-protocol", nullptr)));
  EXPECT_TRUE(accepts_websocket(handshake(),
                                with(answer(), "sec-websocket-extensions", "permessage-deflate")));
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"sec-websocket-accept", nullptr},
           {"sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOO="},
           {"upgrade", nullptr},
           {"upgrade", "h2c"},
           {"connection", "close"},
           {"sec-websocket-protocol", "other"},
           {"sec-websocket-protocol", "chat, superchat"},
           {"sec-websocket-extensions", "x-unasked"}})
    EXPECT_FALSE(accepts_websocket(handshake(), with(answer(), name, value))) << name;
  ResponseHead ok = answer();
  ok.status = 200;
  EXPECT_FALSE(accepts_websocket(handshake(), ok));
}

}
}
