#pragma once
// What the proxy tells about its work: one event for each decision, and one for each flow's end.
// Plain data, for the audit log, the run's summary and `mvm logs --egress`. Never holds payload:
// of a request its method and path, of a query its name and type.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/base/ip.h"
#include "mvm/net/refusals.h"
#include "mvm/policy/policy.h"

namespace mvm::egress {

enum class EventKind : uint8_t {
  Dns,      // a query was judged; `method` is its type: "A", "AAAA", "TYPE16"
  Connect,  // a connection was judged by its name, address and port; datagrams are only ever
            // refused
  Tls,      // a connection was judged by its ClientHello too, and is not inspected
  Http,     // one request was judged
  End,      // an admitted flow ended: bytes, and `reason` when it was not the peers who ended it
};
// "dns", "connect", "tls", "http", "end"
std::string_view event_word(EventKind kind) noexcept;

struct Event {
  std::chrono::system_clock::time_point time;
  EventKind kind = EventKind::Connect;
  // The same in all events of one connection; 0: a query, or a packet that no flow came of.
  uint64_t flow = 0;
  std::string host;                  // without a final dot; empty: the guest used an address
  std::optional<IpAddress> address;  // where it went or would have gone, as far as it was known
  uint16_t port = 0;                 // 0 for queries
  std::optional<net::Transport> transport = net::Transport::Tcp;  // nothing: nobody knows
  std::string method;                                             // of a request or a query
  std::string path;  // of a request, with what follows "?" left out
  policy::Outcome outcome = policy::Outcome::Deny;
  policy::Reason reason = policy::Reason::PolicyDenied;
  bool audited = false;    // let through by Mode::Audit alone: `reason` is why it would be refused
  std::string rule;        // the id of the rule that decided; empty when none did
  std::string suggestion;  // the flag that would admit exactly this; empty when none can
  std::string detail;      // of a failure: "connection refused"; never from the guest
  // Events of which this one stands for many: refused packets come by the thousand.
  uint64_t count = 1;
  uint64_t sent = 0;      // bytes from the guest; of an End
  uint64_t received = 0;  // bytes to the guest; of an End
};

// How refusals are told that the guest gets an answer to.
enum class Refusals : uint8_t {
  Together,  // of equal ones within a second, those after the first as their number, afterwards
  Each,      // before it is answered
};

// Called on the loop's thread, in the order of what happened, and before what it tells of does.
// False: it could not be put on record, and what was to be let through is refused. Must not throw,
// and must not call the proxy.
using EventSink = std::function<bool(const Event&)>;

}
