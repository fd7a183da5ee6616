#pragma once
// What tests of HTTP/2 share: a server that does what the path says, a client that does anything.

#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {

inline constexpr const char* kPublic = "93.184.216.34";

// Speaks HTTP/2 and nothing else; tells each request on its standard output, and does what the path
// says.
inline constexpr const char* kHttp2Server = R"(
const http2 = require('http2'), fs = require('fs'), crypto = require('crypto');
const [address, port, pem, streams] = process.argv.slice(1);
let written = 0, read = 0, next;
const server = http2.createSecureServer({cert: fs.readFileSync(pem), key: fs.readFileSync(pem + '.key'), maxSessionMemory: 100,
  settings: {maxConcurrentStreams: +(streams || 1000)}});
server.on('stream', (s, h) => {
  const path = h[':path'];
  console.log(h[':method'] + ' ' + path);
  s.on('error', e => console.log('error ' + s.rstCode));
  s.on('aborted', () => console.log('aborted ' + path + ' ' + s.rstCode));
  const say = text => { if (s.aborted || s.destroyed) return; s.respond({':status': 200, 'content-length': text.length}); s.end(text); };
  if (path == '/sum') {
    const sum = crypto.createHash('sha256');
    s.on('data', d => sum.update(d)); s.on('end', () => say(sum.digest('hex')));
  } else if (path == '/echo') {
    let body = ''; s.on('data', d => body += d);
    s.on('end', () => say(`${h['content-length']}|${h['x-filter']}|${body}`));
  } else if (path == '/early-die') {
    s.respond({':status': 413}); s.on('finish', () => setTimeout(() => s.session.socket.destroy(), 50)); s.end('too much');
  } else if (path == '/big') {
    s.respond({':status': 200}); let i = 0;
    const more = () => { while (i < 128) if (!s.write(Buffer.alloc(65536, i++))) return s.once('drain', more); s.end(); };
    more();
  } else if (path == '/endless') {
    s.respond({':status': 200});
    const more = () => { while (!s.destroyed) { written += 16384; if (!s.write(Buffer.alloc(16384))) return s.once('drain', more); } };
    more();
  } else if (path == '/written') say('' + written);
  else if (path == '/deaf') { s.respond({':status': 200}); s.write('listening'); }
  else if (path == '/sse') {
    s.respond({':status': 200, 'content-type': 'text/event-stream'}); let i = 0;
    const timer = setInterval(() => { s.write('data: ' + i++ + '\n\n'); if (i == 3) { clearInterval(timer); s.end(); } }, 200);
  } else if (path == '/events') {
    s.respond({':status': 200, 'content-type': 'text/event-stream'}); let i = 0;
    next = () => { s.write('data: ' + i++ + '\n\n'); if (i == 3) s.end(); }; next();
  } else if (path == '/another') { next(); say('');
  } else if (path == '/hints') { s.additionalHeaders({':status': 103, link: '</a>'}); say('hinted'); }
  else if (path == '/trailers') {
    s.respond({':status': 200}, {waitForTrailers: true});
    s.on('wantTrailers', () => s.sendTrailers({'x-sum': '7', 'x-te': h['te'] || 'none'})); s.end('body');
  } else if (path == '/none') { s.respond({':status': 204}, {endStream: true}); }
  else if (path == '/early') { s.respond({':status': 413}); s.on('finish', () => s.close(0)); s.end('too much'); }
  else if (path == '/malformed') { s.respond({':status': 200, 'content-length': 3}); s.end('too much'); }
  else if (path == '/reset') s.close(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
  else if (path == '/half-reset') { s.respond({':status': 200}); s.write('half'); s.on('data', () => s.destroy(new Error('half'))); }
  else if (path == '/die') s.session.socket.destroy();
  else if (path == '/half-die') { s.respond({':status': 200}); s.write('half'); s.on('data', () => s.session.socket.destroy()); }
  else if (path == '/goaway') { s.session.goaway(0); say('last'); }
  else say((h[':method'] == 'HEAD') ? '' : 'hello ' + path);
});
server.on('sessionError', () => {});
server.listen(+port, address);
)";

