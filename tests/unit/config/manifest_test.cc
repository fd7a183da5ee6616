// What mvm.toml means, and what a wrong one is told.

#include "mvm/config/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> complaints(std::string_view text) {
  std::vector<std::string> out;
  for (const Complaint& complaint : parse_manifest(text).complaints)
    out.push_back(complaint.text("mvm.toml"));
  return out;
}

TEST(Manifest, OneSettingUnderTwoSpellingsIsRefused) {
  EXPECT_EQ(parse_manifest("[limits]\ndisk = \"64M\"\n").settings.disk, uint64_t{64} << 20);
  const Parsed both = parse_manifest("disk = \"1G\"\n[limits]\ndisk = \"64M\"\n");
  ASSERT_EQ(both.complaints.size(), 1U);
  EXPECT_EQ(both.complaints[0].text("f"),
            "f:3:1: 'limits.disk' is the same setting as another line here; write it once, as "
            "'disk'");
}

TEST(Manifest, TakesSecrets) {
  const Parsed parsed = parse_manifest(R"(
[secrets]
OPENAI_API_KEY = "env:MY_KEY"
GITHUB_TOKEN = {}
FORGE = { from = "file:~/token", hosts = "git.example", places = ["header", "basic"], headers = ["Private-Token"] }

[secrets.BOT]
hosts = ["api.example", "*.api.example:8443"]
places = ["path"]
prefix = "bot-"
plaintext = true
on_misuse = "end"
on_unreadable = "pass"
require = true
)");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  ASSERT_THAT(parsed.settings.secrets, SizeIs(4));
  EXPECT_EQ(parsed.settings.secrets.at("OPENAI_API_KEY").from, "env:MY_KEY");
  EXPECT_THAT(parsed.settings.secrets.at("FORGE").hosts, ElementsAre("git.example"));
  const proto::SecretRule& bot = parsed.settings.secrets.at("BOT");
  EXPECT_EQ(bot, (proto::SecretRule{"BOT",
                                    "",
                                    {"api.example", "*.api.example:8443"},
                                    {"path"},
                                    {},
                                    "bot-",
                                    true,
                                    "end",
                                    "pass",
                                    true}));
}

TEST(Manifest, SaysWhatIsWrongWithASecret) {
  EXPECT_THAT(complaints("[secrets]\nKEY = \"env:KEY\"\n"),
              ElementsAre(HasSubstr("2:1: 'secrets.KEY' needs `hosts`")));
  EXPECT_THAT(complaints("[secrets]\n1KEY = {}\n"), ElementsAre(HasSubstr("name of a variable")));
  EXPECT_THAT(
      complaints("[secrets]\nKEY = { host = [\"a.test\"] }\n"),
      ElementsAre(HasSubstr("'secrets.KEY' needs `hosts`"), HasSubstr("did you mean 'hosts'?")));
  EXPECT_THAT(complaints("[secrets]\nKEY = { hosts = [\"10.0.0.1\"] }\n"),
              testing::Contains(HasSubstr("'secrets.KEY.hosts'")));
  EXPECT_THAT(complaints("[secrets]\nKEY = { hosts = [\"a.test\"], places = [\"cookie\"] }\n"),
              ElementsAre(HasSubstr("header, basic, query")));
  EXPECT_THAT(complaints("[secrets]\nKEY = 7\n"), testing::Contains(HasSubstr("not an integer")));
  EXPECT_THAT(complaints("[env]\nKEY = \"1\"\n[secrets]\nKEY = { hosts = [\"a.test\"] }\n"),
              ElementsAre(HasSubstr("'env' and 'secrets' both set KEY")));
}

TEST(Manifest, RunsNoCommandOnTheHost) {
  EXPECT_THAT(complaints("[secrets]\nKEY = { from = \"cmd:id\", hosts = [\"a.test\"] }\n"),
              ElementsAre(HasSubstr("mvm secret set NAME --from cmd:")));
}

TEST(Manifest, DoesNotShowAValueThatStandsWhereItsPlaceShould) {
  const auto all =
      complaints("[secrets]\nKEY = { from = \"sk-0123456789\", hosts = [\"a.test\"] }\n");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0], testing::AllOf(HasSubstr("env:NAME"), testing::Not(HasSubstr("0123456789"))));
}

