// Vendors' own tools with placeholders where their keys belong, each in the format that it keeps
// and sends keys in (but gcloud, which neither Debian nor npm has). The servers are stood in for:
// they want the value, and print what they got.
#include "mvm/metering/filter.h"

#include "clients.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kAddress = "93.184.216.34";
constexpr std::string_view kValue = "k3y-of-n0body/0123456789+abcdef";

// Answers by path where it is shown the value, and 401 where it is not.
constexpr const char* kVendors = R"(
import base64, http.server, json, os, ssl, sys
address, pem, value = sys.argv[1:]
ANSWERS = {
  '/user': {'login': 'octo'}, '/-/whoami': {'username': 'octo'}, '/tiny': {'ok': True},
  '/simple/tiny/': '<a href="/tiny-1.0.tar.gz">tiny-1.0.tar.gz</a>',
  '/v1/chat/completions': {'choices': [{'index': 0, 'message': {'role': 'assistant', 'content': 'hello'}}]},
  '/v1/messages': {'type': 'message', 'role': 'assistant', 'content': [{'type': 'text', 'text': 'hello'}]},
  '/token': {'token': 'passing'}, '/v2/tiny/manifests/1': {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json'},
}
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def answer(self, status, what, **fields):
    text = what if isinstance(what, str) else json.dumps(what)
    self.send_response(status)
    self.send_header('Content-Type', 'text/html' if isinstance(what, str) else what.get('mediaType', 'application/json'))
    for name, field in fields.items(): self.send_header(name.replace('_', '-'), field)
    self.send_header('Content-Length', str(len(text))); self.end_headers()
    if self.command != 'HEAD': self.wfile.write(text.encode())
  def do_GET(self):
    self.rfile.read(int(self.headers.get('Content-Length') or 0))
    sent = self.headers.get('Authorization') or self.headers.get('X-Api-Key') or '-'
    if sent.startswith('Basic '): sent = 'Basic ' + base64.b64decode(sent[6:]).decode()
    # In one write: requests come side by side.
    os.write(1, ' '.join([self.command, self.path, sent, self.headers.get('X-Amz-Security-Token', ''), '\n']).encode())
    path = self.path.partition('?')[0].removeprefix('/api/v3')
    if sent.startswith('AWS4-'):
      return self.answer(403, '<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>')
    if self.path.startswith('/v2/') and sent != 'Bearer passing':
      return self.answer(401, {}, WWW_Authenticate='Bearer realm="https://registry.example/token",service="registry.example"')
    if sent != 'Bearer passing' and not sent.endswith(value):
      return self.answer(401, {'message': 'Bad credentials'}, WWW_Authenticate='Basic realm="x"')
    self.answer(200 if path in ANSWERS else 404, ANSWERS.get(path, {}), X_OAuth_Scopes='repo')
  do_POST = do_PUT = do_HEAD = do_GET
s = http.server.ThreadingHTTPServer((address, 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(pem, pem + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class Vendors : public ClientWorld {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (!IsSkipped()) sys::make_directories(directory() + "/home", 0755);
  }
  // A vendor's host, with the secret NAME for it as its catalogue entry says, or for `host` where
  // there is none. Returns the placeholder.
  std::string vendor(const std::string& host, const std::string& secret) {
    own_host(host, kAddress);
    allow_host(host);
    server_ = &serve({"/usr/bin/python3", "-u", "-c", kVendors, kAddress,
                      directory() + "/" + host + ".pem", std::string(kValue)},
                     {ip(kAddress), 443});
    proto::SecretRule rule;
    rule.name = secret;
    if (policy::find_secret_provider(secret) == nullptr) rule.hosts = {host};
    placeholder_ = use_secrets({policy::with_provider(std::move(rule))}, std::string(kValue)).at(0);
    start();
    return placeholder_;
  }
  // What the server got; never a placeholder.
  std::string seen() const {
    const std::string out = server_->exit().out;
    EXPECT_THAT(out, Not(HasSubstr("mvm-secret")));
    return out;
  }
  static std::string with(const std::string& scheme) { return scheme + std::string(kValue); }

  std::string placeholder_;
  Program* server_ = nullptr;
};

TEST_F(Vendors, GhAsksItsApi) {
  NEEDS("test -x /usr/bin/gh");
  const std::string key = vendor("api.github.com", "GH_TOKEN");
  const auto done = run({"env", "GH_TOKEN=" + key, "gh", "api", "user", "--jq", ".login"});
  EXPECT_EQ(done.out, "octo\n") << done.err;
  EXPECT_THAT(seen(), HasSubstr("GET /user " + with("token ")));
  // What it hands to Git as a password is what it was given.
  const auto helper = sh("printf 'protocol=https\\nhost=github.com\\n\\n' | GH_TOKEN=" + key +
                         " gh auth git-credential get");
  EXPECT_THAT(helper.out, HasSubstr("password=" + key)) << helper.err;
}

TEST_F(Vendors, NpmReadsItsTokenFromNpmrc) {
  NEEDS("npm --version");
  const std::string key = vendor("npm.example", "NPM_TOKEN");
  const std::string npm = R"(
    npm() { command npm --no-audit --no-fund --fetch-retries=0 --loglevel=error --registry https://npm.example/ "$@"; }
    mkdir -p "$0/app"; cd "$0/app"; echo '{"name":"tiny","version":"1.0.0"}' >package.json
    )";
  write(directory() + "/home/.npmrc", "//npm.example/:_authToken=${NPM_TOKEN}\n");
  const auto token = sh("export NPM_TOKEN=" + key + npm + "npm whoami; npm publish >/dev/null");
  EXPECT_EQ(token.out, "octo\n") << token.err;
  EXPECT_THAT(seen(), AllOf(HasSubstr("GET /-/whoami " + with("Bearer ")),
                            HasSubstr("PUT /tiny " + with("Bearer "))));
  // The old form, which npm takes out of base64 and puts into another.
  write(directory() + "/home/.npmrc",
        "//npm.example/:username=me\n//npm.example/:_password=" + secret::base64(key) + "\n");
  const auto basic = sh(npm + "npm publish >/dev/null");
  EXPECT_EQ(basic.code, 0) << basic.err;
  EXPECT_THAT(seen(), HasSubstr("PUT /tiny " + with("Basic me:")));
}

TEST_F(Vendors, PipHasItInTheIndexsAddress) {
  NEEDS("/usr/bin/python3 -m pip --version");
  const std::string key = vendor("pip.example", "PIP_PASSWORD");
  const auto found =
      sh("python3 -m pip --disable-pip-version-check --no-cache-dir --retries 0 download --no-deps "
         "-d \"$0/got\" --index-url https://__token__:" +
         key + "@pip.example/simple tiny");
  // The index answered, and named a file, which is not there.
  EXPECT_THAT(found.out + found.err, HasSubstr("404"));
  EXPECT_THAT(seen(), HasSubstr("GET /simple/tiny/ " + with("Basic __token__:")));
}

TEST_F(Vendors, SkopeoChangesItForAToken) {
  NEEDS("test -x /usr/bin/skopeo");
  const std::string key = vendor("registry.example", "REGISTRY_PASSWORD");
  const auto done = run(
      {"skopeo", "inspect", "--raw", "--creds", "me:" + key, "docker://registry.example/tiny:1"});
  EXPECT_THAT(done.out, HasSubstr("\"schemaVersion\": 2")) << done.err;
  EXPECT_THAT(seen(), AllOf(HasSubstr(with("Basic me:")),
                            HasSubstr("GET /v2/tiny/manifests/1 Bearer passing")));
  // As `docker login` keeps it.
  write(directory() + "/home/auth.json",
        R"({"auths":{"registry.example":{"auth":")" + secret::base64("other:" + key) + "\"}}}");
  const auto kept = run({"skopeo", "inspect", "--raw", "--authfile",
                         directory() + "/home/auth.json", "docker://registry.example/tiny:1"});
  EXPECT_THAT(kept.out, HasSubstr("\"schemaVersion\": 2")) << kept.err;
  EXPECT_THAT(seen(), HasSubstr(with("Basic other:")));
}

// A signature is made with the key, and the guest has no key: the request goes as it is, with a
// signature that is worth nothing, and nothing of the key in it (docs/secrets.md).
TEST_F(Vendors, AwsSignsWithAPlaceholderInVain) {
  NEEDS("test -x /usr/bin/aws");
  const std::string key = vendor("s3.example", "AWS_SECRET_ACCESS_KEY");
  const auto done = run({"env", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=" + key,
                         "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true", "aws",
                         "--endpoint-url", "https://s3.example", "s3api", "list-buckets"});
  EXPECT_NE(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(seen(), AllOf(HasSubstr("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
                            Not(HasSubstr(std::string(kValue)))));
}

// Of npm.
class Libraries : public Vendors {
 protected:
  void SetUp() override {
    Vendors::SetUp();
    if (!IsSkipped()) NEEDS_NPM();
  }
  Program::Exit node(const std::string& variable, const std::string& script) {
    return npm_node(
        {variable, "node", "-e",
         "(async () => {" + script +
             "})().catch(e => { console.error(e.status, e.message); process.exit(1) })"});
  }
};

constexpr const char* kOpenAi = R"(
const c = new (require('openai').OpenAI)({maxRetries: 0})
console.log((await c.chat.completions.create({model: 'm', messages: [{role: 'user', content: 'x'}]})).choices[0].message.content)
)";
constexpr const char* kAnthropic = R"(
const c = new (require('@anthropic-ai/sdk').Anthropic)({maxRetries: 0})
console.log((await c.messages.create({model: 'm', max_tokens: 9, messages: [{role: 'user', content: 'x'}]})).content[0].text)
)";

TEST_F(Libraries, OpenAisTakesItForAKey) {
  const std::string key = vendor("api.openai.com", "OPENAI_API_KEY");
  const auto done = node("OPENAI_API_KEY=" + key, kOpenAi);
  EXPECT_EQ(done.out, "hello\n") << done.err;
  EXPECT_THAT(seen(), HasSubstr("POST /v1/chat/completions " + with("Bearer ")));
}

TEST_F(Libraries, AnthropicsTakesItForAKey) {
  const std::string key = vendor("api.anthropic.com", "ANTHROPIC_API_KEY");
  const auto done = node("ANTHROPIC_API_KEY=" + key, kAnthropic);
  EXPECT_EQ(done.out, "hello\n") << done.err;
  EXPECT_THAT(seen(), AllOf(HasSubstr("POST /v1/messages "), HasSubstr(std::string(kValue))));
}

// They try what is refused with 429 again, unless they are told that this is in vain.
TEST_F(Libraries, AskOnceWhereABudgetIsUsedUp) {
  meter::Ledger ledger({.budget = {.requests = 1}}, meter::Account{},
                       [](const meter::Record&, const meter::Account&) { return true; });
  uint64_t id = 0;
  ASSERT_FALSE(ledger.admit(meter::Provider::OpenAi, {}, id));
  const meter::Catalogue catalogue;
  settings_.filters.push_back(std::make_shared<metering::MeterSource>(catalogue, false, ledger));
  for (const char* host : {"api.openai.com", "api.anthropic.com"}) {
    own_host(host, kAddress);
    allow_host(host);
  }
  settings_.policy.inspect = metering::inspections(catalogue);
  serve({"/usr/bin/python3", "-u", "-c", kVendors, kAddress, directory() + "/api.openai.com.pem",
         std::string(kValue)},
        {ip(kAddress), 443});
  start();
  for (std::string script : {kOpenAi, kAnthropic}) {
    const size_t before = events_of(EventKind::Http).size();
    script.erase(script.find("{maxRetries: 0}"), 15);
    const auto done = node("OPENAI_API_KEY=x", "process.env.ANTHROPIC_API_KEY = 'x';" + script);
    EXPECT_THAT(done.err, HasSubstr("429"));
    EXPECT_EQ(events_of(EventKind::Http).size() - before, 1U);
  }
}

TEST_F(Libraries, AnthropicsTakesItForATokenOfASession) {
  const std::string key = vendor("api.anthropic.com", "ANTHROPIC_AUTH_TOKEN");
  const auto done = node("ANTHROPIC_AUTH_TOKEN=" + key, kAnthropic);
  EXPECT_EQ(done.out, "hello\n") << done.err;
  EXPECT_THAT(seen(), HasSubstr("POST /v1/messages " + with("Bearer ")));
}

}
}
