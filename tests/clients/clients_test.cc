// Programs as people use them, in the guest's place (tests/unit/egress/rig.h), through the proxy to
// servers on the test's Internet: with the environment and the bundle of certificates that the
// agent gives commands in a sandbox. Each does what it is for, and is told in its own words what a
// rule refuses.
#include "servers.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A mebibyte of zeros.
constexpr const char* kMebibyteHash =
    "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58";

TEST_F(Clients, CurlAndWgetWithoutAnOption) {
  NEEDS("command -v nginx");
  prepare("mkdir www; echo hello >www/a; dd if=/dev/zero of=www/big bs=1M count=8 2>/dev/null");
  serve_files();
  allow_endpoint("GET https://files.example/a");
  allow_endpoint("GET https://files.example/big");
  start();
  const auto fine = run({"curl", "-sS", "https://files.example/a", "https://files.example/big",
                         "-w", "%{http_code} %{size_download} %{num_connects}\n", "-o", "/dev/null",
                         "-o", "/dev/null"});
  EXPECT_EQ(fine.out, "200 6 1\n200 8388608 0\n") << fine.err;
  if (has("command -v wget")) {
    EXPECT_EQ(sh(R"(wget -qO- https://files.example/a
      if wget -q -O /dev/null https://files.example/b; then exit 9; else echo $?; fi)")
                  .out,
              "hello\n8\n");  // 8: the server answers with an error
  }
  const auto refused = run({"curl", "-sS", "https://files.example/b", "-w", "%{http_code}"});
  EXPECT_THAT(refused.out,
              AllOf(HasSubstr("policy_denied"), HasSubstr("files.example"), HasSubstr("403")));
  // The certificate is believed because the authority is, and that only.
  const auto stranger = run(
      {"curl", "-sS", "--cacert", directory() + "/files.example.pem", "https://files.example/a"});
  EXPECT_EQ(stranger.code, 60) << stranger.err;
}

constexpr const char* kPython = R"(
import hashlib, json, sys, urllib.request, urllib.error
base = 'https://app.example/v1'
body = bytes(1 << 20)
def tell(name, value): print(name, json.dumps(value, sort_keys=True), flush=True)
def refused(name, status, text): tell(name + ' refused', [status, json.loads(text)['error']['reason']])
tell('urllib', json.load(urllib.request.urlopen(base + '/a')))
tell('urllib post', json.load(urllib.request.urlopen(urllib.request.Request(base + '/p', data=body))))
try: urllib.request.urlopen('https://app.example/other')
except urllib.error.HTTPError as e: refused('urllib', e.code, e.read())
if 'more' in sys.argv:
  import requests, asyncio, aiohttp, httplib2
  with requests.Session() as s:
    tell('requests', s.get(base + '/a').json())
    tell('requests chunked', s.post(base + '/p', data=iter([body[:1000], body[1000:]])).json())
    r = s.get('https://app.example/other'); refused('requests', r.status_code, r.text)
  http = httplib2.Http()
  tell('httplib2', json.loads(http.request(base + '/a')[1]))
  head, text = http.request('https://app.example/other'); refused('httplib2', head.status, text)
  async def later():
    async with aiohttp.ClientSession() as s:
      answers = await asyncio.gather(*[s.get(base + '/a%d' % i) for i in range(20)])
      tell('aiohttp', sorted([(await a.json())['url'] for a in answers])[-1])
      async with s.get('https://app.example/other') as a: refused('aiohttp', a.status, await a.text())
      async with s.ws_connect(base + '/ws') as w:
        await w.send_str('over'); tell('aiohttp ws', (await w.receive()).data)
  asyncio.run(later())
)";