TEST(Manifest, GivesTypedSettings) {
  const Parsed parsed = parse_manifest(R"(
name = "agent-sandbox"
image = "python"
kernel = "tuned"
cpus = 2
mem = "768M"
disk = "2G"
workdir = "/work"
user = "agent"
hostname = "box"

[env]
PYTHONUNBUFFERED = "1"

[labels]
team = "search"

[limits]
disk_bandwidth = "50M"
disk_iops = 1000

[sandbox]
ephemeral = true
boot_timeout = "1m30s"
)");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  Settings expected;
  expected.name = "agent-sandbox";
  expected.image = "python";
  expected.kernel = "tuned";
  expected.cpus = 2;
  expected.memory = uint64_t{768} << 20;
  expected.disk = uint64_t{2} << 30;
  expected.disk_bandwidth = uint64_t{50} << 20;
  expected.disk_iops = 1000;
  expected.workdir = "/work";
  expected.user = "agent";
  expected.hostname = "box";
  expected.env = {{"PYTHONUNBUFFERED", "1"}};
  expected.labels = {{"team", "search"}};
  expected.ephemeral = true;
  expected.boot_timeout_ms = 90'000;
  EXPECT_EQ(parsed.settings, expected);
}

TEST(Manifest, AnEmptyFileDecidesNothing) {
  EXPECT_EQ(parse_manifest("").settings, Settings{});
  EXPECT_THAT(complaints(""), IsEmpty());
  EXPECT_THAT(complaints("# only a comment\r\n"), IsEmpty());
}

TEST(Manifest, AnEmptyStringIsTheSameAsNoLine) {
  const Parsed parsed = parse_manifest("kernel = \"\"\nworkdir = \"\"\nuser = \"\"\n");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  EXPECT_EQ(parsed.settings, Settings{});
}

TEST(Manifest, UnknownKeyNamesTheNearest) {
  EXPECT_THAT(complaints("name = \"a\"\n  memm = \"1G\"\n"),
              ElementsAre("mvm.toml:2:3: unknown key 'memm'; did you mean 'mem'?"));
  EXPECT_THAT(complaints("[sandbox]\nephemeral_ = true\n"),
              ElementsAre("mvm.toml:2:1: unknown key 'ephemeral_' in [sandbox]; did you mean "
                          "'ephemeral'?"));
  EXPECT_THAT(complaints("[sandboxes]\n"),
              ElementsAre("mvm.toml:1:2: unknown key 'sandboxes'; did you mean 'sandbox'?"));
}

TEST(Manifest, KeyInTheWrongTableIsToldWhereItBelongs) {
  EXPECT_THAT(complaints("[sandbox]\ncpus = 2\n"),
              ElementsAre("mvm.toml:2:1: unknown key 'cpus' in [sandbox]; it belongs to the top of "
                          "the file"));
  EXPECT_THAT(complaints("boot_timeout = \"3s\"\n"),
              ElementsAre("mvm.toml:1:1: unknown key 'boot_timeout'; it belongs to [sandbox]"));
}

TEST(Manifest, WrongTypeIsNamed) {
  EXPECT_THAT(complaints("cpus = \"two\"\n"),
              ElementsAre("mvm.toml:1:8: 'cpus' must be an integer, not a string"));
  EXPECT_THAT(complaints("cpus = 1.5\n"),
              ElementsAre("mvm.toml:1:8: 'cpus' must be an integer, not a float"));
  EXPECT_THAT(
      complaints("mem = 768\n"),
      ElementsAre("mvm.toml:1:7: 'mem' must be a size in quotes such as \"768M\", not an integer"));
  EXPECT_THAT(complaints("name = true\n"),
              ElementsAre("mvm.toml:1:8: 'name' must be a string, not a boolean"));
  EXPECT_THAT(complaints("env = [\"A=1\"]\n"),
              ElementsAre("mvm.toml:1:7: 'env' must be a table, not an array"));
  EXPECT_THAT(complaints("[env]\nPORT = 80\n"),
              ElementsAre("mvm.toml:2:8: 'env.PORT' must be a string, not an integer"));
  EXPECT_THAT(complaints("sandbox = 3\n"),
              ElementsAre("mvm.toml:1:11: 'sandbox' must be a table, not an integer"));
  EXPECT_THAT(complaints("[sandbox]\nephemeral = 1979-05-27\n"),
              ElementsAre("mvm.toml:2:13: 'ephemeral' must be true or false, not a date"));
  EXPECT_THAT(complaints("[cpus]\nx = 1\n"),
              ElementsAre(HasSubstr("'cpus' must be an integer, not a table")));
}

