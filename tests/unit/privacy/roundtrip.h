#pragma once
// The clients and servers of roundtrip_test.cc, in Python.

#include <string>

namespace mvm::egress {

// Codings that Python's library has not.
inline constexpr const char* kCodings = R"(
def library(name): return ctypes.CDLL('lib%s.so.1' % name)
def brotli(data):
  out, n = ctypes.create_string_buffer(len(data) + 1024), ctypes.c_size_t(len(data) + 1024)
  assert library('brotlienc').BrotliEncoderCompress(5, 22, 0, ctypes.c_size_t(len(data)), data, ctypes.byref(n), out)
  return out.raw[:n.value]
def unbrotli(data):
  out, n = ctypes.create_string_buffer(1 << 16), ctypes.c_size_t(1 << 16)
  assert library('brotlidec').BrotliDecoderDecompress(ctypes.c_size_t(len(data)), data, ctypes.byref(n), out) == 1
  return out.raw[:n.value]
def zstd(data, name='ZSTD_compress', *level):
  call, out = getattr(library('zstd'), name), ctypes.create_string_buffer(1 << 16)
  call.restype = ctypes.c_size_t
  n = call(out, ctypes.c_size_t(1 << 16), data, ctypes.c_size_t(len(data)), *level); assert n < 1 << 16
  return out.raw[:n]
)";

// Every request's header X-How says what is to be done with what it brought, in its body or in its
// trailers, and X-As in which form the answer comes. Speaks HTTP/2 with who offers it.
inline constexpr const char* kServer = R"(
import base64, ctypes, hashlib, http.server, gzip, json, socket, socketserver, ssl, sys, threading, time, urllib.parse, zlib
import h2.config, h2.connection, h2.events
kept = []
def change(how, values):
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
def values_of(headers, body, trailers):
  if trailers: return [trailers['x-value-%d' % i] for i in range(len(trailers))]
  if headers.get('content-encoding') == 'gzip': body = gzip.decompress(body)
  type = headers.get('content-type', '')
  if type.startswith('application/json'): return strings(json.loads(body))
  if type.startswith('application/x-ndjson'): return [json.loads(line)['v'] for line in body.splitlines()]
  return body.decode().split('\n')
# All that are in it, also in JSON in a string.
def strings(value):
  if isinstance(value, str): return strings(json.loads(value)) if value[:1] in ('[', '{') else [value]
  return [s for v in (value.values() if isinstance(value, dict) else value) for s in strings(v)]
