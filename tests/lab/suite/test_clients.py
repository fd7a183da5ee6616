"""Programs of a real guest, through the proxy to a server of both versions of HTTP: they do what they are for, and are told why not."""
import contextlib
import subprocess
import tempfile

from harness import equal, guest, has, sandbox
from test_network import PUBLIC, authority, internet, python

# Says the version, the method, the path and how many bytes came.
SERVER = r"""
const http2 = require('http2'), fs = require('fs')
const [address, folder] = process.argv.slice(1)
http2.createSecureServer({cert: fs.readFileSync(folder + '/host.pem'), key: fs.readFileSync(folder + '/host.key'), allowHTTP1: true},
  (q, r) => {
    let got = 0
    q.on('data', d => got += d.length)
    q.on('end', () => r.end(q.url == '/open/large' ? Buffer.alloc(4 << 20, 'x') : [q.httpVersion, q.method, q.url, got].join(' ') + '\n'))
  }).listen(443, address, () => console.log('ready'))
"""

POST = r"""
import hashlib, json, sys, urllib.error, urllib.request
print(urllib.request.urlopen(urllib.request.Request("https://page.example/open/p", data=bytes(1 << 20)), timeout=60).read().decode().strip())
try:
    urllib.request.urlopen("https://page.example/shut", timeout=60)
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["error"]["reason"])
"""


@contextlib.contextmanager
def server(folder):
    program = subprocess.Popen(["node", "-e", SERVER, PUBLIC, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        equal(program.stdout.readline(), "ready\n", "the server")
        yield
    finally:
        program.kill()
        program.wait()


def test_curl_and_python_through_the_proxy():
    """curl by HTTP/1.1 and HTTP/2, and Python: bodies pass both ways, and a refusal says its reason."""
    with internet() as names, tempfile.TemporaryDirectory() as folder, authority("page.example", folder), server(folder):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nresolvers = ["127.0.0.1:{names.port}"]\n'
                       '[[network.routes]]\nhost = "page.example"\nrules = [{ path = "/open/**", outcome = "allow" }]\n')
        with sandbox("clients", "-f", manifest):
            for option, version in (("--http1.1", "1.1"), ("--http2", "2.0")):
                curl = f"curl -sS {option} "
                equal(guest("clients", curl + "https://page.example/open/a"), f"{version} GET /open/a 0")
                equal(guest("clients", f"head -c 1048576 /dev/zero | {curl} -T - https://page.example/open/b"),
                      f"{version} PUT /open/b 1048576")
                equal(guest("clients", curl + "https://page.example/open/large | wc -c"), str(4 << 20))
                has(guest("clients", curl + "-w ' %{http_code}' https://page.example/shut"), "route_denied")
            equal(python("clients", POST), "1.1 POST /open/p 1048576\n403 route_denied")
