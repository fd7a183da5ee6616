#pragma once
// A server and a client engine and the bytes between them.

#include <algorithm>
#include <string>
#include <string_view>

#include "mvm/crypto/tls.h"

namespace mvm::crypto {

inline Time clock_now() { return std::chrono::system_clock::now(); }

inline CertificateAuthority test_authority(Time at = clock_now()) {
  return {"test",
          {.names = {"example.com", "example.org"}, .ranges = {*IpPrefix::parse("192.0.2.0/24")}},
          at};
}

// One end: its engine, and the plaintext that has come out of it.
struct End {
  TlsEngine engine;
  std::string plain;

  // Feeds `bytes` as far as the engine takes them, in pieces of `piece`; returns the rest.
  std::string feed(std::string_view bytes, size_t piece = SIZE_MAX) {
    std::byte buffer[1000];
    while (!bytes.empty() || engine.holds_plaintext()) {
      ByteView input = as_bytes(bytes.substr(0, piece));
      const size_t offered = input.size();
      const size_t got = engine.read(input, buffer);
      plain += as_text(std::span(buffer).first(got));
      const size_t used = offered - input.size();
      bytes.remove_prefix(used);
      if (got == 0 && used == 0) break;
    }
    return std::string(bytes);
  }
  void say(std::string_view text) {
    ByteView plain_text = as_bytes(text);
    engine.write(plain_text);
  }
  std::string take() {
    const std::string out(as_text(engine.output()));
    engine.sent(out.size());
    return out;
  }
};

struct Pair {
  Pair(TlsServerContext& server_context, TlsClientContext& client_context, const TlsPeer& peer)
      : server{TlsEngine(server_context), {}}, client{TlsEngine(client_context, peer), {}} {}

  // Carries bytes until neither end has any left.
  void run(size_t piece = SIZE_MAX) {
    while (true) {
      to_server += client.take();
      to_client += server.take();
      const size_t before = to_server.size() + to_client.size();
      if (before == 0) return;
      to_server = server.feed(to_server, piece);
      to_client = client.feed(to_client, piece);
      const bool quiet = client.engine.output().empty() && server.engine.output().empty();
      if (quiet && to_server.size() + to_client.size() == before) return;  // nobody takes them
    }
  }

  End server;
  End client;
  std::string to_server;
  std::string to_client;
};

}
