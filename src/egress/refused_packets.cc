#include "refused_packets.h"

namespace mvm::egress {

RefusedPackets::RefusedPackets(Parts parts, sys::Fd socket)
    : parts_(parts),
      refusals_(std::move(socket)),
      watch_(parts.loop.watch(refusals_.fd(), EPOLLIN, [this](uint32_t) { read(); })) {}

void RefusedPackets::read() {
  const uint64_t before = lost();
  for (const net::Refusal& refusal : refusals_.take()) tell(refusal);
  if (lost() > before) tell_lost(lost() - before);
}

// Nobody knows of what: the record says how many.
void RefusedPackets::tell_lost(uint64_t count) {
  parts_.counters.packets_refused += count;
  Event event;
  event.time = std::chrono::system_clock::now();
  event.kind = EventKind::Connect;
  event.transport.reset();
  event.reason = policy::Reason::ResourceExhausted;
  event.detail = "refused faster than the kernel could tell";
  event.count = count;
  parts_.reporter.has_refused(std::move(event));
}

void RefusedPackets::tell(const net::Refusal& refusal) {
  ++parts_.counters.packets_refused;
  policy::Request request;
  request.address = refusal.to;
  request.port = refusal.port;
  // A host of ours, at a port that no rule names.
  const auto names = parts_.pins.names_of(refusal.to, parts_.loop.now());
  if (!names.empty()) request.host = names.front();
  Verdict verdict = parts_.judge.ask(request);
  const bool udp = refusal.transport == net::Transport::Udp;
  // What rules admit over TCP is refused as a datagram all the same. And a connection that they
  // admit was refused because its name has not been looked up, or the look-up is too long ago.
  if (verdict.admitted || verdict.asks()) {
    verdict = {{policy::Outcome::Deny,
                udp ? policy::Reason::ProtocolUnsupported : policy::Reason::PolicyDenied,
                {},
                false}};
  }
  Event event = Judge::describe(EventKind::Connect, request, verdict);
  event.transport = refusal.transport;
  if (udp) event.suggestion.clear();  // no rule admits datagrams
  parts_.reporter.has_refused(std::move(event));
}

}
