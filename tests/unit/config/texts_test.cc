// The texts made from the schema: the files in the tree are exactly what the schema gives, and
// they are right. MVM_ACCEPT=1 rewrites them.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/text.h"
#include "mvm/config/manifest.h"

namespace mvm::config {
namespace {

std::filesystem::path tree() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
}

void expect_file(const std::filesystem::path& path, const std::string& content) {
  if (std::getenv("MVM_ACCEPT") != nullptr) std::ofstream(path) << content;
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), content) << path << " is out of date; MVM_ACCEPT=1 rewrites it";
}

TEST(Texts, ExampleInTheTreeIsTheSchemas) {
  expect_file(tree() / "mvm.toml.example", example_manifest());
}

TEST(Texts, ReferenceInTheTreeIsTheSchemas) {
  expect_file(tree() / "docs" / "mvm-toml.md", manifest_reference());
}

TEST(Texts, ExampleHasEveryKeyWithItsDefault) {
  const std::string example = example_manifest();
  const Parsed parsed = parse_manifest(example);
  EXPECT_THAT(parsed.complaints, testing::IsEmpty());
  EXPECT_EQ(parsed.settings, default_settings());
  std::set<std::string> lines;
  for (const auto line : split(example, '\n')) lines.insert(std::string(line));
  for (const Key& key : keys()) {
    const std::string name(key.name);
    if (key.type == Type::TextTable)
      EXPECT_TRUE(lines.contains("[" + name + "]")) << name;
    else if (key.type == Type::Secrets)
      EXPECT_TRUE(lines.contains("# [" + name + "]")) << name;
    else if (key.type == Type::Routes)
      EXPECT_TRUE(lines.contains("# [[network." + name + "]]")) << name;
    else
      EXPECT_TRUE(
          lines.contains(name + " = " + written_value(key, default_settings()).value_or("\"\"")))
          << name;
  }
}

TEST(Texts, ShownSettingsAreAManifestThatMeansTheSame) {
  Settings settings = default_settings();
  settings.name = "web";
  settings.memory = (uint64_t{1} << 30) + (uint64_t{1} << 20);
  settings.boot_timeout_ms = 1500;
  settings.env = {{"PLAIN", "x"}, {"dotted.name", "line\nbreak \\ \" \t \x01 \x7f ü"}};
  settings.labels = {{"team", "search"}};
  settings.network_preset = "dev";
  settings.allow_hosts = {"example.com", "*.example.org:8443"};
  settings.allow_endpoints = {"GET https://example.com/a/*/b/**"};
  settings.routes = {
      {"forge", "api.example.com", {443, 8443}, {{"read", "GET", "/v1/**", "allow"}}, ""},
      {"", "example.net", {}, {}, "deny"}};
  settings.secrets = {{"KEY",
                       {"KEY",
                        "file:/a \"b\"",
                        {"a.test", "*.b.test:1"},
                        {"header", "query"},
                        {"X-Key"},
                        "sk-",
                        true,
                        "end",
                        "pass"}},
                      {"GITHUB_TOKEN", {"GITHUB_TOKEN", "", {}, {}, {}, "", false, "", ""}}};
  const std::vector<Layer> layers = {{"test", settings}};
  const Parsed parsed = parse_manifest(show(resolve(layers)));
  EXPECT_THAT(parsed.complaints, testing::IsEmpty());
  EXPECT_EQ(parsed.settings, settings);
}

TEST(Texts, StarterManifestIsValid) {
  const Parsed parsed = parse_manifest(starter_manifest("agent-sandbox", "base"));
  EXPECT_THAT(parsed.complaints, testing::IsEmpty());
  EXPECT_EQ(parsed.settings.name, "agent-sandbox");
  EXPECT_EQ(parsed.settings.image, "base");
}

TEST(Schema, EveryRowIsCoherent) {
  std::set<std::string> paths, flags, variables;
  size_t flag_count = 0, variable_count = 0;
  for (const Key& key : keys()) {
    EXPECT_TRUE(paths.insert(key.path()).second) << key.path();
    EXPECT_FALSE(key.doc.empty()) << key.path();
    if (!key.flag.empty()) {
      flags.insert(std::string(key.flag));
      ++flag_count;
    }
    if (!key.environment.empty()) {
      variables.insert(std::string(key.environment));
      ++variable_count;
    }
    if (key.type == Type::Text) {
      EXPECT_NE(key.fallback.empty(), key.if_empty.empty()) << key.path();
    }
    EXPECT_EQ(find_key(key.table, key.name), &key);
    for (const LaterKey& later : later_keys())
      EXPECT_FALSE(later.table == key.table && later.name == key.name) << key.path();
  }
  EXPECT_EQ(flags.size(), flag_count);
  EXPECT_EQ(variables.size(), variable_count);
}

}
}