TEST_F(Clients, PythonWithItsManyWays) {
  NEEDS("node -e 'require(\"/usr/share/nodejs/ws\")'");
  serve_app();
  allow_endpoint("* https://app.example/v1/**");
  start();
  const bool more = has("/usr/bin/python3 -c 'import requests, aiohttp, httplib2'");
  const auto done = run({"python3", "-c", kPython, more ? "more" : "plain"});
  EXPECT_EQ(done.code, 0) << done.err;
  const auto line = [](const std::string& name, const std::string& method, const std::string& url,
                       const std::string& hash) {
    return name + R"( {"hash": ")" + hash + R"(", "method": ")" + method + R"(", "url": ")" + url +
           "\"}\n";
  };
  constexpr const char* kNothing =
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  EXPECT_THAT(done.out, AllOf(HasSubstr(line("urllib", "GET", "/v1/a", kNothing)),
                              HasSubstr(line("urllib post", "POST", "/v1/p", kMebibyteHash)),
                              HasSubstr("urllib refused [403, \"policy_denied\"]\n")));
  if (!more) GTEST_SKIP() << "not here: python3-requests, python3-aiohttp, python3-httplib2";
  EXPECT_THAT(done.out, AllOf(HasSubstr(line("requests", "GET", "/v1/a", kNothing)),
                              HasSubstr(line("requests chunked", "POST", "/v1/p", kMebibyteHash)),
                              HasSubstr("requests refused [403, \"policy_denied\"]\n"),
                              HasSubstr(line("httplib2", "GET", "/v1/a", kNothing)),
                              HasSubstr("httplib2 refused [403, \"policy_denied\"]\n"),
                              HasSubstr("aiohttp \"/v1/a9\"\n"),
                              HasSubstr("aiohttp refused [403, \"policy_denied\"]\n"),
                              HasSubstr("aiohttp ws \"over\"\n")));
}

constexpr const char* kNode = R"(
const https = require('https'), http2 = require('http2'), ws = require('ws')
const base = 'https://app.example/v1', body = Buffer.alloc(1 << 20)
const tell = (name, value) => console.log(name, JSON.stringify(value))
const get = (url, options) => new Promise((good, bad) => https.request(url, options, r => {
  let text = ''; r.on('data', d => text += d); r.on('end', () => good([r.statusCode, text]))
}).on('error', bad).end(options.body))
;(async () => {
  tell('fetch', await (await fetch(base + '/a')).json())
  tell('fetch post', (await (await fetch(base + '/p', {method: 'POST', body})).json()).hash)
  const stream = new ReadableStream({start(c) { c.enqueue(body.subarray(0, 5)); c.enqueue(body.subarray(5)); c.close() }})
  tell('fetch stream', (await (await fetch(base + '/p', {method: 'POST', body: stream, duplex: 'half'})).json()).hash)
  const no = await fetch('https://app.example/other'); tell('fetch refused', [no.status, (await no.json()).error.reason])
  const agent = new https.Agent({keepAlive: true})
  for (const i of [1, 2]) tell('https ' + i, (await get(base + '/' + i, {agent}))[0])
  const [status, text] = await get('https://app.example/other', {agent}); tell('https refused', [status, JSON.parse(text).error.reason])
  const session = http2.connect(base), ask = path => new Promise((good, bad) => {
    let text = '', status; const r = session.request({':path': path})
    r.on('response', h => status = h[':status']); r.on('data', d => text += d); r.on('end', () => good([status, text])).on('error', bad)
  })
  tell('http2', (await Promise.all([...Array(20).keys()].map(i => ask('/v1/' + i)))).filter(([s, t], i) => s == 200 && JSON.parse(t).url == '/v1/' + i).length)
  tell('http2 refused', JSON.parse((await ask('/other'))[1]).error.reason)
  session.close()
  const socket = new ws(base.replace('https', 'wss') + '/ws')
  await new Promise((good, bad) => {
    socket.on('error', bad)
    socket.on('open', () => { socket.send('one'); socket.send(body) })
    socket.on('message', (m, binary) => { tell('ws', binary ? m.length : m.toString()); if (binary) socket.close(1000, 'done') })
    socket.on('close', (code, why) => { tell('ws close', [code, why.toString()]); good() })
  })
  await new Promise(good => new ws('wss://app.example/other').on('error', e => { tell('ws refused', e.message); good() }))
  agent.destroy()
  if (process.argv[1] != 'more') return
  const pool = new (require('undici').Pool)('https://app.example', {connections: 2, pipelining: 4})
  const send = async (path, body) => {
    const r = await pool.request({path, method: body ? 'POST' : 'GET', body}); return [r.statusCode, await r.body.json()]
  }
  tell('undici', (await Promise.all([...Array(20).keys()].map(i => send('/v1/' + i)))).filter(([s, a], i) => s == 200 && a.url == '/v1/' + i).length)
  tell('undici post', (await send('/v1/p', body))[1].hash)
  const [code, said] = await send('/other'); tell('undici refused', [code, said.error.reason])
  await pool.close()
})().catch(e => { console.error(e); process.exit(1) })
)";