# Fields, pieces of the body, trailers.
def answer(headers, body, trailers):
  form = headers.get('x-as', 'json')
  values = change(headers.get('x-how', 'echo'), values_of(headers, body, trailers))
  fields, behind, type, step = [], [], 'application/json', None
  if form in ('json', 'gzip', 'deflate', 'br', 'zstd', 'escaped', 'bytes'):
    text = json.dumps({'values': values}).encode()
    if form == 'escaped': text = text.replace(b'/', b'\\/')
    if form == 'bytes': step = 1
  elif form == 'text': text = '\n'.join(values).encode(); type = 'text/plain'; step = 7
  elif form in ('header', 'trailer'): text = b'-'; type = 'text/plain'
  elif form == 'utf16': text = json.dumps({'values': values}).encode('utf-16'); type += '; charset=utf-16'; step = 5
  elif form == 'calls':
    call = {'name': 'send', 'arguments': json.dumps({'values': values})}
    text = json.dumps({'choices': [{'message': {'tool_calls': [{'function': call}]}}]}).encode(); step = 11
  elif form == 'deltas':
    text = b''.join(b'event: content_block_delta\ndata: ' + json.dumps({'type': 'content_block_delta', 'index': 1,
      'delta': {'type': 'input_json_delta', 'partial_json': c}}).encode() + b'\n\n' for c in json.dumps({'values': values}))
    type = 'text/event-stream'; step = 83
  elif form in ('sse', 'ssebytes', 'gzipsse'):
    n = 1 if form == 'ssebytes' else 4
    whole = ' | '.join(values) + ' .'
    parts = [whole[i:i + n] for i in range(0, len(whole), n)]
    events = [b'data: ' + json.dumps({'choices': [{'index': 0, 'delta': {'content': p}}]}).encode() + b'\n\n'
              for p in parts] + [b'data: [DONE]\n\n']
    text = b''.join(events); type = 'text/event-stream'; step = 61
  elif form == 'lines':
    whole = ' | '.join(values) + ' .'
    text = b''.join(json.dumps({'response': whole[i:i + 5]}).encode() + b'\n' for i in range(0, len(whole), 5))
    type = 'application/x-ndjson'; step = 33
  listed = [('x-value-%d' % i, v) for i, v in enumerate(values)]
  if form == 'header': fields = listed
  if form == 'trailer': behind = listed
  if form in ('gzip', 'gzipsse'): text = gzip.compress(text); fields = [('content-encoding', 'gzip')]; step = 3
  if form == 'br': text = brotli(text); fields = [('content-encoding', 'br')]; step = 3
  if form == 'zstd': text = zstd(text, 'ZSTD_compress', 3); fields = [('content-encoding', 'zstd')]; step = 3
  if form == 'deflate': text = zlib.compress(text); fields = [('content-encoding', 'deflate')]; step = 3
  step = step or len(text)
  return [('content-type', type), *fields], [text[i:i + step] for i in range(0, len(text), step)], behind
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def body(self):
    if self.headers.get('Transfer-Encoding') != 'chunked':
      return self.rfile.read(int(self.headers.get('Content-Length', 0))), {}
    out, trailers = b'', {}
    while (n := int(self.rfile.readline().split(b';')[0], 16)):
      out += self.rfile.read(n); self.rfile.readline()
    while (line := self.rfile.readline().strip()):
      name, value = line.decode().split(':', 1); trailers[name.lower()] = value.strip()
    return out, trailers
  def do_POST(self):
    body, trailers = self.body()
    fields, pieces, behind = answer({k.lower(): v for k, v in self.headers.items()}, body, trailers)
    self.send_response(200)
    for name, value in fields: self.send_header(name, value)
    self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
    for part in pieces: self.wfile.write(b'%x\r\n' % len(part) + part + b'\r\n'); self.wfile.flush()
    self.wfile.write(b'0\r\n' + ''.join('%s: %s\r\n' % pair for pair in behind).encode() + b'\r\n')
  def do_GET(self):
    key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
    query = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
    values = change(self.headers.get('X-How', 'echo'), [query['value'][0], self.headers['X-Value']])
    head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Accept: ' +
            base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()]
    head += ['X-Value-%d: %s' % pair for pair in enumerate(values)]
    for byte in '\r\n'.join(head + ['', '']).encode():
      self.wfile.write(bytes([byte])); self.wfile.flush()
    self.close_connection = True
def serve_h2(s):
  c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding='utf-8'))
  c.initiate_connection(); s.sendall(c.data_to_send()); asked = {}
  while (data := s.recv(65536)):
    for e in c.receive_data(data):
      if isinstance(e, h2.events.RequestReceived): asked[e.stream_id] = [dict(e.headers), b'', {}]
      elif isinstance(e, h2.events.DataReceived):
        asked[e.stream_id][1] += e.data; c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
      elif isinstance(e, h2.events.TrailersReceived): asked[e.stream_id][2] = dict(e.headers)
      elif isinstance(e, h2.events.StreamEnded):
        fields, pieces, behind = answer(*asked.pop(e.stream_id))
        c.send_headers(e.stream_id, [(':status', '200'), *fields])
        for part in pieces: c.send_data(e.stream_id, part); s.sendall(c.data_to_send())
        if behind: c.send_headers(e.stream_id, behind, end_stream=True)
        else: c.end_stream(e.stream_id)
    s.sendall(c.data_to_send())
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
c.set_alpn_protocols(['h2', 'http/1.1'])
class Server(socketserver.ThreadingTCPServer):
  allow_reuse_address = True; daemon_threads = True
  def handle_error(self, *a): pass
  def finish_request(self, request, address):
    try:
      s = c.wrap_socket(request, server_side=True)
      serve_h2(s) if s.selected_alpn_protocol() == 'h2' else H(s, address, self)
    except (OSError, EOFError): pass
Server((sys.argv[1], int(sys.argv[2])), None).serve_forever()
)";

// Sends fresh values in each case, and counts what of them comes back.
inline constexpr const char* kClient = R"(
import ctypes, gzip, http.client, json, random, re, socket, ssl, sys, zlib
import h2.config, h2.connection, h2.events
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
def key():
  lines = [''.join(random.choice('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789') for _ in range(64)) for _ in '123']
  return '\n'.join(['-----BEGIN PRIVATE KEY-----', *lines, '-----END PRIVATE KEY-----'])
