#include "mvm/proto/network.h"

#include <algorithm>
#include <utility>

#include "mvm/proto/cbor.h"

namespace mvm::proto {

static void write_texts(CborWriter out, const std::vector<std::string>& texts) {
  out.array(texts.size());
  for (const std::string& text : texts) out.string(text);
}

static std::vector<std::string> read_texts(CborReader& in, size_t limit) {
  std::vector<std::string> texts;
  const size_t count = in.array(limit);
  for (size_t i = 0; i < count && in; ++i) texts.emplace_back(in.string(kMaxNetworkText));
  return texts;
}

static Bytes encode_rule(const NetworkRouteRule& rule) {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", rule.id);
    map.string("method", rule.method);
    map.string("path", rule.path);
    map.string("outcome", rule.outcome);
  }
  return out;
}

static NetworkRouteRule read_rule(CborReader& in) {
  NetworkRouteRule rule;
  for (Fields field(in); field.next();) {
    if (field.is("id")) {
      rule.id = in.string(kMaxNetworkText);
    } else if (field.is("method")) {
      rule.method = in.string(kMaxNetworkText);
    } else if (field.is("path")) {
      rule.path = in.string(kMaxNetworkText);
    } else if (field.is("outcome")) {
      rule.outcome = in.string(kMaxNetworkText);
    } else {
      field.skip();
    }
  }
  return rule;
}

static Bytes encode_route(const NetworkRoute& route) {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", route.id);
    map.string("host", route.host);
    CborWriter ports = map.field("ports");
    ports.array(route.ports.size());
    for (const uint16_t port : route.ports) ports.unsigned_integer(port);
    CborWriter rules = map.field("rules");
    rules.array(route.rules.size());
    for (const NetworkRouteRule& rule : route.rules) rules.raw(encode_rule(rule));
    map.string("otherwise", route.otherwise);
  }
  return out;
}

static NetworkRoute read_route(CborReader& in) {
  NetworkRoute route;
  for (Fields field(in); field.next();) {
    if (field.is("id")) {
      route.id = in.string(kMaxNetworkText);
    } else if (field.is("host")) {
      route.host = in.string(kMaxNetworkText);
    } else if (field.is("ports")) {
      const size_t count = in.array(kMaxNetworkRules);
      for (size_t i = 0; i < count && in; ++i)
        route.ports.push_back(static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX)));
    } else if (field.is("rules")) {
      const size_t count = in.array(kMaxNetworkRules);
      for (size_t i = 0; i < count && in; ++i) route.rules.push_back(read_rule(in));
    } else if (field.is("otherwise")) {
      route.otherwise = in.string(kMaxNetworkText);
    } else {
      field.skip();
    }
  }
  return route;
}

uint32_t NetworkLimits::beginnings_per_second() const noexcept {
  if (flows_per_second == 0 || queries_per_second == 0) return 0;
  constexpr uint64_t kAtLeast = 4000;
  const uint64_t wanted = 4 * (uint64_t{flows_per_second} + queries_per_second);
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, kAtLeast, UINT32_MAX));
}

static Bytes encode_limits(const NetworkLimits& limits) {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("flows", limits.flows);
    map.unsigned_integer("flows_per_second", limits.flows_per_second);
    map.unsigned_integer("queries_per_second", limits.queries_per_second);
    map.unsigned_integer("names_per_zone", limits.names_per_zone);
    map.unsigned_integer("send_bandwidth", limits.send_bandwidth);
    map.unsigned_integer("receive_bandwidth", limits.receive_bandwidth);
    map.unsigned_integer("total", limits.total);
  }
  return out;
}

