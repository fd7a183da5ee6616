// Git over HTTPS through the proxy, as people clone and push.
#include "clients.h"

namespace mvm::egress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kGit = "93.184.216.35";

// Git's own server behind TLS, as a web server runs it; with a fourth word it wants that as the
// password, and prints what it got.
constexpr const char* kGitServer = R"(
import base64, http.server, os, ssl, subprocess, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def body(self):
    if self.headers.get('Transfer-Encoding') != 'chunked':
      return self.rfile.read(int(self.headers.get('Content-Length', 0)))
    out = b''
    while (n := int(self.rfile.readline().split(b';')[0], 16)):
      out += self.rfile.read(n); self.rfile.readline()
    self.rfile.readline()
    return out
  def do_GET(self):
    path, _, query = self.path.partition('?')
    if len(sys.argv) > 4:
      got = self.headers.get('Authorization', '-').split()[-1]
      print(base64.b64decode(got) if got != '-' else got, flush=True)
      if got != base64.b64encode(('x-access-token:' + sys.argv[4]).encode()).decode():
        self.body()
        self.send_response(401); self.send_header('WWW-Authenticate', 'Basic realm="git"')
        self.send_header('Content-Length', '0'); self.end_headers()
        return
    env = dict(os.environ, GIT_PROJECT_ROOT=sys.argv[3], GIT_HTTP_EXPORT_ALL='1', PATH_INFO=path, QUERY_STRING=query,
               REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get('Content-Type', ''), REMOTE_USER='t', REMOTE_ADDR='x',
               HTTP_CONTENT_ENCODING=self.headers.get('Content-Encoding', ''), GIT_PROTOCOL=self.headers.get('Git-Protocol', ''))
    out = subprocess.run(['git', 'http-backend'], input=self.body(), env=env, capture_output=True).stdout
    head, _, body = out.partition(b'\r\n\r\n')
    fields = [line.split(': ', 1) for line in head.decode().split('\r\n')]
    self.send_response(next((int(v.split()[0]) for k, v in fields if k == 'Status'), 200))
    for k, v in fields:
      if k != 'Status': self.send_header(k, v)
    self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
  do_POST = do_GET
s = http.server.ThreadingHTTPServer((sys.argv[1], 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class Git : public ClientWorld {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (!IsSkipped()) own_host("git.example", kGit);
  }
};

TEST_F(Git, ClonesAndIsToldThatItMayNotPush) {
  NEEDS("command -v git && test -x /usr/lib/git-core/git-http-backend");
  prepare(R"(
    export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
    git init -q -b main work; cd work; dd if=/dev/urandom of=big bs=1M count=2 2>/dev/null; echo one >a
    git add .; git commit -qm one; git clone -q --bare . ../srv/repo.git
    git -C ../srv/repo.git config http.receivepack true)");
  serve({"python3", "-u", "-c", kGitServer, kGit, directory() + "/git.example.pem",
         directory() + "/srv"},
        {ip(kGit), 443});
  allow_endpoint("GET https://git.example/repo.git/**");
  allow_endpoint("POST https://git.example/repo.git/git-upload-pack");
  start();
  const auto cloned = sh(R"(
    git clone -q https://git.example/repo.git "$0/clone"; cmp "$0/work/big" "$0/clone/big"
    cd "$0/clone"; git fetch -q; git config user.name t; git config user.email t@t; echo two >a
    git commit -qam two; if git push -q 2>"$0/push"; then exit 9; fi; cat "$0/push")");
  EXPECT_EQ(cloned.code, 0) << cloned.out << cloned.err;
  EXPECT_THAT(cloned.out, HasSubstr("403"));
  prepare("test \"$(git -C srv/repo.git log --oneline | wc -l)\" = 1");
}

// The password that a guest has is a placeholder: in the address, and kept by Git's own store.
TEST_F(Git, TakesAPlaceholderForItsPassword) {
  NEEDS("command -v git && test -x /usr/lib/git-core/git-http-backend");
  constexpr std::string_view kValue = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
  prepare(R"(
    export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
    git init -q -b main work; cd work; echo one >a; git add .; git commit -qm one
    git clone -q --bare . ../srv/repo.git; git -C ../srv/repo.git config http.receivepack true)");
  proto::SecretRule rule;
  rule.name = "GITHUB_TOKEN";
  rule.hosts = {"git.example"};
  const std::string placeholder = use_secrets({rule}, std::string(kValue)).at(0);
  allow_host("git.example");
  const Program& server =
      serve({"python3", "-u", "-c", kGitServer, kGit, directory() + "/git.example.pem",
             directory() + "/srv", std::string(kValue)},
            {ip(kGit), 443});
  start();
  const auto worked = sh("token=" + placeholder + R"(
    git clone -q "https://x-access-token:$token@git.example/repo.git" "$0/clone"; cd "$0/clone"
    git config user.name t; git config user.email t@t; echo two >a; git commit -qam two; git push -q
    git config credential.helper store; git remote set-url origin https://git.example/repo.git
    printf 'protocol=https\nhost=git.example\nusername=x-access-token\npassword=%s\n' "$token" | git credential approve
    echo three >a; git commit -qam three; git push -q; git ls-remote origin main)");
  EXPECT_EQ(worked.code, 0) << worked.out << worked.err;
  EXPECT_THAT(worked.out, HasSubstr("refs/heads/main"));
  prepare("test \"$(git -C srv/repo.git log --oneline | wc -l)\" = 3");
  const std::string seen = server.exit().out;
  EXPECT_THAT(seen, HasSubstr("x-access-token:" + std::string(kValue)));
  EXPECT_THAT(seen, Not(HasSubstr(placeholder)));
}

}
}