inline constexpr const char* kHttp2Client = R"(
import socket, ssl, sys, struct, time, h2.connection, h2.events, h2.errors, h2.config
def connect(protocols=('h2',)):
  c = ssl.create_default_context(cafile=sys.argv[1]); c.set_alpn_protocols(list(protocols))
  return c.wrap_socket(socket.create_connection(('api.example', 443)), server_hostname='api.example')
def frame(kind, flags, stream, body=b''):
  return struct.pack('>I', len(body))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + body
def field(name, value): return bytes([0, len(name)]) + name + bytes([len(value)]) + value
def block(path=b'/', method=b'GET', authority=b'api.example', more=b''):
  return (field(b':method', method) + field(b':scheme', b'https') + field(b':authority', authority) +
          field(b':path', path) + more)
PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0)
class Client:
  def __init__(self):
    self.s = connect(); self.c = h2.connection.H2Connection(h2.config.H2Configuration(
        validate_outbound_headers=False, normalize_outbound_headers=False))
    self.c.initiate_connection(); self.flush(); self.got = {}; self.goaway = None
  def flush(self): self.s.sendall(self.c.data_to_send())
  def ask(self, path, method='GET', authority='api.example', end=True, more=()):
    n = self.c.get_next_available_stream_id()
    self.c.send_headers(n, [(':method', method), (':scheme', 'https'), (':authority', authority), (':path', path), *more], end)
    self.got[n] = {'status': None, 'body': b'', 'trailers': None, 'end': False, 'reset': None, 'interim': []}
    self.flush(); return n
  def turn(self, acknowledge=True):
    data = self.s.recv(65536)
    if not data: raise EOFError
    for e in self.c.receive_data(data):
      g = self.got.get(getattr(e, 'stream_id', None))
      if isinstance(e, h2.events.InformationalResponseReceived): g['interim'].append(dict(e.headers)[b':status']); g['hint'] = dict(e.headers).get(b'link')
      elif isinstance(e, h2.events.ResponseReceived): g['status'] = int(dict(e.headers)[b':status']); g['headers'] = dict(e.headers)
      elif isinstance(e, h2.events.DataReceived):
        g['body'] += e.data
        if acknowledge: self.c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
      elif isinstance(e, h2.events.TrailersReceived): g['trailers'] = dict(e.headers)
      elif isinstance(e, h2.events.StreamEnded): g['end'] = True
      elif isinstance(e, h2.events.StreamReset): g['reset'] = int(e.error_code)
      elif isinstance(e, h2.events.ConnectionTerminated): self.goaway = e.error_code
    self.flush()
  # Ends what the server ends when it hears a word, after half of its answer has come.
  def half(self, path):
    n = self.ask(path, method='POST', end=False)
    while not self.got[n]['body']: self.turn()
    self.c.send_data(n, b'go'); self.flush(); return n
  def answer(self, n):
    while not self.got[n]['end'] and self.got[n]['reset'] is None: self.turn()
    return self.got[n]
)";

class Http2 : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    pem_ = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(pem_, 1 << 20)), pem_);
  }
  Program& serve_http2(const std::string& streams = "1000") {
    return serve({"node", "-e", kHttp2Server, kPublic, "443", pem_, streams}, {ip(kPublic), 443});
  }
  void start_proxy() {
    EgressTest::start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  Program::Exit curl(std::vector<std::string> words) {
    std::vector<std::string> argv{"curl", "-sS", "--http2", "--cacert", authority_};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv);
  }
  // A client in Python, with `connect()`, that sends what no library would.
  Program::Exit python(const std::string& code) {
    return guest({"/usr/bin/python3", "-c", std::string(kHttp2Client) + code, authority_});
  }
  std::string authority_;
  std::string pem_;
};

}
