#include "../../../src/cli/policy_rows.h"

#include <gtest/gtest.h>

#include "mvm/policy/compile.h"

namespace mvm::cli {
namespace {

TEST(PolicyRows, SayWhereEachRuleIsFrom) {
  proto::NetworkConfig config;
  config.allow_hosts = {"own.example"};
  config.preset = "registries";
  config.preset_hosts = {"mirror.example:8081"};
  config.allow_endpoints = {"GET https://api.example/v1/**"};
  config.allow_cidr = {"10.1.0.0/16"};
  const auto rows = policy_rows(policy::compile(config));
  EXPECT_EQ(policy_text(rows, "enforce", true),
            R"(OUTCOME  HOST             PORTS   METHOD  PATH    RULE
allow    api.example      443     GET     /v1/**  allow-endpoint GET https://api.example/v1/**
allow    own.example      80,443  -       -       allow-host own.example
allow    mirror.example   8081    -       -       preset registries mirror.example:8081
allow    10.1.0.0/16      all     -       -       allow-cidr 10.1.0.0/16
deny     everything else  all     -       -       -
)");
}

TEST(PolicyRows, SayWhatBecomesOfEverythingWithoutARule) {
  const auto rows = policy_rows(policy::compile({}));
  EXPECT_TRUE(rows.empty());
  EXPECT_EQ(policy_text(rows, "enforce", true),
            R"(OUTCOME  HOST             PORTS  METHOD  PATH  RULE
deny     everything else  all    -       -     -
)");
  EXPECT_EQ(policy_text(rows, "audit", true), R"(OUTCOME  HOST             PORTS  METHOD  PATH  RULE
audit    everything else  all    -       -     -
)");
  EXPECT_EQ(policy_text(rows, "enforce", false),
            "nothing was added since it started; --effective lists all rules\n");
  EXPECT_EQ(json_policy("enforce", true, rows),
            "{\"mode\":\"enforce\",\"recordable\":true,\"rules\":[]}\n");
}

}
}
