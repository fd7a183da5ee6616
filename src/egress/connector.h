#pragma once
// Connects to where the guest's connection goes; when that is slow or fails, to other addresses of
// the same name that the policy admits. The guest's own choice cannot know which address family
// works from here.

#include <memory>

#include "dial.h"
#include "judge.h"
#include "resolver.h"

namespace mvm::egress {

class Connector {
 public:
  struct Parts {
    loop::Loop& loop;
    Judge& judge;
    Resolver& resolver;
    std::chrono::milliseconds patience;
  };
  // `host` is empty for connections that are judged by their address alone.
  Connector(Parts parts, std::optional<dns::Name> host, const Endpoint& to, Dial::Done done);

 private:
  void add_addresses();

  Parts parts_;
  std::optional<dns::Name> host_;
  Endpoint to_;
  // For answers that come when this has gone.
  std::shared_ptr<Connector*> self_ = std::make_shared<Connector*>(this);
  Dial dial_;
};

}
