#include "flow_table.h"

#include <algorithm>

#include "sockets.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using policy::Reason;

constexpr std::chrono::milliseconds kLookAfter{10'000};

constexpr std::chrono::milliseconds kWeighEvery{500};

// Flows are ended for idleness a little late, by less than as long again.
std::chrono::milliseconds pace_of(const Timeouts& timeouts) {
  return std::min({kLookAfter, timeouts.idle, timeouts.http_idle, timeouts.half_closed});
}

}

FlowTable::FlowTable(FlowParts parts, sys::Fd listener, const Limits& limits)
    : parts_(parts),
      limit_(limits.flows),
      memory_limit_(limits.memory),
      rate_(limits.flows_per_second),
      acceptor_(
          parts.loop, std::move(listener), [this](sys::Fd socket) { accept(std::move(socket)); },
          [this] { turn_away({}, Reason::ResourceExhausted); }) {
  look_after();
}

FlowTable::~FlowTable() { reset_all(); }

void FlowTable::accept(sys::Fd socket) {
  if (limit_ != 0 && flows_.size() >= limit_)
    return turn_away(std::move(socket), Reason::ResourceExhausted);
  if (rate_.take(1, parts_.loop.now()) == 0)
    return turn_away(std::move(socket), Reason::RateLimited);
  if (parts_.meter.used_up()) return turn_away(std::move(socket), Reason::ResourceExhausted);
  const auto to = local_endpoint(socket.get());
  if (!to) return reset_connection(std::move(socket));  // reset by the client already
  const uint64_t id = next_++;
  auto flow =
      std::make_unique<Flow>(parts_, id, std::move(socket), *to, [this, id] { retire(id); });
  Flow& started = *flow;
  flows_.emplace(id, std::move(flow));
  parts_.counters.flows_now = flows_.size();
  if (!scales_) weigh_soon();
  started.start();
}

void FlowTable::turn_away(sys::Fd socket, Reason reason) {
  ++parts_.counters.flows_refused;
  policy::Request request;
  if (const auto to = socket ? local_endpoint(socket.get()) : std::nullopt) {
    request.address = to->address;
    request.port = to->port;
    const auto names = parts_.pins.names_of(to->address, parts_.loop.now());
    if (!names.empty()) request.host = names.front();
  }
  parts_.reporter.refuse(
      Judge::describe(EventKind::Connect, request, {{Outcome::Deny, reason, {}, false}}));
  if (socket) reset_connection(std::move(socket));
}

void FlowTable::retire(uint64_t id) {
  auto flow = flows_.extract(id);
  parts_.counters.flows_now = flows_.size();
  if (flow.empty()) return;
  for (sys::Fd& socket : flow.mapped()->take_sockets())
    parts_.partings.take(std::move(socket), parts_.loop.now());
  ended_.push_back(std::move(flow.mapped()));
  bury_ = parts_.loop.after(std::chrono::milliseconds(0), [this] { ended_.clear(); });
}

void FlowTable::reset_all() {
  while (!flows_.empty()) {
    Flow& flow = *flows_.begin()->second;
    flow.reset(Reason::Allowed);
  }
}

void FlowTable::look_after() {
  clock_ = parts_.loop.after(pace_of(parts_.timeouts), [this] {
    for (auto at = flows_.begin(); at != flows_.end();) {
      Flow& flow = *at->second;
      ++at;  // it may be taken out
      flow.end_if_idle();
    }
    parts_.pins.expire(parts_.loop.now());
    look_after();
  });
}

void FlowTable::weigh_soon() {
  scales_ = parts_.loop.after(kWeighEvery, [this] {
    weigh();
    scales_.reset();
    if (!flows_.empty() || parts_.partings.size() > 0) weigh_soon();
  });
}

// What nobody takes is in the kernel's memory, and some of it in ours: a guest that reads nothing
// would have it be megabytes for each of its flows, which on many hosts no cgroup's limit holds
// for. Where it is too much, those go that hold the most of it.
void FlowTable::weigh() {
  uint64_t total = parts_.partings.settle(parts_.loop.now());
  std::vector<std::pair<size_t, uint64_t>> held;  // bytes, and whose
  for (const auto& [id, flow] : flows_) {
    const size_t bytes = flow->held();
    total += bytes;
    held.emplace_back(bytes, id);
  }
  parts_.counters.memory = total;
  if (memory_limit_ == 0 || total <= memory_limit_) return;
  total -= parts_.partings.drop();
  std::ranges::sort(held, std::greater());
  for (const auto& [bytes, id] : held) {
    if (total <= memory_limit_) break;
    total -= bytes;
    if (const auto flow = flows_.find(id); flow != flows_.end())
      flow->second->reset(Reason::ResourceExhausted,
                          "the sandbox's connections hold too much of the host's memory");
  }
  parts_.counters.memory = total;
}

}
