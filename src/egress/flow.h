#pragma once
// One connection of the guest, from the accept to the end.
//
//   accepted ─ judged by pinned name, address and port ─┬─ refused: reset
//                                                       │
//   where clients speak first (443, 80, …):             │   elsewhere, where servers may:
//   first bytes ─ judged by the ClientHello ─ dial ─    │   dial ─ whoever speaks first ─
//                            │                          │               │
//                            ├ refused: TLS alert       └─────────── relay
//                            └ inspected: Http1Flow
//
// The client's first bytes are looked at and left in the socket, so a relay starts with nothing to
// carry over.

#include <memory>
#include <optional>
#include <vector>

#include "connector.h"
#include "hello_peek.h"
#include "http1_flow.h"
#include "interception.h"
#include "judge.h"
#include "last_words.h"
#include "pin_table.h"
#include "relay.h"
#include "reporter.h"
#include "resolver.h"

namespace mvm::egress {

struct FlowParts {
  loop::Loop& loop;
  Judge& judge;
  PinTable& pins;
  Resolver& resolver;
  Reporter& reporter;
  PipePool& pipes;
  Meter& meter;
  Interception* interception;  // nothing: the policy had no routes when the proxy was made
  const std::vector<std::shared_ptr<FilterSource>>& filters;
  Counters& counters;
};

class Flow {
 public:
  // `ended` is called once, in or after start(); it must not drop the flow before the next turn.
  Flow(FlowParts& parts, uint64_t id, sys::Fd guest, const Endpoint& to,
       std::function<void()> ended);
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  void start();
  // Ends it by a reset on both sides.
  void reset(policy::Reason reason);
  // Ends it when nothing has been carried for too long.
  void end_if_idle();

 private:
  enum class Stage : uint8_t {
    Start,
    FirstBytes,
    Dialing,
    WaitForEither,
    Relaying,
    Http,
    LastWords,
    Ended
  };

  policy::Request request() const;
  Verdict judge_connection();
  Verdict judge_hello(const ClientHello& hello, policy::Request& request) const;
  void wait_for_first_bytes();
  void look(uint32_t events);
  void take_hello(const ClientHello& hello);
  void take_other();
  void admit(EventKind kind, const policy::Request& request, const Verdict& verdict);
  void refuse(EventKind kind, const policy::Request& request, const Verdict& verdict,
              std::string message = {});
  void dial();
  void dialed(Dial::Result result);
  void proceed();
  void relay();
  void inspect(bool tls);
  void inspected(const Http1Flow::End& how);
  void end(policy::Reason reason = policy::Reason::Allowed, std::string detail = {});
  void finish();

  FlowParts& parts_;
  uint64_t id_;
  sys::Fd guest_;
  Endpoint to_;
  std::function<void()> ended_;
  Stage stage_ = Stage::Start;
  std::vector<dns::Name> names_;  // pinned to the address
  bool holds_pin_;
  std::optional<dns::Name> host_;  // the one that was admitted
  bool speaks_first_ = false;      // the client does
  bool judged_ = false;            // by its first bytes, or what the server said made them moot
  bool told_ = false;              // that it was admitted: so its end is told too
  loop::Watch watch_;
  loop::Watch server_watch_;
  loop::Watch deadline_;
  std::unique_ptr<Connector> dial_;
  sys::Fd upstream_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Http1Flow> http_;
  std::unique_ptr<LastWords> last_words_;
};

}
