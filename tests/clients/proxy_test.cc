// Programs that are told of a proxy, each in its own way: all that they do goes through it, and
// nothing asks DNS.
#include "clients.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFiles = "93.184.216.34";
constexpr const char* kProxy = "http://100.127.255.1:3128";

// Files of a folder, by HTTP and HTTPS. Says who asks for them.
constexpr const char* kServer = R"(
import functools, http.server, ssl, sys, threading
class H(http.server.SimpleHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.headers.get('Authorization'), flush=True)
H = functools.partial(H, directory=sys.argv[3])
plain = http.server.ThreadingHTTPServer((sys.argv[1], 80), H)
threading.Thread(target=plain.serve_forever, daemon=True).start()
s = http.server.ThreadingHTTPServer((sys.argv[1], 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class ProxyClients : public ClientWorld {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_host("files.example", kFiles);
    settings_.http_proxy = {{ip("100.127.255.1"), 3128}};
    prepare("mkdir www; echo hello >www/a");
  }
  // Serves, and admits what is below `path`, for both schemes.
  Program& begin(const std::string& path) {
    Program& server = serve({"python3", "-u", "-c", kServer, kFiles,
                             directory() + "/files.example.pem", directory() + "/www"},
                            {ip(kFiles), 443});
    allow_endpoint("* https://files.example" + path);
    allow_endpoint("* http://files.example" + path);
    start();
    return server;
  }
  void expect_that_nothing_went_around() {
    EXPECT_THAT(events_of(EventKind::Dns), IsEmpty());
    EXPECT_FALSE(events_of(EventKind::Http).empty());
  }
};

TEST_F(ProxyClients, CurlAndWget) {
  begin("/a");
  for (const char* scheme : {"http", "https"}) {
    const std::string url = std::string(scheme) + "://files.example/";
    EXPECT_EQ(run({"curl", "-sS", "-x", kProxy, url + "a"}).out, "hello\n") << scheme;
    EXPECT_THAT(run({"curl", "-sS", "-x", kProxy, url + "b"}).out, HasSubstr("policy_denied"));
    if (!has("command -v wget")) continue;
    const std::string variables =
        std::string("export http_proxy=") + kProxy + " https_proxy=" + kProxy + "; ";
    EXPECT_EQ(sh(variables + "wget -qO- " + url + "a").out, "hello\n");
    EXPECT_EQ(sh(variables + "wget -qO- " + url + "b || echo $?").out, "8\n");
  }
  EXPECT_THAT(run({"curl", "-sS", "-x", kProxy, "https://evil.test/"}).err, HasSubstr("403"));
  expect_that_nothing_went_around();
}

TEST_F(ProxyClients, Python) {
  begin("/a");
  const auto done = run({"python3", "-c", R"(
import json, sys, urllib.request, urllib.error
proxy = sys.argv[1]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({'http': proxy, 'https': proxy}))
for scheme in ('http', 'https'):
  print(opener.open(scheme + '://files.example/a').read())
  try: opener.open(scheme + '://files.example/b')
  except urllib.error.HTTPError as e: print(e.code, json.loads(e.read())['error']['reason'])
try: opener.open('https://evil.test/')
except urllib.error.URLError as e: print(e.reason)
try: import requests
except ImportError: sys.exit()
with requests.Session() as s:
  s.proxies = {'http': proxy, 'https': proxy}
  for scheme in ('http', 'https'): print(s.get(scheme + '://files.example/a').text, s.get(scheme + '://files.example/b').status_code)
)",
                         kProxy});
  EXPECT_EQ(done.code, 0) << done.err;
  constexpr const char* kOnce = "b'hello\\n'\n403 policy_denied\n";
  EXPECT_THAT(done.out,
              HasSubstr(std::string(kOnce) + kOnce + "Tunnel connection failed: 403 Forbidden\n"));
  if (has("/usr/bin/python3 -c 'import requests'")) {
    EXPECT_THAT(done.out, HasSubstr("hello\n 403\nhello\n 403\n"));
  }
  expect_that_nothing_went_around();
}

