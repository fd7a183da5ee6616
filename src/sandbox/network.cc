#include "network.h"

#include "mvm/base/error.h"
#include "mvm/crypto/trust.h"
#include "mvm/egress/resolv_conf.h"
#include "mvm/policy/change.h"
#include "mvm/policy/compile.h"
#include "mvm/sys/file.h"

#include "upstream_authorities.h"

namespace mvm::sandbox {

// While the host's files are still to be seen.
static std::vector<egress::Endpoint> resolvers_of(const proto::NetworkConfig& config) {
  std::vector<egress::Endpoint> out;
  for (const std::string& text : config.resolvers)
    if (const auto resolver = policy::parse_resolver(text))
      out.push_back({resolver->address, resolver->port});
  if (!out.empty()) return out;
  constexpr const char* kFile = "/etc/resolv.conf";
  constexpr size_t kMaxFile = 64 * 1024;
  if (sys::exists(kFile)) out = egress::parse_resolv_conf(as_text(sys::read_file(kFile, kMaxFile)));
  // resolv.conf(5): without an entry it is the one of this machine.
  if (out.empty()) out.push_back({IpAddress(IpAddress::V4{127, 0, 0, 1}), 53});
  return out;
}

static egress::Limits limits_of(const proto::NetworkLimits& from) {
  egress::Limits limits;
  limits.flows = from.flows;
  limits.flows_per_second = from.flows_per_second;
  limits.queries_per_second = from.queries_per_second;
  limits.names_per_zone = from.names_per_zone;
  limits.send_bytes_per_second = from.send_bandwidth;
  limits.receive_bytes_per_second = from.receive_bandwidth;
  limits.total_bytes = from.total;
  return limits;
}

static egress::Timeouts timeouts_of(const proto::NetworkTimeouts& from) {
  using Milliseconds = std::chrono::milliseconds;
  return {.first_bytes = Milliseconds(from.first_bytes),
          .connect = Milliseconds(from.connect),
          .handshake = Milliseconds(from.handshake),
          .idle = Milliseconds(from.idle),
          .http_idle = Milliseconds(from.http_idle),
          .half_closed = Milliseconds(from.half_closed)};
}

Network::Network(const std::optional<proto::NetworkConfig>& config, std::string name,
                 egress::EventSink sink, egress::QuestionSink on_question,
                 std::vector<std::shared_ptr<egress::FilterSource>> filters,
                 std::function<bool(egress::Passage)> commit,
                 std::vector<policy::InspectRule> inspect, egress::Refusals refusals)
    : config_(config), sink_(std::move(sink)), inspect_(std::move(inspect)) {
  if (!config_) return;
  try {
    settings_.filters = std::move(filters);
    settings_.commit = std::move(commit);
    settings_.name = std::move(name);
    settings_.policy = policy();
    settings_.mode = config_->audit ? egress::Mode::Audit : egress::Mode::Enforce;
    settings_.resolvers = resolvers_of(*config_);
    settings_.limits = limits_of(config_->limits);
    settings_.timeouts = timeouts_of(config_->timeouts);
    if (config_->proxy_port != 0)
      settings_.http_proxy = {{addresses_.gateway4, config_->proxy_port},
                              {addresses_.gateway6, config_->proxy_port}};
    settings_.refusals = refusals;
    settings_.ask_patience = std::chrono::milliseconds(config_->ask_timeout_ms);
    settings_.on_question = std::move(on_question);
    // Whom servers are believed, where connections to them are inspected. Files that were named are
    // read in any case: a mistake in one shows at once.
    if (!settings_.policy.routes.empty() || !inspect_.empty() || !config_->upstream_ca.empty())
      believe();
    maker_ = std::make_unique<net::GuestNetworkMaker>(addresses_, config_->mtu);
  } catch (const Error& error) {
    missing_ = error.message();
  }
}

Network::~Network() = default;

void Network::believe() {
  settings_.trust = crypto::TrustStore::system();
  try {
    settings_.trust_by_host = upstream_authorities(config_->upstream_ca, settings_.trust);
  } catch (const Error& error) {
    mistake_ = error;
    throw;
  }
}

void Network::start_proxy(loop::Loop& loop) {
  net::GuestNetwork network = maker_->take();
  sys::Fd tap = std::move(network.tap);
  proxy_ = std::make_unique<egress::Proxy>(loop, std::move(network), std::move(settings_), sink_);
  tap_ = std::move(tap);
}

policy::Policy Network::policy() const {
  policy::Policy policy = policy::compile(*config_);
  policy::apply(changes_, policy);
  policy.inspect = inspect_;
  return policy;
}

void Network::enforce() {
  if (!proxy_) return;
  if (recordable_)
    proxy_->set_policy(policy(), config_->audit ? egress::Mode::Audit : egress::Mode::Enforce);
  else
    proxy_->set_policy({}, egress::Mode::Enforce);
}

void Network::set_recordable(bool recordable) {
  recordable_ = recordable;
  enforce();
}

void Network::change(proto::PolicyChanges changes) {
  changes_ = std::move(changes);
  enforce();
}

void Network::open(loop::Loop& loop) {
  if (!config_) return;
  try {
    if (maker_) start_proxy(loop);
  } catch (const Error& error) {
    missing_ = error.message();
  }
  maker_.reset();
  if (mistake_) throw Error(*mistake_);
  if (!proxy_ && config_->has_rules())
    throw Error(Kind::Unsupported, missing_ + " (with --no-network instead of rules it starts)");
}

std::optional<proto::MonitorNic> Network::card() const {
  if (!proxy_) return std::nullopt;
  return proto::MonitorNic{addresses_.guest_mac, addresses_.guest4, addresses_.guest6,
                           static_cast<uint16_t>(config_->mtu),
                           config_->limits.beginnings_per_second()};
}

std::optional<proto::EgressCounters> Network::counters() const {
  if (!proxy_) return std::nullopt;
  const egress::Counters from = proxy_->counters();
  return proto::EgressCounters{.flows_now = from.flows_now,
                               .flows = from.flows,
                               .flows_refused = from.flows_refused,
                               .packets_refused = from.packets_refused,
                               .queries = from.queries,
                               .queries_refused = from.queries_refused,
                               .sent = from.sent,
                               .received = from.received};
}

std::string Network::guest_settings() const {
  if (!proxy_) return "";
  const auto word = [](const char* name, const IpAddress& guest, unsigned length,
                       const IpAddress& gateway) {
    return " " + std::string(name) + "=" + guest.text() + "/" + std::to_string(length) + "," +
           gateway.text();
  };
  return word("mvm.ip4", addresses_.guest4, addresses_.length4, addresses_.gateway4) +
         word("mvm.ip6", addresses_.guest6, addresses_.length6, addresses_.gateway6);
}

}
