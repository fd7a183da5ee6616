#pragma once
// Where somebody wants to go who names the server to the proxy, instead of asking DNS and
// connecting: found by the same steps. The name is judged before anything is sent for it, the
// host's resolvers are asked, each address is judged, and the one that is taken is pinned.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mvm/http/target.h"

#include "judge.h"
#include "name_gate.h"
#include "pin_table.h"
#include "resolver.h"

namespace mvm::egress {

class Destination {
 public:
  struct Parts {
    loop::Loop& loop;
    Judge& judge;
    PinTable& pins;
    Resolver& resolver;
    NameGate& names;
  };
  struct Result {
    policy::Request request;     // host, address and port, as far as it came
    Verdict verdict;             // of that
    std::optional<Endpoint> to;  // where it is admitted, or a person has to say
    std::string failure;         // admitted, and the name leads nowhere: why
  };
  // Called once, never from the constructor; the callee may drop the object.
  using Done = std::function<void(Result)>;

  Destination(Parts parts, const http::Authority& authority, uint16_t port, Done done);

 private:
  void judge_name();
  void resolve(dns::RecordType type);
  void take(dns::RecordType type, const Answer& answer);
  bool take_address(const dns::Record& record);
  void finish();

  Parts parts_;
  Done done_;
  Result result_;
  std::optional<Verdict> shut_;  // the first address that the policy does not admit
  std::optional<IpAddress> shut_address_;
  loop::Watch later_;
  // For answers that come when this has gone.
  std::shared_ptr<Destination*> self_ = std::make_shared<Destination*>(this);
};

}
