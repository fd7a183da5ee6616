// Servers that send clients elsewhere, old versions of TLS, and certificates whose time is over.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";

// Sends "/to?URL" to URL, says "hello PATH" otherwise; prints what it was asked. With a certificate
// it speaks TLS, of the version that is named.
constexpr const char* kServer = R"(
import http.server, socket, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.headers['Host'], self.requestline, self.headers.get('Authorization'), flush=True)
  def do_GET(self):
    text = ('hello ' + self.path).encode()
    to = self.path.startswith('/to?')
    self.send_response(302 if to else 200)
    if to: self.send_header('Location', self.path[4:])
    self.send_header('Content-Length', str(len(text))); self.end_headers(); self.wfile.write(text)
class S(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = S((sys.argv[1], int(sys.argv[2])), H)
if len(sys.argv) > 3:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  if len(sys.argv) > 4: c.maximum_version = ssl.TLSVersion[sys.argv[4]]
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class HttpUpstream : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    for (const char* host : {"api.example", "other.example", "unruled.example"})
      resolver_.add(host, kPublic);
  }
  Program& serve_http() {
    return serve({"python3", "-u", "-c", kServer, kPublic, "80"}, {ip(kPublic), 80});
  }
  Program& serve_https(const std::string& path, std::vector<std::string> version = {},
                       const std::string& address = kPublic) {
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    std::vector<std::string> argv{"python3", "-u", "-c", kServer, address, "443", path};
    argv.insert(argv.end(), version.begin(), version.end());
    return serve(argv, {ip(address), 443});
  }
  void start_proxy() {
    EgressTest::start_proxy();
    if (settings_.trust) authority_ = file("authority.pem", proxy_->authority_pem());
  }
  std::string authority_;
};

// A redirect is nothing but an answer: what the client makes of it is a request like any other.
TEST_F(HttpUpstream, ARedirectOpensNothing) {
  Program& server = serve_http();
  allow_endpoint("GET http://api.example/to");
  allow_endpoint("GET http://api.example/v1/**");
  allow_endpoint("GET http://other.example/**");
  start_proxy();
  const auto follow = [&](const std::string& where) {
    return guest({"curl", "-sS", "-L", "-m", "20", "-w", "%{http_code}", "-H",
                  "Authorization: secret", "http://api.example/to?" + where});
  };
  EXPECT_EQ(follow("/v1/a").out, "hello /v1/a200");
  EXPECT_EQ(follow("http://other.example/b").out, "hello /b200");
  EXPECT_THAT(follow("/admin").out, AllOf(HasSubstr("policy_denied"), HasSubstr("403")));
  EXPECT_THAT(follow("http://unruled.example/c").err, HasSubstr("Could not resolve"));
  EXPECT_THAT(follow("http://93.184.216.34:8080/d").err, HasSubstr("Failed to connect"));
  EXPECT_NE(follow("http://169.254.169.254/latest/meta-data/").code, 0);
  for (const char* request : {"GET /admin", "GET /c", "GET /d", "GET /latest"})
    EXPECT_THAT(server.exit().out, Not(HasSubstr(request)));
  EXPECT_THAT(told(), Contains("http deny policy_denied GET api.example 93.184.216.34 80"));
  EXPECT_THAT(told(), Contains("dns deny policy_denied A unruled.example"));
  EXPECT_THAT(told(), Contains("connect deny cloud_metadata 169.254.169.254 80"));
}

