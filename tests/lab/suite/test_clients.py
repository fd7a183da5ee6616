"""Programs that people use in a real guest, through the proxy to nginx and what is behind it: they do what they are for, and are told why not."""
import contextlib
import os
import pathlib
import subprocess
import tempfile

from harness import equal, expect, guest, has, mvm, sandbox, start
from test_network import PUBLIC, authority, internet, python

NGINX = """
daemon off; master_process off; user root; pid DIR/nginx.pid; error_log DIR/nginx.err;
events {}
http {
  access_log off; client_max_body_size 10m;
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
  server {
    listen ADDRESS:443 ssl http2; root DIR/www; ssl_certificate DIR/host.pem; ssl_certificate_key DIR/host.key;
    location /open/app/ {
      proxy_pass http://127.0.0.1:8001; proxy_http_version 1.1;
      proxy_set_header X-Version $server_protocol; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;
    }
    location /echo.Echo/ { grpc_pass grpc://127.0.0.1:8002; }
  }
}
"""

# Says the version, the method, the path and how many bytes came; echoes over a WebSocket; runs Git's own server.
APP = r"""
const http = require('http'), ws = require('ws'), {spawn} = require('child_process')
const folder = process.argv[1]
function git(q, r) {
  const [path, query] = q.url.slice('/open/app/git'.length).split('?')
  const env = {...process.env, GIT_PROJECT_ROOT: folder, GIT_HTTP_EXPORT_ALL: '1', PATH_INFO: path, QUERY_STRING: query || '',
    REQUEST_METHOD: q.method, CONTENT_TYPE: q.headers['content-type'] || '', HTTP_CONTENT_ENCODING: q.headers['content-encoding'] || '',
    GIT_PROTOCOL: q.headers['git-protocol'] || ''}
  const cgi = spawn('git', ['http-backend'], {env, stdio: ['pipe', 'pipe', 'inherit']}), parts = []
  q.pipe(cgi.stdin); cgi.stdout.on('data', d => parts.push(d))
  cgi.on('close', () => {
    const all = Buffer.concat(parts), end = all.indexOf('\r\n\r\n')
    const fields = all.subarray(0, end).toString().split('\r\n').map(line => line.split(': '))
    const status = fields.find(([k]) => k == 'Status')
    r.writeHead(status ? +status[1].split(' ')[0] : 200, Object.fromEntries(fields.filter(([k]) => k != 'Status')))
    r.end(all.subarray(end + 4))
  })
}
const server = http.createServer((q, r) => {
  if (q.url.startsWith('/open/app/git/')) return git(q, r)
  let got = 0
  q.on('data', d => got += d.length)
  q.on('end', () => r.end([q.headers['x-version'], q.method, q.url, got].join(' ') + '\n'))
})
new ws.WebSocketServer({server, path: '/open/app/ws'}).on('connection', s => s.on('message', m => s.send('again ' + m)))
server.listen(8001, '127.0.0.1', () => console.log('ready'))
"""

GRPC = r"""
import grpc
from concurrent import futures
handlers = {"Unary": grpc.unary_unary_rpc_method_handler(lambda r, c: r[::-1]),
            "Count": grpc.unary_stream_rpc_method_handler(lambda r, c: (b"%d" % i for i in range(int(r))))}
class All(grpc.GenericRpcHandler):
  def service(self, d): return handlers.get(d.method.rsplit("/", 1)[1])
s = grpc.server(futures.ThreadPoolExecutor(4)); s.add_generic_rpc_handlers((All(),)); s.add_insecure_port("127.0.0.1:8002")
s.start(); print("ready", flush=True); s.wait_for_termination()
"""

# A package for apt, one for pip, and a repository for Git.
FILES = r"""
mkdir -p www/open/deb www/open/simple/tiny tiny/DEBIAN
python3 - <<'END'
import zipfile
with zipfile.ZipFile("www/open/simple/tiny/tiny-1.0-py3-none-any.whl", "w") as wheel:
  wheel.writestr("tiny.py", "answer = 42\n")
  wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
  wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
  wheel.writestr("tiny-1.0.dist-info/RECORD", "")
END
echo '<a href="tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>' >www/open/simple/tiny/index.html
head -c 4194304 /dev/zero >www/open/large
printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\nDescription: t\n' >tiny/DEBIAN/control
dpkg-deb --build tiny www/open/deb/tiny_1.0_all.deb >/dev/null
(cd www/open/deb; { cat ../../../tiny/DEBIAN/control; printf 'Filename: ./tiny_1.0_all.deb\nSize: %s\nSHA256: %s\n' \
  "$(stat -c %s tiny_1.0_all.deb)" "$(sha256sum tiny_1.0_all.deb | cut -d' ' -f1)"; } >Packages)
export HOME=$PWD GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
git init -q -b main work; echo one >work/a; git -C work add a; git -C work commit -qm one; git clone -q --bare work repo.git
git -C repo.git config http.receivepack true
"""

