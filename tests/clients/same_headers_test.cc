// What a server sees of a request is what the client wrote: the same method, target and fields, in
// their order and spelling, by way of the proxy as without it. Nothing of the sandbox is in it.
#include <algorithm>
#include <sstream>

#include "clients.h"

namespace mvm::egress {
namespace {

constexpr const char* kApp = "93.184.216.34";

// Prints the head of each request as it came. HTTP/2's fields are printed in their order too.
constexpr const char* kHeads = R"(
const tls = require('tls'), http2 = require('http2'), fs = require('fs')
const [address, pem, protocol] = process.argv.slice(1)
const keys = {cert: fs.readFileSync(pem), key: fs.readFileSync(pem + '.key'), ALPNProtocols: [protocol]}
if (protocol == 'h2') {
  http2.createSecureServer(keys).on('stream', (s, h, flags, raw) => {
    let text = ''
    for (let i = 0; i < raw.length; i += 2) text += raw[i] + ': ' + raw[i + 1] + '\n'
    s.on('data', d => text += d); s.on('end', () => { console.log(text); s.respond({':status': 200}); s.end('fine') })
  }).listen(443, address)
} else {
  tls.createServer(keys, s => {
    let text = ''
    s.on('error', () => {})
    s.on('data', d => {
      text += d.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      const length = +(/^content-length: *(\d+)/im.exec(text) || [0, 0])[1]
      if (text.length < end + 4 + length) return
      console.log(text); text = ''
      s.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine')
    })
  }).listen(443, address)
}
)";

class SameHeaders : public ClientWorld {
 protected:
  void begin(const std::string& protocol) {
    own_host("app.example", kApp);
    allow_endpoint("* https://app.example/**");
    server_ = &serve({"node", "-e", kHeads, kApp, directory() + "/app.example.pem", protocol},
                     {ip(kApp), 443});
    start();
  }
  // As in the guest, and on the server's own side of the proxy: the same name, another bundle.
  Program::Exit directly(const std::vector<std::string>& words) {
    const std::string hosts = file("hosts", std::string(kApp) + " app.example\n");
    const std::string bundle = directory() + "/app.example.pem";
    std::vector<std::string> argv{
        "unshare",
        "-m",
        "sh",
        "-ec",
        "mount --bind \"$0\" /etc/hosts; mount --bind \"$1\" /etc/ssl/certs/ca-certificates.crt; "
        "shift; exec \"$@\"",
        hosts,
        bundle,
        "env",
        "-i",
        kPath,
        "HOME=" + directory() + "/home",
        "LANG=C"};
    for (const char* variable : {"NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
      argv.push_back(std::string(variable) + "=" + bundle);
    argv.insert(argv.end(), words.begin(), words.end());
    Program program(loop_, argv, -1, "");
    program.end_input();
    EXPECT_TRUE(eventually([&] { return program.ended(); }));
    return program.exit();
  }
  // The lines that the server has printed since the last time.
  std::vector<std::string> heads() {
    std::istringstream text(server_->exit().out.substr(read_));
    read_ = server_->exit().out.size();
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
  void compare(const std::vector<std::string>& words) {
    const auto direct = directly(words);
    EXPECT_EQ(direct.code, 0) << direct.err;
    const auto without = heads();
    const auto through = run(words);
    EXPECT_EQ(through.code, 0) << through.err;
    auto with = heads();
    EXPECT_GT(without.size(), 3U);
    // The connection's own fields are between neighbours (RFC 9110 §7.6.1).
    const auto of_the_hop = [](const std::string& line) {
      return http::same_name(line.substr(0, line.find(':')), "Connection");
    };
    auto expected = without;
    std::erase_if(expected, of_the_hop);
    std::erase_if(with, of_the_hop);
    // Pseudo-header fields have no order.
    std::ranges::stable_sort(with, {}, pseudo_first);
    std::ranges::stable_sort(expected, {}, pseudo_first);
    EXPECT_EQ(with, expected) << words[0];
  }
  static std::string pseudo_first(const std::string& line) {
    return line.starts_with(':') ? line : ";";  // which is behind ':'
  }
  Program* server_ = nullptr;
  size_t read_ = 0;
};

TEST_F(SameHeaders, OfHttp1) {
  NEEDS("command -v node");
  begin("http/1.1");
  compare({"curl", "-sS", "https://app.example/a/b?c=d&e=%20f"});
  compare({"curl", "-sS", "-d", "body", "-H", "X-MiXed: Case", "-H", "x-twice: 1", "-H",
           "x-twice: 2", "-H", "Accept-Encoding: br", "-A", "", "https://app.example/post"});
  compare({"node", "-e",
           "fetch('https://app.example/x', {headers: {'X-One': '1'}}).then(r => r.text())"});
  compare(
      {"/usr/bin/python3", "-c",
       "import urllib.request as u; u.urlopen(u.Request('https://app.example/y', data=b'abc'))"});
  if (has("/usr/bin/python3 -c 'import requests'"))
    compare({"/usr/bin/python3", "-c",
             "import requests; requests.put('https://app.example/z', json={'a': 1}, cookies={'c': "
             "'d'})"});
}

TEST_F(SameHeaders, OfHttp2) {
  NEEDS("command -v node");
  begin("h2");
  compare({"curl", "-sS", "--http2", "https://app.example/a/b?c=d"});
  compare({"curl", "-sS", "--http2", "-d", "body", "-H", "X-MiXed: Case", "-H", "x-twice: 1", "-H",
           "x-twice: 2", "-H", "Cookie: a=b; c=d", "https://app.example/post"});
}

// That a secret is for the host shows in one field.
TEST_F(SameHeaders, WithASecretButForTheCoding) {
  NEEDS("command -v node");
  proto::SecretRule rule;
  rule.name = "KEY";
  rule.hosts = {"app.example"};
  use_secrets({rule}, "value-of-nobody");
  begin("http/1.1");
  compare({"curl", "-sS", "-H", "Accept-Encoding: identity", "https://app.example/a"});
  heads();
  run({"curl", "-sS", "-H", "Accept-Encoding: gzip", "https://app.example/b"});
  const auto seen = heads();
  EXPECT_EQ(std::ranges::count(seen, "Accept-Encoding: identity\r"), 1);
}

}
}