TEST_F(Clients, NodeWithItsManyWays) {
  NEEDS("node -e 'require(\"/usr/share/nodejs/ws\"); fetch'");
  serve_app();
  allow_endpoint("* https://app.example/v1/**");
  start();
  const bool more = has("NODE_PATH=/usr/share/nodejs node -e 'require(\"undici\")'");
  const auto done = run({"node", "-e", kNode, more ? "more" : "plain"});
  EXPECT_EQ(done.code, 0) << done.err;
  const std::string hash = std::string("\"") + kMebibyteHash + "\"\n";
  EXPECT_THAT(done.out, AllOf(HasSubstr(R"("method":"GET","url":"/v1/a")"),
                              HasSubstr("fetch post " + hash), HasSubstr("fetch stream " + hash),
                              HasSubstr("fetch refused [403,\"policy_denied\"]\n"),
                              HasSubstr("https 1 200\nhttps 2 200\n"),
                              HasSubstr("https refused [403,\"policy_denied\"]\n"),
                              HasSubstr("http2 20\nhttp2 refused \"policy_denied\"\n")));
  EXPECT_THAT(done.out, AllOf(HasSubstr("ws \"one\"\nws 1048576\nws close [1000,\"done\"]\n"),
                              HasSubstr("ws refused \"Unexpected server response: 403\"\n")));
  if (!more) GTEST_SKIP() << "not here: node-undici";
  EXPECT_THAT(done.out, HasSubstr("undici 20\nundici post " + hash +
                                  "undici refused [403,\"policy_denied\"]\n"));
}

constexpr const char* kUndici = R"(
const {Agent, Pool, fetch} = require('undici'), base = 'https://app.example'
;(async () => {
  for (const allowH2 of [false, true]) {
    const pool = new Pool(base, {allowH2, connections: 2, pipelining: 10}), dispatcher = new Agent({allowH2})
    const ask = async (path, body) => {
      const r = await pool.request({path, method: body ? 'POST' : 'GET', body})
      return [r.statusCode, r.headers['x-version'], await r.body.json()]
    }
    const all = await Promise.all([...Array(20).keys()].map(i => ask('/v1/' + i)))
    const [, , posted] = await ask('/v1/p', Buffer.alloc(1 << 20)), [code, , said] = await ask('/other')
    console.log(all.filter(([s, v, a], i) => s == 200 && a.url == '/v1/' + i).length, all[0][1], posted.hash, code, said.error.reason)
    const r = await fetch(base + '/v1/f', {dispatcher}), no = await fetch(base + '/other', {dispatcher})
    console.log(r.headers.get('x-version'), (await r.json()).url, no.status, (await no.json()).error.reason)
    await pool.close(); await dispatcher.close()
  }
})().catch(e => { console.error(e); process.exit(1) })
)";

TEST_F(Clients, UndiciOfNpmInBothVersions) {
  NEEDS("node -e 'require(\"/usr/share/nodejs/ws\"); File'");  // that of Node 20 is global
  NEEDS_NPM();
  serve_app();
  allow_endpoint("* https://app.example/v1/**");
  start();
  const auto done = npm_node({"node", "-e", kUndici});
  std::string expected;
  for (const char* version : {"1.1", "2.0"})
    expected += std::string("20 ") + version + " " + kMebibyteHash + " 403 policy_denied\n" +
                version + " /v1/f 403 policy_denied\n";
  EXPECT_EQ(done.out, expected) << done.err;
}