def quoted(): return 'Q"%06d\\%s' % (random.randrange(10 ** 6), random.choice(('next', 'unit', 'back')))
def context(*protocols):
  out = ssl.create_default_context(cafile=sys.argv[1]); out.set_alpn_protocols(protocols); return out
class Answer(http.client.HTTPResponse):
  def _read_and_discard_trailer(self): self.behind = http.client.parse_headers(self.fp)
# Both give (fields, body, trailers).
class Http1:
  def __init__(self):
    self.k = http.client.HTTPSConnection('api.example', context=context('http/1.1'), timeout=30)
    self.k.response_class = Answer
  def ask(self, headers, pieces, trailers):
    self.k.putrequest('POST', '/')
    for pair in headers.items(): self.k.putheader(*pair)
    if len(pieces) == 1 and not trailers:
      self.k.putheader('Content-Length', str(len(pieces[0]))); self.k.endheaders(pieces[0])
    else:
      self.k.putheader('Transfer-Encoding', 'chunked'); self.k.endheaders()
      for p in pieces: self.k.send(b'%x\r\n%s\r\n' % (len(p), p))
      self.k.send(b'0\r\n' + ''.join('%s: %s\r\n' % t for t in trailers).encode() + b'\r\n')
    r = self.k.getresponse(); body = r.read()
    return r.headers, body, getattr(r, 'behind', None)
class Http2:
  def __init__(self):
    self.s = context('h2').wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
    assert self.s.selected_alpn_protocol() == 'h2'
    self.c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8')); self.c.initiate_connection()
  def ask(self, headers, pieces, trailers):
    n = self.c.get_next_available_stream_id()
    if len(pieces) == 1 and not trailers: headers['Content-Length'] = str(len(pieces[0]))
    self.c.send_headers(n, [(':method', 'POST'), (':scheme', 'https'), (':authority', 'api.example'), (':path', '/'),
                            *((k.lower(), v) for k, v in headers.items())])
    for p in pieces: self.c.send_data(n, p); self.s.sendall(self.c.data_to_send())
    if trailers: self.c.send_headers(n, [(k.lower(), v) for k, v in trailers], end_stream=True)
    else: self.c.end_stream(n)
    self.s.sendall(self.c.data_to_send()); fields, body, behind, over = {}, b'', {}, False
    while not over:
      data = self.s.recv(65536); assert data
      for e in self.c.receive_data(data):
        if isinstance(e, h2.events.ResponseReceived): fields = dict(e.headers)
        elif isinstance(e, h2.events.DataReceived):
          body += e.data; self.c.acknowledge_received_data(e.flow_controlled_length, n)
        elif isinstance(e, h2.events.TrailersReceived): behind = dict(e.headers)
        elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)): over = True
      self.s.sendall(self.c.data_to_send())
    return fields, body, behind
connect = {'1': Http1, '2': Http2}[sys.argv[2]]
c = connect()
def ask(how, form, values, connection=None, request='json'):
  headers = {'X-How': how, 'X-As': form, 'Content-Type': 'application/json'}; trailers = []
  pieces = [json.dumps(values).encode()]
  if request == 'text': pieces = ['\n'.join(values).encode()]; headers['Content-Type'] = 'text/plain'
  if request == 'gzip': pieces = [gzip.compress(pieces[0])]; headers['Content-Encoding'] = 'gzip'
  if request == 'bytes': pieces = [pieces[0][i:i+1] for i in range(len(pieces[0]))]
  if request == 'nested': pieces = [json.dumps({'tool_calls': [{'arguments': json.dumps(values)}]}).encode()]
  if request == 'deep': pieces = [json.dumps([{'a': {'b': [{'c': v}]}} for v in values]).encode()]
  if request == 'lines':
    pieces = [json.dumps({'v': v}).encode() + b'\n' for v in values]; headers['Content-Type'] = 'application/x-ndjson'
  if request == 'trailers': pieces = [b'[]']; trailers = [('X-Value-%d' % i, v) for i, v in enumerate(values)]
  fields, data, behind = (connection or c).ask(headers, pieces, trailers)
  encoding = fields.get('content-encoding')
  if encoding == 'gzip': data = gzip.decompress(data)
  if encoding == 'deflate': data = zlib.decompress(data)
  if encoding == 'br': data = unbrotli(data)
  if encoding == 'zstd': data = zstd(data, 'ZSTD_decompress')
  if form in ('json', 'gzip', 'deflate', 'br', 'zstd', 'bytes', 'escaped'): return json.loads(data)['values']
  if form == 'utf16': return json.loads(data.decode('utf-16'))['values']
  if form == 'calls':
    return json.loads(json.loads(data)['choices'][0]['message']['tool_calls'][0]['function']['arguments'])['values']
  if form == 'deltas':
    events = [json.loads(e.split('data: ')[1]) for e in data.decode().split('\n\n') if e]
    return json.loads(''.join(e['delta']['partial_json'] for e in events))['values']
  if form == 'text': return data.decode().split('\n')
  if form in ('header', 'trailer'):
    where = fields if form == 'header' else behind
    return [v for k, v in where.items() if k.lower().startswith('x-value-')]
  if form in ('sse', 'ssebytes', 'gzipsse'):
    events = [e[6:] for e in data.decode().split('\n\n') if e]
    assert events.pop() == '[DONE]'
    return ''.join(json.loads(e)['choices'][0]['delta']['content'] for e in events)[:-2].split(' | ')
  if form == 'lines': return ''.join(json.loads(e)['response'] for e in data.decode().splitlines())[:-2].split(' | ')