// A server that wants to know its client: whoever looks into the connection cannot show its
// certificate, and TLS 1.3 tells of that only behind the handshake, if the connection's end leaves
// it time to.
TEST_F(HttpUpstream, SaysThatAServerWantsItsClientsCertificate) {
  const std::string path = certificate("api.example");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
  for (const char* port : {"443", "8443"}) {
    std::vector<std::string> argv{"openssl", "s_server",
                                  "-quiet",  "-Verify",
                                  "1",       "-verify_return_error",
                                  "-accept", std::string(kPublic) + ":" + port,
                                  "-cert",   path,
                                  "-key",    path + ".key",
                                  "-www"};
    argv.emplace_back(std::string(port) == "443" ? "-tls1_3" : "-tls1_2");
    serve(argv, {ip(kPublic), static_cast<uint16_t>(std::atoi(port))});
    allow_endpoint("GET https://api.example:" + std::string(port) + "/**");
  }
  start_proxy();
  for (const char* place : {"api.example", "api.example:8443"}) {
    for (const char* version : {"--http1.1", "--http2"}) {
      const auto exit = guest({"curl", "-sS", "-m", "30", version, "--cacert", authority_,
                               "https://" + std::string(place) + "/"});
      EXPECT_THAT(exit.out, AllOf(HasSubstr("upstream_tls"), HasSubstr("client's certificate")))
          << place << version << exit.err;
    }
  }
}

// Old clients say so in ALPN (curl -0).
TEST_F(HttpUpstream, AClientOfHttp10IsNoStranger) {
  serve_https(certificate("api.example"));
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto exit =
      guest({"curl", "-sS", "-0", "-m", "30", "--cacert", authority_, "https://api.example/v1/a"});
  EXPECT_EQ(exit.out, "hello /v1/a") << exit.err;
}

// The certificate with its time over, signed again.
void let_expire(const std::string& path) {
  const auto open = [](const std::string& name, const char* mode) {
    return std::unique_ptr<FILE, int (*)(FILE*)>(std::fopen(name.c_str(), mode), &std::fclose);
  };
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      PEM_read_X509(open(path, "r").get(), nullptr, nullptr, nullptr), &X509_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_PrivateKey(open(path + ".key", "r").get(), nullptr, nullptr, nullptr),
      &EVP_PKEY_free);
  ASSERT_TRUE(certificate && key);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -86400 * 3);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), -86400);
  ASSERT_NE(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  ASSERT_EQ(PEM_write_X509(open(path, "w").get(), certificate.get()), 1);
}

TEST_F(HttpUpstream, ACertificateWhoseTimeIsOverIsSaidToBe) {
  const std::string path = certificate("api.example");
  let_expire(path);
  serve_https(path);
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto exit =
      guest({"curl", "-sS", "--cacert", authority_, "-w", "%{http_code}", "https://api.example/"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("502"), HasSubstr("upstream_tls"), HasSubstr("expired")))
      << exit.err;
}

TEST_F(HttpUpstream, SpeaksTheVersionOfTlsThatEachSideHas) {
  serve_https(certificate("api.example"), {"TLSv1_2"});
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  for (const char* version : {"1.2", "1.3"}) {
    const auto exit = guest({"curl", "-sS", "-v", "--cacert", authority_, "--tls-max", version,
                             "https://api.example/x"});
    EXPECT_EQ(exit.out, "hello /x") << exit.err;
    EXPECT_THAT(exit.err, HasSubstr(std::string("SSL connection using TLSv") + version));
  }
  // What is older nobody should speak.
  EXPECT_NE(guest({"curl", "-sS", "--cacert", authority_, "--tls-max", "1.1", "--tlsv1.1",
                   "https://api.example/x"})
                .code,
            0);
}

TEST_F(HttpUpstream, ResumesSessions) {
  serve_https(certificate("api.example"));
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const std::string session = directory() + "/session";
  const auto connect = [&](const char* version, const char* option) {
    return guest({"sh", "-c",
                  "{ printf 'GET /x HTTP/1.1\\r\\nHost: api.example\\r\\nConnection: "
                  "close\\r\\n\\r\\n'; sleep 0.3; } | "
                  "openssl s_client -ign_eof -servername api.example -CAfile " +
                      authority_ + " " + version + " " + option + " " + session +
                      " -connect api.example:443"})
        .out;
  };
  for (const char* version : {"-tls1_2", "-tls1_3"}) {
    EXPECT_THAT(connect(version, "-sess_out"),
                AllOf(HasSubstr("New, TLSv"), HasSubstr("hello /x")));
    EXPECT_THAT(connect(version, "-sess_in"),
                AllOf(HasSubstr("Reused, TLSv"), HasSubstr("hello /x")));
  }
}

