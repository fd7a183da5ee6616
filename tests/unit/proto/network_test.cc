#include "mvm/proto/network.h"

#include <gtest/gtest.h>

#include "mvm/proto/sandbox_config.h"

namespace mvm::proto {
namespace {

NetworkConfig full() {
  NetworkConfig config;
  config.audit = true;
  config.inspect_all = true;
  config.allow_hosts = {"example.com", "*.example.org:8443"};
  config.preset = "dev";
  config.preset_hosts = {"mirror.example"};
  config.allow_cidr = {"10.0.0.0/8"};
  config.allow_endpoints = {"GET https://example.net/**"};
  config.routes = {{"a", "api.example.com", {443, 8443}, {{"r", "GET", "/v1/**", "allow"}}, ""}};
  config.resolvers = {"9.9.9.9"};
  config.upstream_ca = {"*=/a.pem"};
  config.proxy_port = 0;
  config.limits.names_per_zone = 7;
  config.timeouts = {1'000, 2'000, 3'000, 4'000, 5'000, 6'000};
  config.mtu = 1500;
  return config;
}

TEST(NetworkConfig, SurvivesARoundTrip) {
  EXPECT_EQ(NetworkConfig::decode(full().encode()), full());
  EXPECT_EQ(NetworkConfig::decode(NetworkConfig{}.encode()), NetworkConfig{});
}

TEST(NetworkConfig, TakesNoPartOfItself) {
  const Bytes bytes = full().encode();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(NetworkConfig::decode(ByteView(bytes).first(length))) << length;
}

TEST(NetworkConfig, HoldsItsBounds) {
  NetworkConfig config;
  config.allow_hosts.assign(kMaxNetworkRules, "a.example");
  EXPECT_TRUE(NetworkConfig::decode(config.encode()));
  config.allow_hosts.emplace_back("b.example");
  EXPECT_FALSE(NetworkConfig::decode(config.encode()));
  config = {};
  config.resolvers.assign(kMaxResolvers + 1, "9.9.9.9");
  EXPECT_FALSE(NetworkConfig::decode(config.encode()));
  config = {};
  config.upstream_ca.assign(kMaxUpstreamAuthorities + 1, "*=/a.pem");
  EXPECT_FALSE(NetworkConfig::decode(config.encode()));
  config = {};
  config.allow_hosts = {std::string(kMaxNetworkText + 1, 'a')};
  EXPECT_FALSE(NetworkConfig::decode(config.encode()));
  config = {};
  config.proxy_port = kDnsPort;
  EXPECT_FALSE(NetworkConfig::decode(config.encode()));
  for (const uint64_t timeout : {uint64_t{0}, kMinTimeoutMs - 1, kMaxTimeoutMs + 1}) {
    config = {};
    config.timeouts.http_idle = timeout;
    EXPECT_FALSE(NetworkConfig::decode(config.encode())) << timeout;
  }
  for (const uint32_t mtu : {0U, kMinMtu - 1, kMaxMtu + 1}) {
    config = {};
    config.mtu = mtu;
    EXPECT_FALSE(NetworkConfig::decode(config.encode())) << mtu;
  }
}

TEST(NetworkLimits, LetTheCardPassWhatTheyAdmitAndSomeMore) {
  const auto beginnings = [](uint32_t flows, uint32_t queries) {
    NetworkLimits limits;
    limits.flows_per_second = flows;
    limits.queries_per_second = queries;
    return limits.beginnings_per_second();
  };
  EXPECT_EQ(NetworkLimits().beginnings_per_second(), 4000U);
  EXPECT_EQ(beginnings(1, 1), 4000U);
  EXPECT_EQ(beginnings(100'000, 500), 402'000U);
  EXPECT_EQ(beginnings(0, 500), 0U);
  EXPECT_EQ(beginnings(500, 0), 0U);
  EXPECT_EQ(beginnings(UINT32_MAX, UINT32_MAX), UINT32_MAX);
}

TEST(SandboxConfig, CarriesANetworkOrNone) {
  SandboxConfig config;
  config.id = "sb-1";
  EXPECT_FALSE(SandboxConfig::decode(config.encode())->network);
  config.network = full();
  EXPECT_EQ(SandboxConfig::decode(config.encode())->network, full());
  config.network->mtu = 1;
  EXPECT_FALSE(SandboxConfig::decode(config.encode()));
}

}
}