// Rust's TLS (rustls) and HTTP/2, by the one variable that Deno has for authorities.
TEST_F(Clients, DenoWithoutAnOption) {
  NEEDS("node -e 'require(\"/usr/share/nodejs/ws\")'");
  NEEDS_NPM();
  const std::string deno = npm_libraries() + "/@deno/linux-x64-glibc/deno";
  NEEDS("test -x " + deno);
  serve_app();
  allow_endpoint("* https://app.example/v1/**");
  start();
  const auto done =
      run({"env", "DENO_DIR=" + directory() + "/deno", "DENO_NO_UPDATE_CHECK=1", deno, "eval", R"(
    const at = 'https://app.example'
    const got = await fetch(at + '/v1/a?q=a^`|b'); console.log(got.status, (await got.json()).url)
    const post = await fetch(at + '/v1/f', {method: 'POST', body: new Uint8Array(1 << 20)})
    console.log(post.status, JSON.stringify(await post.json()))
    const no = await fetch(at + '/other'); console.log(no.status, (await no.json()).error.reason)
    await fetch('https://evil.test/').catch(() => console.log('no such host')))"});
  EXPECT_THAT(done.out, AllOf(HasSubstr("200 /v1/a?q=a^`|b\n200 "), HasSubstr(kMebibyteHash),
                              HasSubstr("403 policy_denied\n"), HasSubstr("no such host\n")))
      << done.err;
}

constexpr const char* kJava = R"(
import java.net.*; import java.net.http.*;
class Get {
  public static void main(String[] a) throws Exception {
    var client = HttpClient.newHttpClient();
    for (var url : a) {
      var answer = client.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.statusCode() + " " + answer.body());
    }
    System.out.println(((HttpURLConnection) new URL(a[0]).openConnection()).getResponseCode());
  }
}
)";

// By its own store, of either kind, in the place of the one that it has.
TEST_F(Clients, JavaWithoutAnOption) {
  NEEDS(
      "command -v javac && command -v keytool && test -e /etc/ssl/certs/java/cacerts && "
      "node -e 'require(\"/usr/share/nodejs/ws\")'");
  write(directory() + "/Get.java", kJava);
  prepare(R"(
    javac Get.java; mkdir -p image/usr/lib/jvm/a/lib/security image/usr/lib/jvm/b/lib/security
    cp -L /etc/ssl/certs/java/cacerts image/usr/lib/jvm/a/lib/security/cacerts
    keytool -importkeystore -srckeystore /etc/ssl/certs/java/cacerts -srcstorepass changeit -deststoretype PKCS12 \
      -destkeystore image/usr/lib/jvm/b/lib/security/cacerts -deststorepass changeit \
      -J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE -J-Dkeystore.pkcs12.macAlgorithm=NONE)");
  serve_app();
  allow_endpoint("* https://app.example/v1/**");
  start();
  for (const char* kind : {"a", "b"}) {
    const auto done = sh("cd \"$0\"; store=image/usr/lib/jvm/" + std::string(kind) +
                         R"(/lib/security/cacerts
      keytool -list -keystore $store -storepass changeit -alias mvm-sandbox
      mount --bind $store /etc/ssl/certs/java/cacerts
      java -cp . Get https://app.example/v1/a https://app.example/other)");
    EXPECT_EQ(done.code, 0) << kind << done.out << done.err;
    EXPECT_THAT(done.out,
                AllOf(HasSubstr("trustedCertEntry"), HasSubstr("200 {\"method\":\"GET\""),
                      HasSubstr("403 "), HasSubstr("policy_denied"), HasSubstr("\n200\n")));
  }
  // The one that the host's Java has knows nothing of it.
  const auto stranger = sh("cd \"$0\"; java -cp . Get https://app.example/v1/a");
  EXPECT_THAT(stranger.err, HasSubstr("PKIX path building failed"));
}

}
}