// Towards servers too: their part of a full handshake is what a new connection costs most.
class ResumedServer : public HttpUpstream, public ::testing::WithParamInterface<const char*> {};

TEST_P(ResumedServer, KnowsTheProxyAgain) {
  const std::string path = certificate("api.example");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
  const Program& server = serve({"python3", "-u", "-c", R"(
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[1], sys.argv[1] + '.key')
c.maximum_version = ssl.TLSVersion[sys.argv[2]]
l = socket.create_server(('93.184.216.34', 443))
while True:
  try:
    s = c.wrap_socket(l.accept()[0], server_side=True); s.recv(65536)
    print(s.session_reused, flush=True); s.sendall(b'HTTP/1.1 204 N\r\n\r\n'); s.unwrap(); s.close()
  except OSError: pass
)",
                                 path, GetParam()},
                                {ip(kPublic), 443});
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  for (int i = 0; i < 3; ++i) {
    const auto exit = guest(
        {"curl", "-sS", "--cacert", authority_, "-w", "%{http_code}", "https://api.example/"});
    EXPECT_EQ(exit.out, "204") << exit.err;
  }
  EXPECT_TRUE(eventually([&] { return server.exit().out == "False\nTrue\nTrue\n"; }))
      << server.exit().out;
}

INSTANTIATE_TEST_SUITE_P(Versions, ResumedServer, ::testing::Values("TLSv1_2", "TLSv1_3"),
                         [](const auto& made) { return std::string(made.param); });

// An answer that ends with its connection is whole when TLS says so, and only then.
TEST_F(HttpUpstream, AnEndThatTlsDoesNotTellIsNone) {
  const std::string path = certificate("api.example");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
  serve({"python3", "-u", "-c", R"(
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[1], sys.argv[1] + '.key')
l = socket.create_server(('93.184.216.34', 443))
while True:
  try:
    s = c.wrap_socket(l.accept()[0], server_side=True); head = s.recv(65536)
    chunked = b'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'
    s.sendall(b'HTTP/1.1 200 OK\r\n' + (chunked if b'/chunked' in head else b'\r\nbody'))
    if b'/cut' not in head: s = s.unwrap()
    s.close()
  except OSError: pass
)",
         path},
        {ip(kPublic), 443});
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto get = [&](const std::string& what) {
    return guest({"curl", "-sS", "--cacert", authority_, "https://api.example/" + what});
  };
  const auto whole = get("whole");
  EXPECT_EQ(whole.out, "body") << whole.err;
  EXPECT_EQ(whole.code, 0) << whole.err;
  for (const char* cut : {"cut", "chunked", "chunked/cut"}) EXPECT_NE(get(cut).code, 0) << cut;
}

// A host that is not looked into is relayed to who presents its name, and to nobody else.
TEST_F(HttpUpstream, ABypassedHostIsStillHeldToItsName) {
  const std::string path = certificate("api.example");
  Program& server = serve_https(path);
  allow_host("api.example");
  settings_.policy.inspect = {{policy::HostPattern::parse("api.example").value(), {}, false},
                              {{}, {}, true}};
  start_proxy();
  EXPECT_EQ(guest({"curl", "-sS", "--cacert", path, "https://api.example/x"}).out, "hello /x");
  const auto other = guest({"curl", "-sS", "-k", "--connect-to",
                            "other.example:443:api.example:443", "https://other.example/y"});
  EXPECT_NE(other.code, 0) << other.out;
  EXPECT_THAT(server.exit().out, Not(HasSubstr("/y")));
  EXPECT_THAT(told(), Contains(HasSubstr("tls deny sni_mismatch")));
}

