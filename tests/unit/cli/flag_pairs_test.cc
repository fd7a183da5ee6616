// Each flag of the network beside each other flag of `up` and `run`: both count, or the words name
// them and say that they contradict. That one of two is quietly ignored is how a sandbox comes to
// run under other rules than those it was given.

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/options.h"
#include "mvm/config/manifest.h"
#include "mvm/config/schema.h"

namespace mvm::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// One value for each flag that takes one.
const std::map<std::string_view, std::string> kValues = {
    {"ai-budget", "run max_requests=50"},
    {"ai-token-budget", "1000"},
    {"allow-cidr", "10.1.0.0/16"},
    {"allow-endpoint", "GET https://a.example/v1/**"},
    {"allow-host", "b.example"},
    {"boot-timeout", "9s"},
    {"cpu-limit", "0.5"},
    {"cpus", "2"},
    {"disk-bandwidth", "50M"},
    {"disk-iops", "1000"},
    {"disk-size", "2G"},
    {"env", "A=1"},
    {"env-file", "env"},
    {"file", "box.toml"},
    {"flake", ".#web"},
    {"group-add", "audio"},
    {"hostname", "box"},
    {"idle-timeout", "1h"},
    {"image", "python"},
    {"kernel", "tuned"},
    {"label", "team=search"},
    {"max-output", "1M"},
    {"memory", "1G"},
    {"memory-limit", "100M"},
    {"name", "web"},
    {"network-inspect", "all"},
    {"network-mode", "audit"},
    {"network-preset", "dev"},
    {"output-limit", "2M"},
    {"pids-limit", "20"},
    {"pii", "tokenize"},
    {"pii-bypass", "*:22"},
    {"pii-rule", "allow email at a.example"},
    {"profile", "sealed"},
    {"publish", "8080:80"},
    {"retention", "2h"},
    {"rlimit", "core=0"},
    {"secret", "KEY@a.example"},
    {"timeout", "30s"},
    {"ttl", "3h"},
    {"upstream-ca", "*.corp.example=corp.pem"},
    {"user", "1000"},
    {"wall-clock", "4h"},
    {"watchdog", "30s"},
    {"workdir", "/work"},
};

Words flag(const Option& option) {
  Words words{"--" + std::string(option.name)};
  if (!option.value.empty()) words.push_back(kValues.at(option.name));
  return words;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

config::Settings settings(Verb verb, const Words& words) {
  const auto none = [](std::string_view) { return std::optional<std::string>(); };
  const auto parsed = std::get<Arguments>(parse_command_line(words));
  return verb == Verb::Up ? up_options(parsed, none).flags : run_options(parsed, none).machine;
}

config::Settings both(const config::Settings& a, const config::Settings& b) {
  return config::resolve(std::vector<config::Layer>{{"a", a}, {"b", b}}).settings;
}

bool of_the_network(std::string_view name) {
  static constexpr std::array kOthers = {"no-network", "secret", "upstream-ca"};
  return std::ranges::find(kOthers, name) != kOthers.end() || name.starts_with("network-") ||
         name.starts_with("allow-") || name.starts_with("ai-") || name.starts_with("pii");
}

bool contradict(std::string_view a, std::string_view b) {
  return of_the_network(a) && of_the_network(b) && (a == "no-network" || b == "no-network");
}

class FlagPairs : public testing::TestWithParam<Verb> {};

TEST_P(FlagPairs, BothCountOrAreSaidToContradict) {
  const Words begin = GetParam() == Verb::Up ? Words{"up"} : Words{"run", "base"};
  std::vector<Option> options;
  for (const Option& option : find_command(GetParam())->options)
    if (option.value.empty() || kValues.contains(option.name))
      options.push_back(option);
    else
      ADD_FAILURE() << "no value to try --" << option.name << " with";
  std::vector<config::Settings> alone;
  for (const Option& option : options) alone.push_back(settings(GetParam(), begin + flag(option)));
  size_t refused = 0;
  for (size_t i = 0; i < options.size(); ++i)
    for (size_t j = 0; j < options.size(); ++j) {
      const std::string_view one = options[i].name;
      const std::string_view other = options[j].name;
      if (i == j || !of_the_network(one)) continue;
      if (i > j && of_the_network(other)) continue;  // they were tried
      try {
        const auto together = settings(GetParam(), begin + flag(options[i]) + flag(options[j]));
        EXPECT_FALSE(contradict(one, other)) << one << " and " << other << " are accepted";
        EXPECT_EQ(together, both(alone[i], alone[j])) << one << " and " << other;
      } catch (const UsageError& error) {
        ++refused;
        EXPECT_TRUE(contradict(one, other)) << error.message();
        EXPECT_THAT(error.message(),
                    AllOf(HasSubstr("--" + std::string(one)), HasSubstr("--" + std::string(other)),
                          HasSubstr("contradict")));
      }
    }
  EXPECT_EQ(refused, 14U);
}

// What a sandbox's programs are given, by whoever makes it, is theirs alone: no variable and no
// label is a setting of mvm's, whatever it is called.
TEST_P(FlagPairs, WhatAGuestIsGivenIsNoSetting) {
  const Words begin = GetParam() == Verb::Up ? Words{"up"} : Words{"run", "base"};
  std::vector<std::string> names{"http_proxy",    "HTTPS_PROXY", "ALL_PROXY",  "NO_PROXY",
                                 "SSL_CERT_FILE", "RES_OPTIONS", "LD_PRELOAD", "MVM_PROXY_SCRIPT"};
  size_t of_mvm = 0;
  for (const config::Key& key : config::keys()) {
    names.push_back(key.path());
    if (key.environment.empty()) continue;
    names.emplace_back(key.environment);
    ++of_mvm;
  }
  EXPECT_GT(of_mvm, 5U);
  const config::Settings bare = settings(GetParam(), begin);
  const auto given = [&](const std::string& name, const std::string& value) {
    Words words = begin + Words{"--label", "team=" + name + "=" + value};
    if (name.find('.') == name.npos) words = words + Words{"--env", name + "=" + value};
    config::Settings made = settings(GetParam(), words);
    EXPECT_FALSE(made.labels.empty());
    made.labels = bare.labels;
    made.env = bare.env;
    return made;
  };
  for (const std::string& name : names)
    for (const char* value : {"", "*", "audit", "all", "agent", "0", "http://10.0.0.1:1/", "/x.js"})
      EXPECT_EQ(given(name, value), bare) << name << " " << value;
}

INSTANTIATE_TEST_SUITE_P(Commands, FlagPairs, testing::Values(Verb::Up, Verb::Run),
                         [](const auto& of) { return of.param == Verb::Up ? "Up" : "Run"; });

}
}
