#include "mvm/egress/client_hello.h"

#include <functional>

#include <gtest/gtest.h>
#include <openssl/ssl.h>

namespace mvm::egress {
namespace {

// What a real client says first.
Bytes hello_of(const std::function<void(SSL*)>& prepare) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl, in, out);
  prepare(ssl);
  SSL_connect(ssl);
  Bytes hello(static_cast<size_t>(BIO_pending(out)));
  BIO_read(out, hello.data(), static_cast<int>(hello.size()));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}
Bytes curl_like() {
  return hello_of([](SSL* ssl) {
    // SSL_set_tlsext_host_name is this with a C cast.
    std::string name = "API.example.com";
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
    constexpr unsigned char kAlpn[] = "\2h2\10http/1.1";
    SSL_set_alpn_protos(ssl, kAlpn, sizeof kAlpn - 1);
  });
}

TEST(ClientHello, SaysWhomARealClientWants) {
  const HelloResult result = read_client_hello(curl_like());
  ASSERT_EQ(result.state, HelloState::Whole);
  EXPECT_EQ(result.hello.server_name->text(), "api.example.com");
  EXPECT_EQ(result.hello.protocols, (std::vector<std::string>{"h2", "http/1.1"}));
}

TEST(ClientHello, MayHaveNoName) {
  const HelloResult result = read_client_hello(hello_of([](SSL*) {}));
  ASSERT_EQ(result.state, HelloState::Whole);
  EXPECT_FALSE(result.hello.server_name);
}

TEST(ClientHello, IsReadHoweverItComes) {
  const Bytes whole = curl_like();
  for (size_t length = 0; length < whole.size(); ++length)
    ASSERT_EQ(read_client_hello(ByteView(whole).first(length)).state, HelloState::More) << length;
  // In records of one byte each, and with more behind it.
  Bytes cut;
  for (const std::byte byte : ByteView(whole).subspan(5)) {
    Writer out(cut);
    out.u8(22);
    out.u16be(0x0301);
    out.u16be(1);
    out.u8(std::to_integer<uint8_t>(byte));
  }
  Writer(cut).text("and more");
  const HelloResult result = read_client_hello(cut);
  ASSERT_EQ(result.state, HelloState::Whole);
  EXPECT_EQ(result.hello.server_name->text(), "api.example.com");
}

TEST(ClientHello, IsToldFromOtherProtocols) {
  for (const char* text : {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x16\x02", "\x80\x2e\x01"})
    EXPECT_EQ(read_client_hello(as_bytes(text)).state, HelloState::NotTls) << text;
}

// A hello with these extensions.
Bytes with_extensions(std::string_view extensions) {
  Bytes body;
  Writer out(body);
  out.u16be(0x0303);
  out.zeros(32);
  out.u8(0);
  out.u16be(2);
  out.u16be(0x1301);
  out.u16be(0x0100);
  out.u16be(static_cast<uint16_t>(extensions.size()));
  out.text(extensions);
  Bytes record;
  Writer head(record);
  head.u8(22);
  head.u16be(0x0301);
  head.u16be(static_cast<uint16_t>(body.size() + 4));
  head.u32be(static_cast<uint32_t>(1 << 24 | body.size()));
  head.bytes(body);
  return record;
}

TEST(ClientHello, IsBrokenWhenReadersWouldDiffer) {
  using namespace std::string_literals;
  const auto state = [](const std::string& extensions) {
    return read_client_hello(with_extensions(extensions)).state;
  };
  const std::string name = "\0\0\0\6\0\4\0\0\1a"s;
  EXPECT_EQ(state(name), HelloState::Whole);
  EXPECT_EQ(state(name + name), HelloState::Broken);                      // twice
  EXPECT_EQ(state("\0\0\0\xa\0\x8\0\0\1a\0\0\1b"s), HelloState::Broken);  // two names in one
  EXPECT_EQ(state("\0\0\0\6\0\3\0\0\1a"s), HelloState::Broken);           // a list too short
  EXPECT_EQ(state("\0\0\0\6\0\4\1\0\1a"s), HelloState::Broken);           // not a host name
  EXPECT_EQ(state("\0\0\0\5\0\3\0\0\0"s), HelloState::Broken);            // empty
  EXPECT_EQ(state("\0\0\0\7\0\5\0\0\2a."s), HelloState::Broken);          // a final dot
  EXPECT_EQ(state("\0\0\0\7\0\5\0\0\2a\0"s), HelloState::Broken);         // a NUL in it
  EXPECT_EQ(state("\0\0\0\xc\0\xa\0\0\7"
                  "1.2.3.4"s),
            HelloState::Broken);                              // an address
  EXPECT_EQ(state("\0\x10\0\2\0\0"s), HelloState::Broken);    // no protocols
  EXPECT_EQ(state("\0\x10\0\3\0\1\0"s), HelloState::Broken);  // an empty one
  EXPECT_EQ(state("\0\5\0\7xx"s), HelloState::Broken);        // longer than there is
}

// Browsers put the name behind more than a kilobyte of a post-quantum key share, where a reader of
// the first kilobyte, or segment, or record, misses it.
TEST(ClientHello, HasItsNameWhereverItEnds) {
  using namespace std::string_literals;
  const std::string name =
      "\0\0\0\x10\0\xe\0\0\xb"
      "example.com"s;
  for (const size_t end : {1023, 1024, 1025, 1460, 4000, 9000, 16000}) {
    const auto with_share = [&](size_t length) {
      std::string share = "\0\x33"s;
      share += static_cast<char>(length >> 8);
      share += static_cast<char>(length & 255);
      return share + std::string(length, 'k') + name;
    };
    const size_t least = with_extensions(with_share(0)).size();
    const Bytes hello = with_extensions(with_share(end - least));
    ASSERT_EQ(hello.size(), end);
    for (const size_t cut : {size_t{5}, size_t{1000}, end - 1})
      EXPECT_EQ(read_client_hello(ByteView(hello).first(std::min(cut, end - 1))).state,
                HelloState::More);
    const HelloResult result = read_client_hello(hello);
    ASSERT_EQ(result.state, HelloState::Whole) << end;
    EXPECT_EQ(result.hello.server_name->text(), "example.com");
  }
}

TEST(ClientHello, IsBoundedBeforeItIsThere) {
  using namespace std::string_literals;
  EXPECT_EQ(read_client_hello(as_bytes("\x16\3\1\0\x10\1\0\x40\1"s)).state, HelloState::Broken);
  EXPECT_EQ(read_client_hello(as_bytes("\x16\3\1\x40\1"s)).state,
            HelloState::Broken);  // a record too long
  EXPECT_EQ(read_client_hello(as_bytes("\x16\3\1\0\0"s)).state,
            HelloState::Broken);  // an empty one
  EXPECT_EQ(read_client_hello(as_bytes("\x16\3\1\0\1\2"s)).state,
            HelloState::Broken);  // another message
}

}
}