// Node's own fetch knows no proxy before version 24; its http module does both by hand, and undici
// asks for a tunnel whatever the scheme.
TEST_F(ProxyClients, Node) {
  NEEDS("command -v node");
  begin("/a");
  const auto done = run({"node", "-e", R"(
const http = require('http'), https = require('https'), to = {host: '100.127.255.1', port: 3128}
const text = r => new Promise(good => { let t = ''; r.on('data', d => t += d); r.on('end', () => good(r.statusCode + ' ' + t)) })
const plain = path => new Promise((good, bad) => http.get({...to, path, headers: {Host: 'files.example'}}, r => good(text(r))).on('error', bad))
const tunnel = (name, path) => new Promise((good, bad) => http.request({...to, method: 'CONNECT', path: name + ':443'}).on('connect', (r, socket) => {
  if (r.statusCode != 200) return good('tunnel ' + r.statusCode)
  https.get({socket, agent: false, servername: name, host: name, path}, r => good(text(r))).on('error', bad)
}).on('error', bad).end())
;(async () => {
  console.log(await plain('http://files.example/a'), await tunnel('files.example', '/a'))
  console.log((await plain('http://files.example/b')).slice(0, 3), (await tunnel('files.example', '/b')).slice(0, 3), await tunnel('evil.test', '/'))
  let undici; try { undici = require('undici') } catch { process.exit(0) }
  const dispatcher = new undici.ProxyAgent('http://100.127.255.1:3128')
  for (const scheme of ['http', 'https']) for (const path of ['a', 'b'])
    console.log('undici', (await undici.fetch(scheme + '://files.example/' + path, {dispatcher})).status)
  await undici.fetch('https://evil.test/', {dispatcher}).catch(e => console.log('undici', e.cause.message))
  process.exit(0)  // connections that are kept would be waited for
})().catch(e => { console.error(e); process.exit(1) })
)"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("200 hello\n 200 hello\n\n403 403 tunnel 403\n"));
  if (has("test -e /usr/share/nodejs/undici")) {
    EXPECT_THAT(done.out, HasSubstr("undici 200\nundici 403\nundici 200\nundici 403\nundici "));
  }
  expect_that_nothing_went_around();
}

// What looks into exchanges looks into these.
TEST_F(ProxyClients, SendAPlaceholderAndTheServerGetsTheSecret) {
  proto::SecretRule rule;
  rule.name = "TOKEN";
  rule.hosts = {"files.example:443", "files.example:80"};
  rule.plaintext = true;
  const std::string value = "tok_0123456789abcdefghijABCDEFGHIJ012345";
  const std::string placeholder = use_secrets({rule}, value).at(0);
  const Program& server = begin("/a");
  for (const char* scheme : {"http", "https"})
    EXPECT_EQ(run({"curl", "-sS", "-x", kProxy, "-H", "Authorization: Bearer " + placeholder,
                   std::string(scheme) + "://files.example/a"})
                  .out,
              "hello\n");
  ASSERT_TRUE(eventually([&] { return server.exit().out.size() > 2 * value.size(); }));
  EXPECT_EQ(server.exit().out, "Bearer " + value + "\nBearer " + value + "\n");
}

TEST_F(ProxyClients, Git) {
  NEEDS("command -v git");
  prepare(R"(
    export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
    git init -q -b main work; cd work; echo one >a; git add .; git commit -qm one
    git clone -q --bare . ../www/repo.git; git -C ../www/repo.git update-server-info)");
  begin("/repo.git/**");
  for (const char* scheme : {"http", "https"}) {
    const std::string clone =
        std::string("git -c http.proxy=") + kProxy + " clone -q " + scheme + "://files.example/";
    const auto done = sh(clone + "repo.git \"$0/" + scheme + "\"; cat \"$0/" + scheme + "/a\"");
    EXPECT_EQ(done.out, "one\n") << done.err;
    EXPECT_THAT(sh(clone + "other.git \"$0/other\"").err, HasSubstr("403"));
  }
  expect_that_nothing_went_around();
}

TEST_F(ProxyClients, Pip) {
  NEEDS("/usr/bin/python3 -m pip --version");
  prepare(R"(
    mkdir -p www/simple/tiny www/simple/files
    python3 - <<'END'
import zipfile
with zipfile.ZipFile('www/simple/files/tiny-1.0-py3-none-any.whl', 'w') as z:
  z.writestr('tiny.py', 'answer = 42\n')
  z.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n')
  z.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
  z.writestr('tiny-1.0.dist-info/RECORD', '')
END
    echo '<a href="../files/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>' >www/simple/tiny/index.html)");
  begin("/simple/**");
  const std::string pip = std::string(
                              "pip() { python3 -m pip --disable-pip-version-check "
                              "--no-cache-dir --retries 0 --proxy ") +
                          kProxy + " \"$@\"; }; ";
  const auto fine = sh(pip + R"(
    pip install -q --no-deps --target "$0/site" --index-url https://files.example/simple tiny
    PYTHONPATH="$0/site" python3 -c 'import tiny; print(tiny.answer)')");
  EXPECT_EQ(fine.out, "42\n") << fine.err;
  const auto refused = sh(pip + "pip download --index-url https://evil.test/simple tiny");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, AnyOf(HasSubstr("403"), HasSubstr("No matching")));
  expect_that_nothing_went_around();
}