static NetworkLimits read_limits(CborReader& in) {
  NetworkLimits limits;
  const auto count = [&in] { return static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX)); };
  for (Fields field(in); field.next();) {
    if (field.is("flows")) {
      limits.flows = count();
    } else if (field.is("flows_per_second")) {
      limits.flows_per_second = count();
    } else if (field.is("queries_per_second")) {
      limits.queries_per_second = count();
    } else if (field.is("names_per_zone")) {
      limits.names_per_zone = count();
    } else if (field.is("send_bandwidth")) {
      limits.send_bandwidth = in.unsigned_integer();
    } else if (field.is("receive_bandwidth")) {
      limits.receive_bandwidth = in.unsigned_integer();
    } else if (field.is("total")) {
      limits.total = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return limits;
}

static constexpr std::pair<const char*, uint64_t NetworkTimeouts::*> kTimeouts[] = {
    {"first_bytes", &NetworkTimeouts::first_bytes}, {"connect", &NetworkTimeouts::connect},
    {"handshake", &NetworkTimeouts::handshake},     {"idle", &NetworkTimeouts::idle},
    {"http_idle", &NetworkTimeouts::http_idle},     {"half_closed", &NetworkTimeouts::half_closed},
};

static Bytes encode_timeouts(const NetworkTimeouts& timeouts) {
  Bytes out;
  {
    MapWriter map(out);
    for (const auto& [name, value] : kTimeouts) map.unsigned_integer(name, timeouts.*value);
  }
  return out;
}

static NetworkTimeouts read_timeouts(CborReader& in) {
  NetworkTimeouts timeouts;
  for (Fields field(in); field.next();) {
    const auto known = std::ranges::find_if(
        kTimeouts, [&field](const auto& timeout) { return field.is(timeout.first); });
    if (known != std::end(kTimeouts))
      timeouts.*known->second = in.unsigned_integer(kMaxTimeoutMs);
    else
      field.skip();
  }
  return timeouts;
}

bool are_timeouts(const NetworkTimeouts& timeouts) {
  return std::ranges::all_of(kTimeouts, [&timeouts](const auto& timeout) {
    const uint64_t value = timeouts.*timeout.second;
    return value >= kMinTimeoutMs && value <= kMaxTimeoutMs;
  });
}

Bytes NetworkConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.boolean("enabled", enabled);
    map.boolean("audit", audit);
    map.boolean("inspect_all", inspect_all);
    write_texts(map.field("allow_hosts"), allow_hosts);
    if (!preset.empty()) map.string("preset", preset);
    if (!preset_hosts.empty()) write_texts(map.field("preset_hosts"), preset_hosts);
    write_texts(map.field("allow_cidr"), allow_cidr);
    write_texts(map.field("allow_endpoints"), allow_endpoints);
    CborWriter list = map.field("routes");
    list.array(routes.size());
    for (const NetworkRoute& route : routes) list.raw(encode_route(route));
    write_texts(map.field("resolvers"), resolvers);
    if (!upstream_ca.empty()) write_texts(map.field("upstream_ca"), upstream_ca);
    map.field("limits").raw(encode_limits(limits));
    map.field("timeouts").raw(encode_timeouts(timeouts));
    map.unsigned_integer("ask_timeout_ms", ask_timeout_ms);
    map.unsigned_integer("proxy_port", proxy_port);
    map.unsigned_integer("mtu", mtu);
    if (ai != AiConfig{}) map.field("ai").raw(ai.encode());
    map.field("pii").raw(pii.encode());
  }
  return out;
}

std::optional<NetworkConfig> NetworkConfig::decode(ByteView data) {
  NetworkConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("enabled")) {
      config.enabled = in.boolean();
    } else if (field.is("audit")) {
      config.audit = in.boolean();
    } else if (field.is("inspect_all")) {
      config.inspect_all = in.boolean();
    } else if (field.is("allow_hosts")) {
      config.allow_hosts = read_texts(in, kMaxNetworkRules);
    } else if (field.is("preset")) {
      config.preset = in.string(kMaxNetworkText);
    } else if (field.is("preset_hosts")) {
      config.preset_hosts = read_texts(in, kMaxNetworkRules);
    } else if (field.is("allow_cidr")) {
      config.allow_cidr = read_texts(in, kMaxNetworkRules);
    } else if (field.is("allow_endpoints")) {
      config.allow_endpoints = read_texts(in, kMaxNetworkRules);
    } else if (field.is("routes")) {
      const size_t count = in.array(kMaxNetworkRules);
      for (size_t i = 0; i < count && in; ++i) config.routes.push_back(read_route(in));
    } else if (field.is("resolvers")) {
      config.resolvers = read_texts(in, kMaxResolvers);
    } else if (field.is("upstream_ca")) {
      config.upstream_ca = read_texts(in, kMaxUpstreamAuthorities);
    } else if (field.is("limits")) {
      config.limits = read_limits(in);
    } else if (field.is("timeouts")) {
      config.timeouts = read_timeouts(in);
    } else if (field.is("ask_timeout_ms")) {
      config.ask_timeout_ms = in.unsigned_integer(kMaxAskTimeoutMs);
    } else if (field.is("pii")) {
      if (auto pii = PiiConfig::decode(in.skip()))
        config.pii = std::move(*pii);
      else
        in.fail();
    } else if (field.is("proxy_port")) {
      config.proxy_port = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("mtu")) {
      config.mtu = static_cast<uint32_t>(in.unsigned_integer(kMaxMtu));
    } else if (field.is("ai")) {
      const auto ai = AiConfig::decode(in.skip());
      if (!ai) in.fail();
      config.ai = ai.value_or(AiConfig{});
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || config.mtu < kMinMtu || config.proxy_port == kDnsPort ||
      !are_timeouts(config.timeouts))
    return std::nullopt;
  return config;
}

}
