#pragma once
// One sandbox's way out: answers its DNS queries, accepts its connections, asks the policy, and
// carries what is admitted to the address that the proxy itself resolved. Everything else is
// refused so that the client knows at once, and told as an event.
//
// The guest's descriptors belong to a network namespace without a way out; sockets to the outside
// are opened in the namespace of this process.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mvm/base/ip.h"
#include "mvm/egress/event.h"
#include "mvm/egress/filter.h"
#include "mvm/egress/open_question.h"
#include "mvm/loop/loop.h"
#include "mvm/net/guest_network.h"
#include "mvm/policy/policy.h"

namespace mvm::crypto {
class TrustStore;
}

namespace mvm::egress {

enum class Mode : uint8_t {
  Enforce,
  // Lets through what rules would refuse, and says so (Event::audited). What is shut whatever the
  // rules say, addresses that are not public, and limits hold as ever.
  Audit,
};

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

// For each, 0 is no limit but the one that is there anyway (descriptors, tables).
struct Limits {
  uint32_t flows = 4096;                  // at a time
  uint32_t flows_per_second = 500;        // new ones; as many at once
  uint32_t queries_per_second = 500;      // DNS; as many at once
  uint32_t names_per_zone = 500;          // looked up below one "*." within an hour
  uint64_t send_bytes_per_second = 0;     // from the guest, over all flows
  uint64_t receive_bytes_per_second = 0;  // to the guest
  uint64_t total_bytes = 0;               // both ways; flows end when it is reached
  // Bytes of flows that nobody takes, in their sockets and in the proxy's buffers. With more, those
  // that hold the most are reset.
  uint64_t memory = 256U << 20;
};

struct Timeouts {
  std::chrono::milliseconds first_bytes{10'000};  // of a client, where clients speak first
  // Longer than the second retransmission of a SYN, shorter than most clients' own patience.
  std::chrono::milliseconds connect{10'000};
  std::chrono::milliseconds handshake{15'000};     // of TLS that ends here, on either side
  std::chrono::milliseconds idle{7'200'000};       // RFC 5382 §5, what a NAT owes a connection
  std::chrono::milliseconds http_idle{7'200'000};  // the same where requests are looked into
  std::chrono::milliseconds half_closed{300'000};  // the same where one side has ended
};

struct HostTrust {
  std::optional<policy::HostPattern> host;  // nothing: every host
  std::shared_ptr<const crypto::TrustStore> trust;
};

// Of what filters have told of, and Settings::commit puts on record.
enum class Passage : uint8_t {
  Before,  // it passes only if it could be recorded
  After,   // it has been handed on, or the exchange has ended
};

struct Settings {
  policy::Policy policy;
  Mode mode = Mode::Enforce;
  // Asked in this order. Empty: those of /etc/resolv.conf, read once at construction.
  std::vector<Endpoint> resolvers;
  Limits limits;
  Timeouts timeouts;
  // Addresses and ports of the guest's gateway where it finds an HTTP proxy, for programs that are
  // told of one: CONNECT, and requests that name their server. Empty: there is none.
  std::vector<Endpoint> http_proxy;
  Refusals refusals = Refusals::Together;
  // How long what asks a person waits; then it is refused.
  std::chrono::milliseconds ask_patience{60'000};
  QuestionSink on_question;  // may be empty
  // For people who look at a certificate that the sandbox's own authority has made.
  std::string name = "sandbox";
  // The authority signs for the hosts that routes name when the proxy is made, and for none that
  // set_policy() adds later; with this, for any.
  bool certify_any_name = false;
  // Whom upstream servers are believed where connections are inspected. Empty: the host's own, read
  // from its files at construction, if the policy has routes.
  std::shared_ptr<const crypto::TrustStore> trust;
  std::string extra_authorities;  // and these besides (PEM)
  // Of some hosts, in place of `trust`: the first that matches.
  std::vector<HostTrust> trust_by_host;
  // What looks into exchanges, first to last as seen from the guest; Policy::inspect says where.
  std::vector<std::shared_ptr<FilterSource>> filters;
  // What was told goes on record: before anything passes at least what may still be refused, after
  // it all. False: it cannot, and nothing passes. Empty: what is told is on record when it is told.
  std::function<bool(Passage)> commit;
};

struct Counters {
  uint64_t flows_now = 0;
  uint64_t flows = 0;            // admitted
  uint64_t flows_refused = 0;    // accepted by the kernel, refused by us
  uint64_t packets_refused = 0;  // by the kernel
  uint64_t reports_lost = 0;     // refused packets that nobody was told of: they came too fast
  uint64_t queries = 0;
  uint64_t queries_refused = 0;
  uint64_t sent = 0;      // bytes from the guest
  uint64_t received = 0;  // bytes to the guest
  uint64_t memory = 0;    // that flows held, half a second ago
  uint64_t pins = 0;      // addresses with ports that the kernel lets the guest connect to
};

class Proxy {
 public:
  // `network.tap` is not used and may be empty. The loop outlives the proxy; all members are called
  // on its thread. Throws Error when the kernel's side cannot be set up, or there is no resolver.
  Proxy(loop::Loop& loop, net::GuestNetwork network, Settings settings, EventSink sink);
  ~Proxy();  // ends all flows, by reset
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Holds from the next query, connection and request on. Flows that are there stay.
  void set_policy(policy::Policy policy, Mode mode);
  // What waits for a person, the oldest first; and the answer, for all that wait for it. Nothing
  // when it does not wait any more.
  std::vector<OpenQuestion> questions() const;
  std::optional<OpenQuestion> answer(uint64_t question, bool allow);
  // Whether the authority can sign for all that the pattern matches. Requests to other hosts cannot
  // be judged in TLS: such connections are refused.
  bool certifies(const policy::HostPattern& hosts) const;
  Counters counters() const;
  // The certificate (PEM) that the guest has to trust; empty when nothing will be inspected.
  std::string authority_pem() const;
  // Resets every flow and forgets every pin and answer: after a snapshot was restored.
  void reset();
  // Takes nothing new; flows go on. Counters::flows_now tells when they have ended.
  void stop_accepting();

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}