# A WebSocket's handshake, a byte at a time.
def handshake(how, values):
  s = context('http/1.1').wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
  for byte in ('GET /?value=%s HTTP/1.1\r\nHost: api.example\r\nX-Value: %s\r\nX-How: %s\r\nUpgrade: websocket\r\n'
               'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'
               % (*values, how)).encode(): s.sendall(bytes([byte]))
  data = b''
  while b'\r\n\r\n' not in data and (part := s.recv(65536)): data += part
  return re.findall(r'X-Value-\d+: (.*)\r\n', data.decode())
exact = restored = other = cases = 0
def good(values, got, what):
  global exact, restored
  exact += len(values); hits = sum(a == b for a, b in zip(values, got)); restored += hits
  if hits != len(values): print('not restored:', what, len(values) - hits, file=sys.stderr)
def bad(values, got, what):
  global other, cases
  cases += 1; text = '\n'.join(got); hits = sum(v in text for v in values); other += hits
  if hits or not got: print('restored, or nothing came:', what, hits, file=sys.stderr)
forms = ['json', 'escaped', 'bytes', 'text', 'header', 'trailer', 'gzip', 'deflate', 'sse', 'ssebytes', 'lines']
others = ['br', 'zstd', 'gzipsse', 'utf16', 'calls', 'deltas']
changes = ('upper', 'truncate', 'begin', 'extend', 'base64', 'hex', 'reverse', 'spaced', 'percent')
for form in forms:
  for request in ('json', 'text', 'gzip', 'bytes', 'trailers'):
    v = fresh(); good(v, ask('echo', form, v, None, request), (form, request))
  v = fresh(); good(v, ask('delay', form, v), ('delay', form))
for form in others + ['json']:
  for request in ('json', 'nested', 'deep', 'lines'):
    # JSON in a string of JSON: what has to be escaped is escaped twice.
    v = fresh() + ([] if form == 'gzipsse' else [key(), quoted()])
    good(v, ask('echo', form, v, None, request), (form, request))
for form in forms + others:
  for how in changes:
    v = fresh(); bad(v, ask(how, form, v), (how, form))
# Replayed in a later exchange of the connection, and in another connection's.
v = fresh(); ask('keep', 'json', v)
for form in forms + others:
  bad(v, ask('replay', form, fresh()), ('replay', form))
  bad(v, ask('replay', form, fresh(), connect()), ('other flow', form))
if sys.argv[2] == '1':
  for how in ('echo', 'delay'): w = fresh()[:2]; good(w, handshake(how, w), ('websocket', how))
  for how in changes: w = fresh()[:2]; bad(w, handshake(how, w), ('websocket', how))
  bad(v, handshake('replay', fresh()[:2]), ('websocket', 'replay'))
print('exact %d restored %d other %d of %d' % (exact, restored, other, cases))
)";

// Behind the imports.
inline std::string with_codings(std::string script) {
  const std::string_view before = "\nimport h2.";
  return script.insert(script.find(before), kCodings);
}

}
