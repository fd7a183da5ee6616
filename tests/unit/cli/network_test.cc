// Presets, and what they take from this host's package managers.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/policy/policy.h"
#include "mvm/sys/file.h"

#include "../../../src/cli/package_managers.h"
#include "../../../src/cli/presets.h"

namespace mvm::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Presets, EachRuleOfEachIsOne) {
  for (const char* name : {"none", "registries", "dev", "agent", "nix"})
    for (const std::string& host : preset_hosts(name, [] { return std::vector<std::string>(); }))
      EXPECT_TRUE(policy::parse_host_rule(host)) << name << ": " << host;
}

TEST(Presets, BuildOnOneAnother) {
  const auto mirror = [] { return std::vector<std::string>{"mirror.example"}; };
  EXPECT_THAT(preset_hosts("none", mirror), IsEmpty());
  EXPECT_THAT(preset_hosts("registries", mirror), ElementsAre("mirror.example"));
  const auto dev = preset_hosts("dev", mirror);
  EXPECT_THAT(dev, Contains("mirror.example"));
  const auto agent = preset_hosts("agent", mirror);
  for (const std::string& host : dev) EXPECT_THAT(agent, Contains(host));
  EXPECT_GT(agent.size(), dev.size());
  EXPECT_THROW(preset_hosts("all", mirror), Error);
}

TEST(Presets, RegistriesNamesNoHostItself) {
  EXPECT_THAT(preset_hosts("registries", [] { return std::vector<std::string>(); }), IsEmpty());
}

TEST(PackageManagers, ReadsAptLists) {
  EXPECT_THAT(
      apt_list_urls("# deb http://no.example/ x\n"
                    "deb http://deb.example/debian stable main\n"
                    "deb-src [ arch=amd64 signed-by=/k ] https://src.example:8443/d stable main\n"
                    "deb [arch=amd64] mirror+https://m.example/list stable main # x\n"
                    "deb\n"),
      ElementsAre("http://deb.example/debian", "https://src.example:8443/d",
                  "mirror+https://m.example/list"));
}

TEST(PackageManagers, ReadsAptStanzas) {
  EXPECT_THAT(apt_deb822_urls("Types: deb\nURIs: http://a.example/debian https://b.example\n"
                              "  http://c.example/x\nSuites: stable\n\n"
                              "# a comment\nEnabled: no\nURIs: http://off.example\n\n"
                              "uris: https://d.example\nEnabled: yes\n"),
              ElementsAre("http://a.example/debian", "https://b.example", "http://c.example/x",
                          "https://d.example"));
}

TEST(PackageManagers, ReadsTheOthers) {
  EXPECT_THAT(
      npmrc_urls("; c\nregistry=https://npm.example/\n@acme:registry = \"https://acme.example\"\n"
                 "//npm.example/:_authToken=secret\n"),
      ElementsAre("https://npm.example/", "https://acme.example"));
  EXPECT_THAT(
      pip_conf_urls("[global]\nindex-url = https://pip.example/simple\n"
                    "extra_index_url =\n    https://one.example/simple\n    https://two.example\n"
                    "timeout = 60\n    https://not.example\n"),
      ElementsAre("https://pip.example/simple", "https://one.example/simple",
                  "https://two.example"));
  EXPECT_THAT(cargo_config_urls("[source.mirror]\nregistry = \"sparse+https://crates.example/i/\"\n"
                                "[registries.acme]\nindex = 'https://acme.example/index' # x\n"),
              ElementsAre("https://crates.example/i/", "https://acme.example/index"));
  EXPECT_THAT(go_proxy_urls("https://go.example|https://two.example,direct,off"),
              ElementsAre("https://go.example", "https://two.example"));
}

TEST(PackageManagers, MakesRulesOfUrls) {
  EXPECT_EQ(rule_for_url("https://user:pw@mirror.example:8081/path"), "mirror.example:8081");
  EXPECT_EQ(rule_for_url("http://mirror.example"), "mirror.example");
  for (const char* url :
       {"file:///srv/mirror", "cdrom:[x]/", "https://10.0.0.1/", "https://*.example/", "https://",
        "ftp://mirror.example", "https://[::1]/"})
    EXPECT_FALSE(rule_for_url(url)) << url;
}

TEST(PackageManagers, LooksWhereEachManagerLooks) {
  const sys::TempDir root;
  const auto put = [&](const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(root.path() + path).parent_path());
    sys::write_file_atomic(root.path() + path, as_bytes(text), 0644);
  };
  put("/etc/apt/sources.list", "deb http://apt.example stable main\n");
  put("/etc/apt/sources.list.d/a.list", "deb http://list.example stable main\n");
  put("/etc/apt/sources.list.d/b.sources", "URIs: http://deb822.example\n");
  put("/etc/apt/sources.list.d/c.bak", "deb http://bak.example stable main\n");
  put("/home/me/.npmrc", "registry=https://npm.example\n");
  put("/home/me/.config/pip/pip.conf", "index-url = https://pip.example/simple\n");
  put("/home/me/.cargo/config.toml", "registry = \"https://crates.example\"\n");
  put("/home/me/.config/go/env", "GOPROXY=https://go.example,direct\n");
  put("/work/.npmrc", "registry=https://apt.example\n");
  const Variable variable = [](std::string_view name) -> std::optional<std::string> {
    if (name == "HOME") return "/home/me";
    if (name == "PIP_INDEX_URL") return "https://variable.example";
    return std::nullopt;
  };
  const AskTools nothing_to_ask = [](const std::vector<Manager>& managers) {
    EXPECT_THAT(managers, IsEmpty());
    return std::vector<std::string>();
  };
  const auto hosts = package_hosts(root.path(), "/work", variable, nothing_to_ask);
  EXPECT_THAT(hosts, UnorderedElementsAre("apt.example", "list.example", "deb822.example",
                                          "npm.example", "pip.example", "variable.example",
                                          "crates.example", "go.example"));
  EXPECT_THAT(package_hosts(
                  root.path() + "/nowhere", "/work",
                  [](std::string_view) { return std::optional<std::string>(); },
                  [](const std::vector<Manager>&) { return std::vector<std::string>(); }),
              IsEmpty());
}

TEST(PackageManagers, AsksTheToolsOfWhichNoFileSpeaks) {
  const sys::TempDir root;
  const auto variable = [](std::string_view name) -> std::optional<std::string> {
    if (name == "PIP_INDEX_URL") return "https://pip.example/simple";
    if (name == "GOSUMDB") return "off";
    return std::nullopt;
  };
  const auto hosts =
      package_hosts(root.path(), "/work", variable, [](const std::vector<Manager>& managers) {
        EXPECT_THAT(managers, ElementsAre(Manager::Npm, Manager::Cargo, Manager::Go));
        return std::vector<std::string>{"https://npm.example/", "undefined", "file:///x"};
      });
  EXPECT_THAT(hosts, UnorderedElementsAre("pip.example", "npm.example"));
}

}
}