PYTHON = r"""
import asyncio, json, urllib.error, urllib.request
import aiohttp, grpc, httplib2, requests
app, shut, body = "https://page.example/open/app/", "https://page.example/shut", bytes(1 << 20)
print(urllib.request.urlopen(urllib.request.Request(app + "u", data=body), timeout=60).read().decode().strip())
try: urllib.request.urlopen(shut, timeout=60)
except urllib.error.HTTPError as error: print(error.code, json.load(error)["error"]["reason"])
with requests.Session() as session:
  print(session.post(app + "r", data=iter([body[:1000], body[1000:]]), timeout=60).text.strip())
  print(session.get(shut, timeout=60).json()["error"]["reason"])
print([head.status for head, _ in map(httplib2.Http(timeout=60).request, (app + "l", shut))])
async def later():
  async with aiohttp.ClientSession() as session:
    print(sorted([(await answer.text()).strip() for answer in await asyncio.gather(*[session.get(app + str(i)) for i in range(4)])]))
    async with session.get(shut) as answer: print((await answer.json())["error"]["reason"])
asyncio.run(later())
with grpc.secure_channel("page.example:443", grpc.ssl_channel_credentials()) as channel:
  print(channel.unary_unary("/echo.Echo/Unary")(b"abc"), list(channel.unary_stream("/echo.Echo/Count")(b"3")))
  try: channel.unary_unary("/admin.Admin/Wipe")(b"")
  except grpc.RpcError as error: print(error.code().name)
"""

NODE = r"""
const http2 = require('http2'), ws = require('ws'), undici = require('undici')
const app = 'https://page.example/open/app/'
;(async () => {
  console.log((await (await fetch(app + 'f', {method: 'POST', body: Buffer.alloc(1 << 20)})).text()).trim())
  console.log((await (await fetch('https://page.example/shut')).json()).error.reason)
  const pool = new undici.Pool('https://page.example', {connections: 1, pipelining: 4})
  const ask = async (path, body) => (await pool.request({path, method: body ? 'POST' : 'GET', body})).body.text()
  for (const text of await Promise.all([1, 2, 3].map(i => ask('/open/app/' + i, Buffer.alloc(i))))) console.log(text.trim())
  console.log(JSON.parse(await ask('/shut')).error.reason); await pool.close()
  const session = http2.connect(app), r = session.request({':path': '/open/app/h'}); let text = ''
  for await (const d of r) text += d
  console.log(text.trim()); session.close()
  const socket = new ws(app.replace('https', 'wss') + 'ws')
  socket.on('open', () => socket.send('hello'))
  socket.on('message', m => { console.log(m.toString()); socket.close() })
})()
"""

GIT = """
cd /tmp; git clone -q https://page.example/open/app/git/repo.git clone; cd clone; cat a
git config user.name t; git config user.email t@t; echo two >a; git commit -qam two
git push -q 2>/tmp/said && exit 9; grep -o 'error: 403' /tmp/said
"""

APT = """
mkdir -p /tmp/apt/etc /tmp/apt/lists/partial /tmp/apt/cache/archives/partial; : >/tmp/apt/status; cd /tmp/apt
apt="apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc=/tmp/apt/etc -o Dir::Etc::parts=/nowhere -o Dir::State::lists=/tmp/apt/lists
  -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache -o APT::Architecture=amd64 -o Acquire::Retries=0"
echo 'deb [trusted=yes] https://page.example/open/deb ./' >etc/sources.list
$apt update; $apt download tiny; sha256sum <tiny_1.0_all.deb | cut -d' ' -f1
"""

PIP = """
pip() { python3 -m pip --disable-pip-version-check --no-cache-dir --retries 0 "$@"; }
pip install -q --no-deps --target /tmp/site --index-url https://page.example/open/simple tiny >/dev/null 2>&1
PYTHONPATH=/tmp/site python3 -c 'import tiny; print(tiny.answer)'
pip download https://page.example/shut/tiny-1.0-py3-none-any.whl 2>&1 | grep -o 'HTTP error 403' | head -n 1
"""