TEST(Manifest, RangesHoldAtTheirBounds) {
  EXPECT_THAT(complaints("cpus = 1\n"), IsEmpty());
  EXPECT_THAT(complaints("cpus = 32\n"), IsEmpty());
  EXPECT_THAT(complaints("cpus = 0\n"),
              ElementsAre("mvm.toml:1:8: 'cpus' must be from 1 to 32, not 0"));
  EXPECT_THAT(complaints("cpus = 33\n"),
              ElementsAre("mvm.toml:1:8: 'cpus' must be from 1 to 32, not 33"));
  EXPECT_THAT(complaints("cpus = -1\n"),
              ElementsAre("mvm.toml:1:8: 'cpus' must be from 1 to 32, not -1"));
  EXPECT_THAT(complaints("mem = \"64M\"\n"), IsEmpty());
  EXPECT_THAT(complaints("mem = \"64G\"\n"), IsEmpty());
  EXPECT_THAT(complaints("mem = \"63M\"\n"),
              ElementsAre("mvm.toml:1:7: 'mem' must be from 64 MiB to 64 GiB, not 63 MiB"));
  EXPECT_THAT(complaints("mem = \"65G\"\n"),
              ElementsAre("mvm.toml:1:7: 'mem' must be from 64 MiB to 64 GiB, not 65 GiB"));
  EXPECT_THAT(complaints("mem = \"68157441\"\n"),
              ElementsAre("mvm.toml:1:7: 'mem' must be a multiple of 1 MiB, not 68157441 bytes"));
  EXPECT_THAT(complaints("[sandbox]\nboot_timeout = \"999ms\"\n"),
              ElementsAre("mvm.toml:2:16: 'boot_timeout' must be from 1s to 1h0m, not 999ms"));
}

TEST(Manifest, BadTextIsToldWhatIsRight) {
  EXPECT_THAT(complaints("mem = \"lots\"\n"),
              ElementsAre("mvm.toml:1:7: 'mem' must be a size such as \"768M\" or \"2G\", not "
                          "'lots'"));
  EXPECT_THAT(complaints("mem = \"99999999999999999999G\"\n"),
              ElementsAre(HasSubstr("'mem' must be a size")));
  EXPECT_THAT(complaints("[sandbox]\nboot_timeout = \"soon\"\n"),
              ElementsAre("mvm.toml:2:16: 'boot_timeout' must be a duration such as \"30s\" or "
                          "\"1m30s\", not 'soon'"));
  EXPECT_THAT(
      complaints("name = \"../etc\"\n"),
      ElementsAre("mvm.toml:1:8: 'name' is no valid name: a name starts with a letter or digit"));
  EXPECT_THAT(complaints("name = \"" + std::string(64, 'a') + "\"\n"),
              ElementsAre(HasSubstr("the name has 64 characters; the most is 63")));
  EXPECT_THAT(complaints("kernel = \"./vmlinux\"\n"),
              ElementsAre("mvm.toml:1:10: 'kernel' must be a name or an absolute path"));
  EXPECT_THAT(complaints("kernel = \"/boot/vmlinux\"\n"), IsEmpty());
  EXPECT_THAT(complaints("workdir = \"work\"\n"),
              ElementsAre("mvm.toml:1:11: 'workdir' must be an absolute path, such as \"/work\""));
  EXPECT_THAT(complaints("image = \"\"\n"), ElementsAre(HasSubstr("'image' must not be empty")));
  EXPECT_THAT(complaints("hostname = \"-x\"\n"),
              ElementsAre("mvm.toml:1:12: 'hostname' must be letters, digits and inner '-'"));
  EXPECT_THAT(complaints("user = \"a/b\"\n"),
              ElementsAre("mvm.toml:1:8: 'user' must be a user name, a uid, or uid:gid"));
}