// A hello may hold another that is encrypted, of which browsers send an imitation each time. The
// name that counts is the one in the clear, and where a connection is looked into nobody reads the
// other.
TEST_F(HttpUpstream, AnEncryptedHelloCountsForNothing) {
  const std::string path = certificate("api.example");
  serve_https(path);
  const auto connect = [&](const std::string& authority, const std::string& name) {
    return guest({"sh", "-c",
                  "{ printf 'GET /x HTTP/1.1\\r\\nHost: api.example\\r\\nConnection: "
                  "close\\r\\n\\r\\n'; sleep 0.3; } | "
                  "openssl s_client -ign_eof -tls1_3 -msg -serverinfo 65037 -verify_return_error "
                  "-servername " +
                      name + " -CAfile " + authority +
                      " -connect api.example:443 2>&1 | tr -d ' \\n'"})
        .out;
  };
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  // The dump of what was sent is between the lines.
  const auto both = AllOf(HasSubstr("fe0d0000"), HasSubstr("hello/x"));
  EXPECT_THAT(connect(authority_, "api.example"), both);
  EXPECT_THAT(connect(authority_, "other.example"), HasSubstr("unrecognizedname"));
  settings_.policy.routes.clear();
  allow_host("api.example");
  proxy_->set_policy(settings_.policy, Mode::Enforce);
  EXPECT_THAT(connect(path, "api.example"), both);
}

// A server that has no name is its address, to the client and to the proxy.
class NamelessServer : public HttpUpstream, public ::testing::WithParamInterface<const char*> {};

TEST_P(NamelessServer, IsItsAddress) {
  const std::string address = GetParam();
  own_address(address);
  const std::string literal = ip(address).is_v4() ? address : "[" + address + "]";
  const std::string path = directory() + "/address.pem";
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x "
      "-addext subjectAltName=IP:" +
      address + " -keyout " + path + ".key -out " + path + " 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT: the test's own words
  Program& server = serve_https(path, {}, address);
  allow_range(literal + ":443");
  settings_.policy.inspect.push_back({{}, {}, true});
  start_proxy();
  const std::string url = "https://" + literal + "/x";
  EXPECT_EQ(guest({"curl", "-sS", "-g", "--cacert", authority_, url}).out, "hello /x");
  EXPECT_THAT(told(), Contains("http allow allowed GET " + address + " 443"));
  // A name that the guest has from elsewhere opens nothing more.
  EXPECT_THAT(guest({"curl", "-sS", "--cacert", authority_, "--resolve",
                     "api.example:443:" + literal, "https://api.example/y"})
                  .out,
              HasSubstr("policy_denied"));
  EXPECT_THAT(server.exit().out, Not(HasSubstr("/y")));
  // Not looked into, it is relayed as it is.
  policy::Policy policy = settings_.policy;
  policy.inspect.clear();
  proxy_->set_policy(policy, Mode::Enforce);
  EXPECT_EQ(guest({"curl", "-sS", "-g", "--cacert", path, url}).out, "hello /x");
}

INSTANTIATE_TEST_SUITE_P(Families, NamelessServer, ::testing::Values(kPublic, "2600:6::6"),
                         [](const auto& made) { return made.index == 0 ? "IPv4" : "IPv6"; });

TEST_F(HttpUpstream, AnAddressIsProvedByACertificateToo) {
  serve_https(certificate("api.example"));
  allow_range("93.184.216.34:443");
  settings_.policy.inspect.push_back({{}, {}, true});
  start_proxy();
  EXPECT_THAT(
      guest({"curl", "-sS", "--cacert", authority_, "-w", "%{http_code}", "https://93.184.216.34/"})
          .out,
      AllOf(HasSubstr("502"), HasSubstr("upstream_tls")));
}

}
}
