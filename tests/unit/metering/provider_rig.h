#pragma once
// A provider and a client of it with the proxy between them, which meters.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "mvm/crypto/trust.h"
#include "mvm/http/coding.h"
#include "mvm/metering/filter.h"
#include "mvm/sys/file.h"

#include "unit/egress/rig.h"

namespace mvm::metering {

inline constexpr const char* kPublic = "93.184.216.34";
inline constexpr const char* kHost = "api.openai.com";

// Answers with the file and type that the query names, with "asked" in its place where the request
// asks for a stream's usage; "cut" ends in the middle, "hold" says nothing until the client goes
// away. What it was asked is in the answer's head.
inline constexpr const char* kProvider = R"(
import http.server, os, ssl, sys, urllib.parse
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def do_POST(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      body = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        body += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline()
    else: body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
    q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
    asked = b'"include_usage":true' in body
    answer = open(os.path.join(sys.argv[4], q['asked'] if asked and 'asked' in q else q['file']), 'rb').read()
    if 'times' in q: answer = answer * int(q['times'])
    self.send_response(int(q.get('status', 200)))
    if type := q.get('type', 'application/json'): self.send_header('Content-Type', type)
    self.send_header('X-Encoding', str(self.headers.get('Accept-Encoding')))
    self.send_header('X-Asked', str(asked))
    if 'coding' in q: self.send_header('Content-Encoding', q['coding'])
    if 'event-stream' in q.get('type', ''):
      self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
      stop = len(answer) // 2 if 'cut' in q else len(answer)
      for i in range(0, stop, 50):
        piece = answer[i:min(i + 50, stop)]
        self.wfile.write(b'%x\r\n%s\r\n' % (len(piece), piece)); self.wfile.flush()
      if 'hold' in q: self.rfile.read(1)
      if 'cut' in q or 'hold' in q: self.close_connection = True; return
      self.wfile.write(b'0\r\n\r\n')
    else:
      self.send_header('Content-Length', str(len(answer))); self.end_headers()
      self.wfile.write(answer)
  do_GET = do_POST
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

inline constexpr std::array kCodings{http::Coding::Gzip, http::Coding::Deflate,
                                     http::Coding::Brotli, http::Coding::Zstd};

class Metering : public egress::EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add(kHost, kPublic);
  }

  // Metering alone turns on looking into the providers' connections.
  void start(meter::Terms terms, bool inject = false) {
    const std::string path = certificate(kHost);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    serve({"python3", "-u", "-c", kProvider, kPublic, "443", path, MVM_FIXTURES},
          {egress::ip(kPublic), 443});
    ledger_.emplace(std::move(terms), meter::Account{},
                    [](const meter::Record&, const meter::Account&) { return true; });
    allow_host(kHost);
    const std::vector<std::string> words{"openai"};
    const meter::Catalogue catalogue(words);
    settings_.policy.inspect = inspections(catalogue);
    settings_.filters.push_back(std::make_shared<MeterSource>(
        catalogue, inject, *ledger_,
        MeterSource::Watcher{[this](const UsageNotice& notice) { notices_.push_back(notice); },
                             [this](std::string_view model) { return model == withheld_; }}));
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }

  std::vector<std::string> request(const std::string& query, const std::string& body,
                                   const std::string& path = "/v1/chat/completions") {
    return {"curl",
            "-sS",
            "-i",
            "-N",
            "-m",
            "30",
            "--cacert",
            authority_,
            "--compressed",
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            body,
            "https://" + std::string(kHost) + path + "?" + query};
  }
  std::string post(const std::string& query, const std::string& body = R"({"model":"gpt-4o"})",
                   const std::string& path = "/v1/chat/completions") {
    return guest(request(query, body, path)).out;
  }
  static std::string fixture(const std::string& name) {
    return std::string(
        as_text(sys::read_file(std::string(MVM_FIXTURES) + "/" + name, size_t{1} << 20)));
  }
  // A file of this test's own with `text` in a content coding.
  std::string encoded(const std::string& text, http::Coding coding) const {
    http::Encoder encoder(std::vector<http::Coding>{coding});
    Bytes out;
    encoder.write(as_bytes(text), false, out);
    encoder.finish(out);
    static int files = 0;
    return file("encoded-" + std::to_string(++files), std::string(as_text(out)));
  }
  meter::Counts counted() const { return ledger_->account().sum(); }
  // The filter ends with the exchange, which may be a turn after the client has its answer.
  bool settled() {
    return eventually([&] { return ledger_->account().open.empty(); });
  }

  std::optional<meter::Ledger> ledger_;
  std::vector<UsageNotice> notices_;
  std::string withheld_;
  std::string authority_;
};

inline constexpr const char* kStream = "file=openai-chat.sse&type=text/event-stream";

}