TEST(Manifest, ReadsTheNetwork) {
  const Parsed parsed = parse_manifest(R"(
[network]
enabled = true
preset = "dev"
mode = "audit"
inspect = "all"
allow_hosts = ["example.com", "*.example.org:8443"]
allow_cidr = ["10.1.0.0/16:5432"]
allow_endpoints = ["GET https://example.net/v1/**"]
resolvers = ["9.9.9.9", "[2620:fe::fe]:53"]
upstream_ca = ["*.corp.example=/etc/ssl/corp.pem"]
mtu = 1500
proxy_port = 8888

[network.limits]
names_per_zone = 40

[network.timeouts]
first_bytes = "1s"
connect = "2s"
handshake = "3s"
idle = "4m"
http_idle = "5m"
half_closed = "6m"

[[network.routes]]
id = "forge"
host = "api.example.com"
port = 443
intercept = true
otherwise = "ask"
rules = [
  { id = "read", method = "GET", path = "/repos/**", outcome = "allow" },
  { method = "*", path = "/admin/**", outcome = "deny" },
]

[[network.routes]]
host = "*.example.com"
ports = [80, 8080]
)");
  EXPECT_THAT(parsed.complaints, IsEmpty());
  Settings expected;
  expected.network_enabled = true;
  expected.network_preset = "dev";
  expected.network_mode = "audit";
  expected.network_inspect = "all";
  expected.allow_hosts = {"example.com", "*.example.org:8443"};
  expected.allow_cidr = {"10.1.0.0/16:5432"};
  expected.allow_endpoints = {"GET https://example.net/v1/**"};
  expected.resolvers = {"9.9.9.9", "[2620:fe::fe]:53"};
  expected.upstream_ca = {"*.corp.example=/etc/ssl/corp.pem"};
  expected.network_mtu = 1500;
  expected.network_proxy_port = 8888;
  expected.network_names_per_zone = 40;
  expected.network_first_bytes_ms = 1'000;
  expected.network_connect_ms = 2'000;
  expected.network_handshake_ms = 3'000;
  expected.network_idle_ms = 240'000;
  expected.network_http_idle_ms = 300'000;
  expected.network_half_closed_ms = 360'000;
  expected.routes = {{"forge",
                      "api.example.com",
                      {443},
                      {{"read", "GET", "/repos/**", "allow"}, {"", "*", "/admin/**", "deny"}},
                      "ask"},
                     {"", "*.example.com", {80, 8080}, {}, "deny"}};
  EXPECT_EQ(parsed.settings, expected);
}

TEST(Manifest, TimeoutsAndPortsOfTheNetworkHoldAtTheirBounds) {
  EXPECT_THAT(complaints("[network]\nproxy_port = 65536\n"),
              ElementsAre("mvm.toml:2:14: 'proxy_port' must be from 0 to 65535, not 65536"));
  EXPECT_THAT(complaints("[network.timeouts]\nconnect = \"999ms\"\n"),
              ElementsAre("mvm.toml:2:11: 'connect' must be from 1s to 7d0h, not 999ms"));
  EXPECT_THAT(complaints("[network.timeouts]\nhttp_idle = \"8d\"\n"),
              ElementsAre("mvm.toml:2:13: 'http_idle' must be from 1s to 7d0h, not 8d0h"));
  EXPECT_THAT(complaints("[network.timeouts]\nidle = 7200\n"), SizeIs(1));
  EXPECT_THAT(complaints("[network.timeouts]\nread = \"1s\"\n"), SizeIs(1));
}

TEST(Manifest, ReadsWhenRecordsAreOnTheDisk) {
  Settings expected;
  expected.audit_sync = "strict";
  EXPECT_EQ(parse_manifest("[audit]\nsync = \"strict\"\n").settings, expected);
  EXPECT_THAT(complaints("[audit]\nsync = \"always\"\n"),
              ElementsAre("mvm.toml:2:8: 'sync' must be \"normal\" or \"strict\", not 'always'"));
  EXPECT_THAT(complaints("[network]\ninspect = \"some\"\n"),
              ElementsAre("mvm.toml:2:11: 'inspect' must be \"needed\" or \"all\", not 'some'"));
}