# The same by a proxy that the program is told of.
PROXIED = r"""
import json, sys, urllib.error, urllib.request
proxy = "http://100.127.255.1:3128"
get = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy})).open
print(get("https://page.example/open/app/p", timeout=60).read().decode().strip())
for url in ("https://page.example/shut", "http://other.example/"):
    try: get(url, timeout=60)
    except urllib.error.HTTPError as error: print(error.code, json.load(error)["error"]["reason"])
try: get("https://other.example/", timeout=60)
except urllib.error.URLError as error: print(error.reason)
"""


@contextlib.contextmanager
def servers(folder):
    subprocess.run(["sh", "-ec", FILES], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    pathlib.Path(folder, "nginx.conf").write_text(NGINX.replace("DIR", folder).replace("ADDRESS", PUBLIC), encoding="utf-8")
    started = [subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "NODE_PATH": "/usr/share/nodejs"})
               for words in (["nginx", "-c", folder + "/nginx.conf"], ["node", "-e", APP, folder], ["/usr/bin/python3", "-c", GRPC])]
    try:
        for program in started[1:]:
            equal(program.stdout.readline(), "ready\n", "a server")
        yield
    finally:
        for program in started:
            program.kill()
            program.wait()


def test_clients_of_every_kind():
    """curl, Python, gRPC, Node, WebSockets, Git, pip and apt: bodies pass both ways, a refusal says its reason, and is told as it happens."""
    with internet() as names, tempfile.TemporaryDirectory() as folder, authority("page.example", folder), servers(folder):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nresolvers = ["127.0.0.1:{names.port}"]\n[[network.routes]]\nhost = "page.example"\nrules = [\n'
                       '{ method = "POST", path = "/open/app/git/repo.git/git-receive-pack", outcome = "deny" },\n'
                       '{ path = "/open/**", outcome = "allow" },\n{ path = "/echo.Echo/*", outcome = "allow" }]\n')
        # What a guest's commands find in their environment is nothing that the proxy reads.
        with sandbox("clients", "-f", manifest, "-e", "MVM_NETWORK_MODE=audit", "-e", "MARK=for-the-guest-alone", image="clients"):
            equal(guest("clients", "echo $MVM_NETWORK_MODE $MARK"), "audit for-the-guest-alone")
            for environment in pathlib.Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):
                    expect(b"for-the-guest-alone" not in environment.read_bytes(), environment)
            follower = start("logs", "clients", "--egress", "-f", text=True)
            for option, version in (("--http1.1", "1.1"), ("--http2", "2.0")):
                curl = f"curl -sS {option} "
                equal(guest("clients", f"head -c 1048576 /dev/zero | {curl} -T - https://page.example/open/app/b"),
                      f"HTTP/{version} PUT /open/app/b 1048576")
                equal(guest("clients", curl + "https://page.example/open/large | wc -c"), str(4 << 20))
                has(guest("clients", curl + "-w ' %{http_code}' https://page.example/shut"), "route_denied")
            # The follower tells it while the sandbox runs: read until it has.
            for line in follower.stdout:
                if "/shut" in line:
                    has(line, "route_denied")
                    break
            else:
                equal("", "/shut", "what the follower told")
            follower.kill()
            equal(python("clients", PYTHON), "\n".join((
                "HTTP/1.1 POST /open/app/u 1048576", "403 route_denied", "HTTP/1.1 POST /open/app/r 1048576", "route_denied", "[200, 403]",
                str([f"HTTP/1.1 GET /open/app/{i} 0" for i in range(4)]), "route_denied",
                "b'cba' [b'0', b'1', b'2']", "PERMISSION_DENIED")))
            node = mvm("exec", "clients", "-e", "NODE_PATH=/usr/share/nodejs", "--", "node", "-e", NODE)
            equal(node.out, "HTTP/1.1 POST /open/app/f 1048576\nroute_denied\n" +
                  "".join(f"HTTP/1.1 POST /open/app/{i} {i}\n" for i in (1, 2, 3)) + "route_denied\nHTTP/2.0 GET /open/app/h 0\nagain hello\n", str(node))
            equal(guest("clients", GIT), "one\nerror: 403")
            deb = subprocess.run(["sha256sum", folder + "/www/open/deb/tiny_1.0_all.deb"], check=True, capture_output=True, text=True)
            equal(guest("clients", PIP), "42\nHTTP error 403")
            equal(guest("clients", APT), deb.stdout.split()[0])
            equal(guest("clients", "curl -sS -x http://100.127.255.1:3128 --noproxy '' https://page.example/open/app/a"),
                  "HTTP/2.0 GET /open/app/a 0")
            equal(python("clients", PROXIED),
                  "HTTP/1.1 GET /open/app/p 0\n403 route_denied\n403 policy_denied\nTunnel connection failed: 403 Forbidden")
