#pragma once
// A connection to the server of an inspected one, until it can be spoken on: dialled, and for TLS
// the handshake done and the certificate verified.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "connector.h"
#include "http_flow.h"

namespace mvm::egress {

class ServerOpening {
 public:
  struct Result {
    std::optional<OpenChannel> server;
    // When there is none:
    HttpEnd failure;
    bool no_common_protocol = false;  // it speaks none of those that were offered
  };
  using Done = std::function<void(Result)>;

  // `protocols` are offered in ALPN, best first. `done` is called once, never from the constructor;
  // the callee may drop the opening.
  ServerOpening(HttpParts parts, const HttpOrigin& origin, std::vector<std::string> protocols,
                Done done);

 private:
  void connected(Dial::Result result, const HttpOrigin& origin);
  void turn();
  void fail(policy::Reason reason, std::string detail, bool no_common_protocol = false);
  void finish(Result result);

  HttpParts parts_;
  std::vector<std::string> protocols_;
  Done done_;
  std::optional<Channel> channel_;
  Bytes input_;
  loop::Watch watch_;
  loop::Watch deadline_;
  Connector connector_;
};

}