TEST(Manifest, WrongRulesHaveTheirPlace) {
  EXPECT_THAT(complaints("[network]\nallow_hosts = [\"ok.example\", \"10.0.0.1\"]\n"),
              ElementsAre("mvm.toml:2:30: 'allow_hosts' \"10.0.0.1\" is an address; those are for "
                          "allow_cidr"));
  EXPECT_THAT(
      complaints("[network]\nallow_hosts = \"a.example\"\n"),
      ElementsAre("mvm.toml:2:15: 'allow_hosts' must be an array of strings, not a string"));
  EXPECT_THAT(complaints("[network]\nallow_cidr = [\"10.0.0.1/8\"]\n"),
              ElementsAre(HasSubstr("mvm.toml:2:15: 'allow_cidr' \"10.0.0.1/8\" is not a range")));
  EXPECT_THAT(complaints("[network]\npreset = \"all\"\n"),
              ElementsAre(HasSubstr("mvm.toml:2:10: 'preset' must be \"none\"")));
  EXPECT_THAT(complaints("[[network.routes]]\nhots = \"a.example\"\n"),
              ElementsAre(HasSubstr("a route needs a 'host'"),
                          "mvm.toml:2:1: unknown key 'hots' in [[network.routes]]; did you mean "
                          "'host'?"));
  EXPECT_THAT(
      complaints("[[network.routes]]\nhost = \"a.example\"\nrules = [{ outcome = \"permit\" }]\n"),
      ElementsAre("mvm.toml:3:22: 'outcome' must be \"allow\", \"deny\" or \"ask\", not 'permit'"));
  EXPECT_THAT(complaints("[[network.routes]]\nhost = \"a.example\"\nport = 0\n"),
              ElementsAre("mvm.toml:3:8: 'port' must be from 1 to 65535, not 0"));
  EXPECT_THAT(complaints("[[network.routes]]\nhost = \"a.example\"\nintercept = false\n"),
              ElementsAre(HasSubstr("mvm.toml:3:13: 'intercept' cannot be false")));
  EXPECT_THAT(complaints("[network]\nroutes = 3\n"),
              ElementsAre(HasSubstr("mvm.toml:2:10: 'routes' must be tables")));
}

TEST(Manifest, ReportsEveryComplaintInFileOrder) {
  EXPECT_THAT(complaints("memm = \"1G\"\ncpus = \"two\"\nname = \"/\"\n"),
              ElementsAre(HasSubstr("mvm.toml:1:1: unknown key 'memm'"),
                          HasSubstr("mvm.toml:2:8: 'cpus'"), HasSubstr("mvm.toml:3:8: 'name'")));
}

TEST(Manifest, SyntaxErrorsHaveTheirPlace) {
  EXPECT_THAT(complaints("cpus = 2\nmem = \n"), ElementsAre(HasSubstr("mvm.toml:2:7: ")));
  EXPECT_THAT(complaints("cpus = 2\ncpus = 3\n"),
              ElementsAre(testing::AllOf(HasSubstr("mvm.toml:2:"), HasSubstr("cpus"))));
  EXPECT_THAT(complaints("name = \"a\xff\"\n"), ElementsAre(HasSubstr("mvm.toml:1:")));
  EXPECT_THAT(complaints("a = " + std::string(1000, '[')), SizeIs(1));
}

TEST(Manifest, AnyTextMayStandInCommentsAndStrings) {
  const std::string text = "# \u26a0\ufe0f \ufefb\n[env]\nA = \"\u26a0\ufe0f \ufefb\"\n";
  EXPECT_THAT(complaints(text), IsEmpty());
  EXPECT_THAT(parse_manifest(text).settings.env,
              ElementsAre(testing::Pair("A", "\u26a0\ufe0f \ufefb")));
}

TEST(Manifest, TextsThatConfuseTheParserAreSyntaxErrors) {
  EXPECT_THAT(complaints("[#]\n"), ElementsAre("mvm.toml:1:1: this line is no valid TOML"));
  EXPECT_THAT(complaints("cpus = 2\n\n[#]\nmem = \"1G\"\n"),
              ElementsAre("mvm.toml:3:1: this line is no valid TOML"));
  EXPECT_THAT(complaints("a = \"\"\"\nx\n\"\"\"\n[env]\nA = \"1\"\n[=]\n"),
              ElementsAre("mvm.toml:6:1: this line is no valid TOML"));
}

