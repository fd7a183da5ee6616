#pragma once
// A connection or a request that a rule leaves to a person (policy::Outcome::Ask), while it waits.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "mvm/base/ip.h"

namespace mvm::egress {

struct OpenQuestion {
  uint64_t number = 0;  // rises; never used again
  std::string host;     // without a final dot; empty: the guest used an address
  std::optional<IpAddress> address;
  uint16_t port = 0;
  std::string method;    // of a request; empty: a connection
  std::string path;      // of a request, with what follows "?" left out
  std::string rule;      // the id of the rule that asks
  uint32_t waiting = 0;  // connections and requests that its answer is for
  std::chrono::milliseconds left{0};
};

// Called on the loop's thread when a new one waits. Must not throw, and must not call the proxy.
using QuestionSink = std::function<void(const OpenQuestion&)>;

}
