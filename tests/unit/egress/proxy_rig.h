#pragma once
// What tests of the explicit proxy share: two servers' addresses, and a client that says anything.

#include <gmock/gmock.h>

#include "mvm/base/text.h"
#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {

inline constexpr const char* kA = "93.184.216.34";
inline constexpr const char* kB = "93.184.216.35";
inline constexpr const char* kB6 = "2606:2800:220:1::1";
inline constexpr const char* kProxy = "http://100.127.255.1:3128";

// Says which server it is, and what it was asked.
inline constexpr const char* kServer = R"(
import http.server, socket, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.requestline, sorted(k.lower() for k in self.headers), flush=True)
  def do_GET(self):
    text = '%s %s %s\n' % (sys.argv[4], self.headers.get('Host'), self.path)
    self.send_response(200); self.send_header('Content-Length', str(len(text))); self.end_headers()
    self.wfile.write(text.encode())
class S(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = S((sys.argv[1], int(sys.argv[2])), H)
if sys.argv[3]:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

// Sends what it is told to the proxy in one piece, and prints what comes back, until it closes.
inline constexpr const char* kSay = R"(
import socket, sys
for words in sys.argv[1:]:
  s = socket.create_connection(('100.127.255.1', 3128)); got = b''
  try:
    s.sendall(words.encode('latin1').decode('unicode_escape').encode('latin1'))
    if not words.startswith('CONNECT'): s.shutdown(socket.SHUT_WR)
    while (part := s.recv(65536)): got += part
  except ConnectionResetError: got += b'RESET'
  print(got.decode('latin1').replace('\r\n', '|').replace('\n', '/'))
)";

class ExplicitProxy : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kA);
    own_address(kB);
    resolver_.add("a.example", kA);
    resolver_.add("b.example", kB);
    settings_.http_proxy = {{ip("100.127.255.1"), 3128}, {ip("fd6d:766d::1"), 3128}};
  }
  Program& serve_as(const std::string& word, const std::string& address, uint16_t port,
                    const std::string& certificate_path = "") {
    return serve(
        {"python3", "-u", "-c", kServer, address, std::to_string(port), certificate_path, word},
        {ip(address), port});
  }
  Program& serve_https(const std::string& host, const std::string& address) {
    const std::string path = certificate(host);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    return serve_as(host, address, 443, path);
  }
  Program::Exit curl(std::vector<std::string> words) {
    std::vector<std::string> argv{"curl", "-sS", "-x", kProxy};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv);
  }
  // One line for each of `words`.
  std::string say(std::vector<std::string> words) {
    std::vector<std::string> argv{"python3", "-c", kSay};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  bool told_of_the_end() {
    return eventually([&] { return !events_of(EventKind::End).empty(); });
  }
};

}
