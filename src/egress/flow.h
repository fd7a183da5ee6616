#pragma once
// One connection of the guest, from the accept to the end.
//
//   accepted ─ judged by pinned name, address and port ─┬─ refused: reset
//                                                       │
//   what a rule leaves to a person waits for the answer before anything is dialled
//
//   where clients speak first (443, 80, …):             │   elsewhere, where servers may:
//   first bytes ─ judged by the ClientHello ─ dial ─    │   dial ─ whoever speaks first ─
//                            │                          │               │
//                            ├ refused: TLS alert       └─────────── relay
//                            └ inspected: HttpConnection
//
// At the explicit proxy's door a CONNECT is read, and its server found, before all of this.
//
// The client's first bytes are looked at and left in the socket, so a relay starts with nothing to
// carry over.

#include <memory>
#include <optional>
#include <vector>

#include "commit.h"
#include "connector.h"
#include "destination.h"
#include "hello_peek.h"
#include "http_connection.h"
#include "interception.h"
#include "judge.h"
#include "last_words.h"
#include "partings.h"
#include "pin_table.h"
#include "proxy_door.h"
#include "questions.h"
#include "relay.h"
#include "reporter.h"
#include "resolver.h"

namespace mvm::egress {

struct FlowParts {
  loop::Loop& loop;
  Judge& judge;
  Questions& questions;
  PinTable& pins;
  Resolver& resolver;
  NameGate& names;
  Reporter& reporter;
  PipePool& pipes;
  Meter& meter;
  Partings& partings;
  Interception* interception;  // nothing: the policy had no routes when the proxy was made
  const std::vector<std::shared_ptr<FilterSource>>& filters;
  Commit& commit;
  const std::vector<Endpoint>& doors;  // of the explicit proxy
  const Timeouts& timeouts;
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
  void reset(policy::Reason reason, std::string detail = {});
  // Ends it when nothing has been carried for too long.
  void end_if_idle();
  // Bytes that one side is still to take: the kernel's, and ours.
  size_t held() const noexcept;
  std::array<sys::Fd, 2> take_sockets() noexcept;  // when it has ended

 private:
  enum class Stage : uint8_t {
    Start,
    Door,     // of the explicit proxy: the head of a CONNECT
    Finding,  // where it leads
    FirstBytes,
    Asking,  // a person
    Dialing,
    WaitForEither,
    OtherProxy,  // has been asked for a tunnel
    Relaying,
    Http,
    LastWords,
    Ended
  };

  void open_door();
  void enter(ProxyDoor::Result result);
  void find_server(const http::Authority& to);
  void found(Destination::Result where);
  void reach(const Endpoint& to, const std::optional<dns::Name>& host);
  void answer_connect(const Verdict& verdict);
  void open_tunnel();
  void lose_tunnel(int error);
  void begin();
  policy::Request request() const;
  bool is_plain_http() const noexcept;
  Verdict judge_connection();
  Verdict judge_hello(const ClientHello& hello, policy::Request& request) const;
  void wait_for_first_bytes();
  void look(uint32_t events);
  void take_hello(const ClientHello& hello);
  void take_connect(const Peeked& peeked);
  void send_connect();
  void take_proxys_answer();
  void take_other();
  void admit(EventKind kind, const policy::Request& request, const Verdict& verdict);
  void refuse(EventKind kind, const policy::Request& request, const Verdict& verdict,
              std::string message = {});
  void say_last(std::string message);
  void ask(EventKind kind, const policy::Request& asked, const Verdict& verdict);
  void answered(EventKind kind, const policy::Request& asked, Answered how);
  void dial();
  void dialed(Dial::Result result);
  void proceed();
  void relay();
  void inspect(bool tls);
  void carry_http(const HttpOrigin& origin);
  void inspected(const HttpEnd& how);
  void leave_http(TunnelRequest tunnel);
  void tell_opened();
  void tell_end(policy::Reason reason, std::string detail);
  void end(policy::Reason reason = policy::Reason::Allowed, std::string detail = {});
  void finish();
  SocketPair sockets() const noexcept;

  FlowParts& parts_;
  uint64_t id_;
  sys::Fd guest_;
  Endpoint to_;
  std::function<void()> ended_;
  Stage stage_ = Stage::Start;
  std::vector<dns::Name> names_;  // pinned to the address
  bool holds_pin_;
  std::optional<dns::Name> host_;  // the one that was admitted
  Questions::Ticket question_;
  bool allowed_ = false;                   // by a person,
  std::optional<dns::Name> allowed_host_;  // for this name
  bool speaks_first_ = false;              // the client does
  bool judged_ = false;        // by its first bytes, or what the server said made them moot
  bool told_ = false;          // that it was admitted: so its end is told too
  bool unanswered_ = false;    // a CONNECT is
  size_t connect_ = 0;         // length of one's head that is for another proxy,
  size_t seen_of_answer_ = 0;  // and of what has come of that proxy's answer
  loop::Watch watch_;
  loop::Watch server_watch_;
  loop::Watch deadline_;
  std::unique_ptr<ProxyDoor> door_;
  std::unique_ptr<Destination> destination_;
  std::unique_ptr<Connector> dial_;
  sys::Fd upstream_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<HttpConnection> http_;
  std::unique_ptr<HttpConnection> left_http_;  // for a tunnel; it is on the call stack
  std::unique_ptr<LastWords> last_words_;
};

}