TEST(Manifest, ComplaintsCarryNoControlBytes) {
  for (const std::string text :
       {"\"\\u001b[31m\" = 1\n", "name = \"\\u001b[31m\"\n", "mem = \"\\u001b]0;x\"\n",
        "[env]\n\"a\\u001b\" = 1\n", "[env]\n\"a\\u001b\" = \"1\"\n", "x\x1b = 1\n"})
    for (const std::string& complaint : complaints(text))
      EXPECT_EQ(complaint.find('\x1b'), std::string::npos) << complaint;
}

TEST(Manifest, ReadsMeteringOfAi) {
  const Parsed parsed = parse_manifest(
      "[network.ai]\nmetering = true\nbudget = { max_total_tokens = 250_000, max_cost = \"2.50\" "
      "}\non_unknown = \"refuse\"\nproviders = [\"openai\", \"llm.example:8443\"]\n"
      "prices = [\"gpt-4o* input=2.50 output=10\"]\n");
  EXPECT_TRUE(parsed.complaints.empty());
  EXPECT_EQ(parsed.settings.ai_metering, true);
  EXPECT_EQ(parsed.settings.ai_max_total_tokens, 250'000U);
  EXPECT_EQ(parsed.settings.ai_max_cost, "2.50");
  EXPECT_EQ(parsed.settings.ai_on_unknown, "refuse");
  EXPECT_EQ(parsed.settings.ai_providers.size(), 2U);
  EXPECT_EQ(parse_manifest("[network.ai.budget]\nmax_requests = 7\n").settings.ai_max_requests, 7U);
  EXPECT_THAT(complaints("[network.ai]\nbudget = { max_tokens = 1 }\n"),
              ElementsAre(HasSubstr("unknown key 'max_tokens' in [network.ai.budget]")));
  EXPECT_THAT(complaints("[network.ai]\nproviders = [\"opneai\"]\n"),
              ElementsAre(HasSubstr("mvm.toml:2:14: 'providers' must be one of openai, ")));
  EXPECT_THAT(complaints("[network.ai]\nprices = [\"gpt-4o 2.50\"]\n"),
              ElementsAre(HasSubstr("'prices' must be a model and its dollars")));
  EXPECT_THAT(complaints("[network.ai]\non_unknown = \"guess\"\n"),
              ElementsAre(HasSubstr("\"count\", \"estimate\" or \"refuse\"")));
  EXPECT_THAT(complaints("[network]\nai = 3\n"),
              ElementsAre(HasSubstr("'network.ai' must be a table")));
}

TEST(Manifest, LaterNamesAreRefusedNeverIgnored) {
  for (const LaterKey& later : later_keys()) {
    const std::string text = (later.table.empty() ? "" : "[" + std::string(later.table) + "]\n") +
                             std::string(later.name) + " = \"x\"\n";
    EXPECT_THAT(complaints(text), ElementsAre(HasSubstr(std::string(later.why)))) << text;
  }
}

TEST(Manifest, SizeIsBounded) {
  std::string text = "cpus = 2\n#";
  text.resize(kMaxManifest, 'x');
  EXPECT_THAT(complaints(text), IsEmpty());
  text += 'x';
  EXPECT_THAT(complaints(text), ElementsAre("mvm.toml: a manifest has at most 1 MiB, not 1048577 "
                                            "bytes"));
}

TEST(Manifest, TablesAreBounded) {
  const auto with_entries = [](size_t count) {
    std::string text = "[env]\n";
    for (size_t i = 0; i < count; ++i) text += "V" + std::to_string(i) + " = \"1\"\n";
    return text;
  };
  EXPECT_THAT(complaints(with_entries(kMaxTableEntries)), IsEmpty());
  EXPECT_THAT(complaints(with_entries(kMaxTableEntries + 1)),
              ElementsAre(HasSubstr("'env' has 257 entries; the most is 256")));
  EXPECT_THAT(complaints("[env]\nA = \"" + std::string(kMaxEnvValue, 'x') + "\"\n"), IsEmpty());
  EXPECT_THAT(complaints("[env]\nA = \"" + std::string(kMaxEnvValue + 1, 'x') + "\"\n"),
              ElementsAre(HasSubstr("at most 32 KiB")));
  EXPECT_THAT(complaints("[labels]\na = \"" + std::string(kMaxLabelValue + 1, 'x') + "\"\n"),
              ElementsAre(HasSubstr("at most 255 bytes")));
  std::string many;
  for (int i = 0; i < 300; ++i) many += "k" + std::to_string(i) + "qqqqq = 1\n";
  EXPECT_THAT(complaints(many), SizeIs(kMaxComplaints));
}

TEST(Manifest, ReadThrowsAllComplaintsAtOnce) {
  try {
    read_manifest("memm = 1\ncpus = 0\n", "box.toml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    EXPECT_EQ(error.message(),
              "box.toml:1:1: unknown key 'memm'; did you mean 'mem'?\n"
              "box.toml:2:8: 'cpus' must be from 1 to 32, not 0");
  }
}

TEST(Environment, SetsWhatItNames) {
  const Settings settings = settings_from_environment([](std::string_view name) {
    return name == "MVM_CPUS" ? std::optional<std::string>("4") : std::nullopt;
  });
  Settings expected;
  expected.cpus = 4;
  EXPECT_EQ(settings, expected);
}

TEST(Environment, ComplaintNamesTheVariable) {
  try {
    settings_from_environment([](std::string_view name) {
      return name == "MVM_MEM" ? std::optional<std::string>("1X") : std::nullopt;
    });
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "MVM_MEM must be a size such as \"768M\" or \"2G\", not '1X'");
  }
}

