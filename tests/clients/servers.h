#pragma once
// The servers of the clients' tests: nginx with files, and an application in Node.

#include "clients.h"

namespace mvm::egress {

inline constexpr const char* kFiles = "93.184.216.34";
inline constexpr const char* kApp = "93.184.216.36";

inline constexpr const char* kNginx = R"(
daemon off; master_process off; pid DIR/nginx.pid; error_log DIR/nginx.err;
events { worker_connections 64; }
http {
  access_log off; default_type application/octet-stream; types { application/json json; text/html html; }
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4;
  scgi_temp_path DIR/t5;
  server {
    listen 93.184.216.34:443 ssl; root DIR/www; index index.html index.json;
    ssl_certificate DIR/files.example.pem; ssl_certificate_key DIR/files.example.pem.key;
  }
}
)";

// Answers with what it was asked, in either version of HTTP; says a body's hash; echoes over a
// WebSocket at /ws.
inline constexpr const char* kNodeServer = R"(
const fs = require('fs'), http2 = require('http2'), crypto = require('crypto'), ws = require('ws')
const [address, certificate] = process.argv.slice(1)
const keys = {cert: fs.readFileSync(certificate), key: fs.readFileSync(certificate + '.key'), allowHTTP1: true}
const server = http2.createSecureServer(keys, (q, r) => {
  const hash = crypto.createHash('sha256')
  q.on('data', piece => hash.update(piece))
  q.on('end', () => {
    r.writeHead(200, {'content-type': 'application/json', 'x-version': q.httpVersion})
    r.write(JSON.stringify({method: q.method, url: q.url, hash: hash.digest('hex')}))
    r.end()
  })
})
new ws.WebSocketServer({server, path: '/v1/ws'}).on('connection', s => s.on('message', (m, binary) => s.send(m, {binary})))
server.listen(443, address)
)";

class Clients : public ClientWorld {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_host("files.example", kFiles);
    own_host("app.example", kApp);
  }

  void serve_files() {
    std::string text = kNginx;
    for (size_t at = 0; (at = text.find("DIR", at)) != text.npos;) text.replace(at, 3, directory());
    file("nginx.conf", text);
    // As a user that is not root: as root it would become another, which needs more rights.
    serve({"sh", "-ec", R"(
      echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
      exec unshare --user --map-user=1000 --map-group=1000 nginx -c "$0")",
           directory() + "/nginx.conf"},
          {ip(kFiles), 443});
  }
  void serve_app() {
    serve({"env", "NODE_PATH=/usr/share/nodejs", "node", "-e", kNodeServer, kApp,
           directory() + "/app.example.pem"},
          {ip(kApp), 443});
  }
};

}