TEST_F(ProxyClients, Npm) {
  NEEDS("npm --version");
  prepare(R"(
    mkdir -p package www/npm/files; cd package; echo '{"name":"tiny","version":"1.0.0","main":"i.js"}' >package.json
    echo 'module.exports = 42' >i.js; cd ..; tar -czf www/npm/files/tiny-1.0.0.tgz package
    sum=$(openssl dgst -sha512 -binary www/npm/files/tiny-1.0.0.tgz | base64 -w0)
    printf '{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0","main":"i.js","dist":{"tarball":"https://files.example/npm/files/tiny-1.0.0.tgz","integrity":"sha512-%s"}}}}' "$sum" >www/npm/tiny)");
  begin("/npm/**");
  const std::string npm =
      std::string(
          "mkdir -p \"$0/app\"; cd \"$0/app\"; npm() { command npm --no-audit --no-fund "
          "--fetch-retries=0 --loglevel=error --https-proxy=") +
      kProxy + " --proxy=" + kProxy + " \"$@\"; }; ";
  const auto fine = sh(
      npm +
      R"(npm install --registry https://files.example/npm/ tiny >&2; node -p 'require("tiny")')");
  EXPECT_EQ(fine.out, "42\n") << fine.err;
  const auto refused = sh(npm + "npm install --registry https://files.example/other/ small");
  EXPECT_THAT(refused.out + refused.err, HasSubstr("403"));
  expect_that_nothing_went_around();
}

TEST_F(ProxyClients, Apt) {
  NEEDS("command -v apt-get && command -v dpkg-deb");
  prepare(R"(
    mkdir -p www/flat tiny/DEBIAN; printf 'Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t>\nDescription: t\n' >tiny/DEBIAN/control
    dpkg-deb --build tiny www/flat/tiny_1.0_all.deb >/dev/null
    cd www/flat; size=$(stat -c %s tiny_1.0_all.deb); sum=$(sha256sum tiny_1.0_all.deb | cut -d' ' -f1)
    { cat ../../tiny/DEBIAN/control; printf 'Filename: ./tiny_1.0_all.deb\nSize: %s\nSHA256: %s\n' $size $sum; } >Packages
    mkdir -p ../../apt/etc ../../apt/lists/partial ../../apt/cache/archives/partial; : >../../apt/status)");
  begin("/flat/**");
  for (const char* scheme : {"http", "https"}) {
    const auto fine = sh(std::string(R"(cd "$0"; rm -f tiny_1.0_all.deb apt/lists/*Packages
      apt="apt-get -q -o APT::Sandbox::User=root -o Dir::Etc=$0/apt/etc -o Dir::Etc::parts=/nowhere
        -o Dir::State::lists=$0/apt/lists -o Dir::State::status=$0/apt/status -o Dir::Cache=$0/apt/cache
        -o APT::Architecture=amd64 -o Debug::NoLocking=1 -o Acquire::Retries=0 -o Acquire::)") +
                         scheme + "::Proxy=" + kProxy + R"("
      echo "deb [trusted=yes] )" +
                         scheme + R"(://files.example/flat ./" >apt/etc/sources.list
      $apt update; $apt download tiny; cmp tiny_1.0_all.deb www/flat/tiny_1.0_all.deb)");
    EXPECT_EQ(fine.code, 0) << scheme << fine.out << fine.err;
  }
  expect_that_nothing_went_around();
}

}
}