TEST(Resolve, FirstLayerWinsAndTablesMerge) {
  Settings flags, file;
  flags.cpus = 4;
  flags.env = {{"A", "flag"}};
  file.cpus = 2;
  file.image = "python";
  file.env = {{"A", "file"}, {"B", "file"}};
  const std::vector<Layer> layers = {
      {"command line", flags}, {"mvm.toml", file}, {"default", default_settings()}};
  const Resolved resolved = resolve(layers);
  EXPECT_EQ(resolved.settings.cpus, 4U);
  EXPECT_EQ(resolved.settings.image, "python");
  EXPECT_EQ(resolved.settings.memory, uint64_t{512} << 20);
  EXPECT_THAT(resolved.settings.env,
              ElementsAre(testing::Pair("A", "flag"), testing::Pair("B", "file")));
  const auto origin_of = [&](std::string_view name) {
    for (size_t i = 0; i < keys().size(); ++i)
      if (keys()[i].name == name) return resolved.origins.at(i);
    return std::string("no such key");
  };
  EXPECT_EQ(origin_of("cpus"), "command line");
  EXPECT_EQ(origin_of("image"), "mvm.toml");
  EXPECT_EQ(origin_of("mem"), "default");
  EXPECT_EQ(origin_of("user"), "");
}

TEST(Manifest, ATableBelowATableIsReadInEitherSpelling) {
  for (const char* text : {"[network]\nlimits = { flows = 7, send_bandwidth = \"1M\" }\n",
                           "[network.limits]\nflows = 7\nsend_bandwidth = \"1M\"\n",
                           "[network]\nlimits.flows = 7\nlimits.send_bandwidth = \"1M\"\n"}) {
    const Parsed parsed = parse_manifest(text);
    EXPECT_TRUE(parsed.complaints.empty()) << text;
    EXPECT_EQ(parsed.settings.network_flows, 7U) << text;
    EXPECT_EQ(parsed.settings.network_send_bandwidth, uint64_t{1} << 20) << text;
  }
  const auto complaint = [](std::string_view text) {
    const Parsed parsed = parse_manifest(text);
    return parsed.complaints.empty() ? "" : parsed.complaints.front().message;
  };
  EXPECT_EQ(complaint("[network]\nlimit = {}\n"),
            "unknown key 'limit' in [network]; did you mean 'limits'?");
  EXPECT_EQ(complaint("[network.limits]\nflow = 1\n"),
            "unknown key 'flow' in [network.limits]; did you mean 'flows'?");
  EXPECT_EQ(complaint("[network]\nlimits = 3\n"),
            "'network.limits' must be a table, not an integer");
  EXPECT_EQ(complaint("[limits]\nflows = 3\n"),
            "unknown key 'flows' in [limits]; it belongs to [network.limits]");
}

}
}
