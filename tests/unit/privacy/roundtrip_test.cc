// The round-trip matrix: real clients and servers on both sides of the proxy, and a server that
// does with the tokens it got whatever a server may. Exact tokens of an exchange come back as the
// values; nothing else does.

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

// Every request's header X-How says what is to be done with what it brought, and X-As in which
// form the answer comes.
constexpr const char* kServer = R"(
import base64, hashlib, http.server, gzip, json, ssl, sys, time, urllib.parse, zlib
kept = []
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def body(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      out = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        out += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline(); return out
    return self.rfile.read(int(self.headers.get('Content-Length', 0)))
  def values(self):
    body = self.body()
    if self.headers.get('Content-Encoding') == 'gzip': body = gzip.decompress(body)
    if self.headers.get('Content-Type', '').startswith('application/json'): return json.loads(body)
    return body.decode().split('\n')
  def change(self, how, values):
    if how == 'upper': return [v.upper() if v.upper() != v else v[1:] for v in values]
    if how == 'truncate': return [v[:-1] for v in values]
    if how == 'begin': return [v[len(v) // 2:] for v in values]
    if how == 'extend': return [v + '7' if v[-1].isdigit() else v + 'x' for v in values]
    if how == 'base64': return [base64.b64encode(v.encode()).decode() for v in values]
    if how == 'hex': return [v.encode().hex() for v in values]
    if how == 'reverse': return [v[::-1] for v in values]
    if how == 'spaced': return [' '.join(v) for v in values]
    if how == 'percent': return [''.join('%%%02x' % b for b in v.encode()) for v in values]
    if how == 'keep': kept.extend(values); return ['kept']
    if how == 'replay': return list(kept)
    if how == 'delay': time.sleep(0.05); return values
    return values
  def do_POST(self):
    how, form = self.headers.get('X-How', 'echo'), self.headers.get('X-As', 'json')
    values = self.change(how, self.values())
    step = 1
    if form in ('json', 'gzip', 'deflate', 'escaped'):
      text = json.dumps({'values': values}).encode(); type = 'application/json'
      if form == 'escaped': text = text.replace(b'/', b'\\/')
      step = len(text)
    elif form == 'bytes': text = json.dumps({'values': values}).encode(); type = 'application/json'
    elif form == 'text': text = '\n'.join(values).encode(); type = 'text/plain'; step = 7
    elif form == 'header': text = b''; type = 'text/plain'
    elif form in ('sse', 'ssebytes'):
      n = 4 if form == 'sse' else 1
      whole = ' | '.join(values) + ' .'
      parts = [whole[i:i + n] for i in range(0, len(whole), n)]
      events = [b'data: ' + json.dumps({'choices': [{'index': 0, 'delta': {'content': p}}]}).encode() + b'\n\n'
                for p in parts] + [b'data: [DONE]\n\n']
      text = b''.join(events); type = 'text/event-stream'; step = 61
    elif form == 'lines':
      whole = ' | '.join(values) + ' .'
      text = b''.join(json.dumps({'response': whole[i:i + 5]}).encode() + b'\n' for i in range(0, len(whole), 5))
      type = 'application/x-ndjson'; step = 33
    self.send_response(200); self.send_header('Content-Type', type)
    if form == 'header':
      for i, v in enumerate(values): self.send_header('X-Value-%d' % i, v)
    if form == 'gzip': text = gzip.compress(text); self.send_header('Content-Encoding', 'gzip')
    if form == 'deflate': text = zlib.compress(text); self.send_header('Content-Encoding', 'deflate')
    if form in ('gzip', 'deflate'): step = 3
    self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
    for i in range(0, len(text), step):
      part = text[i:i + step]
      self.wfile.write(b'%x\r\n' % len(part) + part + b'\r\n'); self.wfile.flush()
    self.wfile.write(b'0\r\n\r\n')
  def do_GET(self):
    key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
    self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
    self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
    query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
    self.send_header('X-Value-0', query['value'][0]); self.send_header('X-Value-1', self.headers['X-Value'])
    self.end_headers(); self.close_connection = True
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

// Sends fresh values in each case, and counts what of them comes back.
constexpr const char* kClient = R"(
import gzip, http.client, json, random, re, socket, ssl, sys
random.seed(11)
def luhn(d):
  s = 0
  for i, c in enumerate(reversed(d)):
    n = int(c) * (2 if i % 2 == 0 else 1); s += n - 9 if n > 9 else n
  return str(-s % 10)
def fresh():
  n = lambda k: ''.join(random.choice('123456789') for _ in range(k))
  card = '4' + n(14); card += luhn(card)
  account = n(18); iban = 'DE%02d' % (98 - int(account + '131400') % 97) + account
  return ['user%s@mail%s.example.com' % (n(5), n(2)), '+1 415-555-2' + n(3), card,
          '%s-%s-%s' % (random.choice(('123', '234', '345')), n(2), n(4)), iban]
context = ssl.create_default_context(cafile=sys.argv[1])
def connect(): return http.client.HTTPSConnection('api.example', context=context, timeout=30)
c = connect()
def ask(how, form, values, connection=None, request='json'):
  k = connection or c
  body = json.dumps(values); headers = {'X-How': how, 'X-As': form, 'Content-Type': 'application/json'}
  if request == 'text': body = '\n'.join(values); headers['Content-Type'] = 'text/plain'
  if request == 'gzip': body = gzip.compress(body.encode()); headers['Content-Encoding'] = 'gzip'
  if request == 'bytes':
    whole = body; body = (whole[i:i+1].encode() for i in range(len(whole)))
  k.request('POST', '/', body, headers, encode_chunked=(request == 'bytes'))
  r = k.getresponse(); data = r.read(); encoding = r.getheader('Content-Encoding')
  if encoding == 'gzip': data = gzip.decompress(data)
  if encoding == 'deflate': import zlib; data = zlib.decompress(data)
  if form in ('json', 'gzip', 'deflate', 'bytes', 'escaped'): return json.loads(data)['values']
  if form == 'text': return data.decode().split('\n')
  if form == 'header': return [r.getheader('X-Value-%d' % i) for i in range(len(values))]
  if form in ('sse', 'ssebytes'):
    events = [e[6:] for e in data.decode().split('\n\n') if e]
    assert events.pop() == '[DONE]'
    return ''.join(json.loads(e)['choices'][0]['delta']['content'] for e in events)[:-2].split(' | ')
  if form == 'lines': return ''.join(json.loads(e)['response'] for e in data.decode().splitlines())[:-2].split(' | ')
exact = restored = other = cases = 0
def good(values, got, what):
  global exact, restored
  exact += len(values); hits = sum(a == b for a, b in zip(values, got)); restored += hits
  if hits != len(values): print('not restored:', what, len(values) - hits, file=sys.stderr)
def bad(values, got, what):
  global other, cases
  cases += 1; text = '\n'.join(got); hits = sum(v in text for v in values); other += hits
  if hits: print('restored:', what, hits, file=sys.stderr)
forms = ['json', 'escaped', 'bytes', 'text', 'header', 'gzip', 'deflate', 'sse', 'ssebytes', 'lines']
for form in forms:
  for request in ('json', 'text', 'gzip', 'bytes'):
    v = fresh(); good(v, ask('echo', form, v, None, request), (form, request))
  v = fresh(); good(v, ask('delay', form, v), ('delay', form))
for form in forms:
  for how in ('upper', 'truncate', 'begin', 'extend', 'base64', 'hex', 'reverse', 'spaced', 'percent'):
    v = fresh(); bad(v, ask(how, form, v), (how, form))
# Replayed in a later exchange of the connection, and in another connection's.
v = fresh(); ask('keep', 'json', v)
for form in forms:
  bad(v, ask('replay', form, fresh()), ('replay', form))
  bad(v, ask('replay', form, fresh(), connect()), ('other flow', form))
# A WebSocket's handshake.
v = fresh()[:2]; s = context.wrap_socket(socket.create_connection(('api.example', 443)), server_hostname='api.example')
s.sendall(('GET /?value=%s HTTP/1.1\r\nHost: api.example\r\nX-Value: %s\r\nUpgrade: websocket\r\n'
           'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
           % (v[0], v[1])).encode())
data = b''
while b'\r\n\r\n' not in data and (part := s.recv(65536)): data += part
text = data.decode(); good(v, re.findall(r'X-Value-\d: (.*)\r\n', text), 'websocket')
print('exact %d restored %d other %d of %d' % (exact, restored, other, cases))
)";

class RoundTrip : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    const std::string path = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    serve({"python3", "-u", "-c", kServer, kPublic, "443", path}, {ip(kPublic), 443});
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
  std::string authority_;
  std::vector<privacy::Note> notes_;
};

TEST_F(RoundTrip, ExactTokensComeBackAndNothingElse) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.on_undecodable = "allow";  // the WebSocket
  protect(config);
  const auto exit = guest({"python3", "-c", kClient, authority_});
  EXPECT_EQ(exit.out, "exact 252 restored 252 other 0 of 110\n") << exit.err;
  // For the benchmark.
  RecordProperty("roundtrip", exit.out);
  std::printf("protect.roundtrip: %s", exit.out.c_str());
  uint64_t mismatches = 0;
  for (const privacy::Note& note : notes_)
    if (note.kind == privacy::Note::Kind::Mismatched) mismatches += note.count;
  EXPECT_GT(mismatches, 50U);
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

}
}
