// What was refused, from records as the sandbox writes them.
#include "../../../src/cli/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/config/manifest.h"

namespace mvm::cli {
namespace {

using audit::Egress;
using policy::Reason;

class RefusalsTest : public testing::Test {
 protected:
  static Egress event(Egress::Kind kind, std::string_view host, uint16_t port, Reason reason) {
    Egress event;
    event.kind = kind;
    event.host = audit::HostName(host);
    event.port = port;
    event.reason = reason;
    if (kind != Egress::Kind::Dns) event.address = IpAddress::parse("93.184.216.34");
    return event;
  }
  static Egress request(std::string_view method, std::string_view host, std::string_view path) {
    Egress out = event(Egress::Kind::Http, host, 443, Reason::RouteDenied);
    out.method = audit::Method(method);
    out.path = audit::Path(path);
    return out;
  }
  void take(const audit::Event& event, const audit::Detail& detail = {}) {
    const std::string text =
        audit::encode({}, std::chrono::system_clock::now(), audit::LogId("sb-1"), event, detail);
    const auto line = audit::parse(text);
    ASSERT_TRUE(line) << text;
    refusals.take(*line);
  }
  std::vector<std::string> shown() const {
    std::vector<std::string> out;
    for (const Refusal& each : refusals.all())
      out.push_back(each.what + " | " + each.reason + " | " + each.flag);
    return out;
  }

  Refusals refusals;
};

TEST_F(RefusalsTest, AreEachThingOnceWithTheFlagThatAdmitsIt) {
  for (int i = 0; i < 3; ++i) {
    Egress query = event(Egress::Kind::Dns, "a.example", 0, Reason::PolicyDenied);
    query.method = audit::Method(i == 0 ? "A" : "AAAA");
    take(query);
    take(event(Egress::Kind::Connect, "b.example", 8443, Reason::PolicyDenied));
    take(event(Egress::Kind::Connect, "", 22, Reason::PolicyDenied));
    take(request("POST", "api.example", "/v1/x"));
  }
  Egress metadata = event(Egress::Kind::Connect, "", 80, Reason::CloudMetadata);
  metadata.address = IpAddress::parse("169.254.169.254");
  take(metadata);
  Egress datagram = event(Egress::Kind::Connect, "c.example", 443, Reason::PolicyDenied);
  datagram.transport = Egress::Transport::Udp;
  take(datagram);
  EXPECT_THAT(shown(), testing::ElementsAre(
                           "a.example (name) | policy_denied | --allow-host a.example:443",
                           "b.example:8443 | policy_denied | --allow-host b.example:8443",
                           "93.184.216.34:22 | policy_denied | --allow-cidr 93.184.216.34:22",
                           "POST api.example:443/v1/x | route_denied | --allow-endpoint 'POST "
                           "https://api.example:443/v1/x'",
                           "169.254.169.254:80 | cloud_metadata | ",
                           "c.example:443 (udp) | policy_denied | "));
}

TEST_F(RefusalsTest, LeaveOutWhatWasAdmittedOrOnlyAsked) {
  Egress admitted = event(Egress::Kind::Tls, "a.example", 443, Reason::Allowed);
  admitted.outcome = policy::Outcome::Allow;
  take(admitted);
  Egress asked = event(Egress::Kind::Connect, "a.example", 443, Reason::AskUser);
  asked.outcome = policy::Outcome::Ask;
  take(asked);
  Egress ended = event(Egress::Kind::End, "a.example", 443, Reason::TimedOut);
  take(ended);
  take(audit::ExecStarted{audit::RunId("run-1")});
  EXPECT_THAT(shown(), testing::IsEmpty());
}

// A flag for a request that is not known whole would admit another one.
TEST_F(RefusalsTest, GuessNoRequest) {
  take(request("POST", "a.example", "/x"), {.paths = false});
  take(request("BREW", "b.example", "/x"));
  take(request("GET", "c.example", "/" + std::string(600, 'x')));
  for (const Refusal& each : refusals.all()) EXPECT_EQ(each.flag, "") << each.what;
  EXPECT_EQ(refusals.all().size(), 3U);
}

TEST_F(RefusalsTest, BecomeTheNarrowestRules) {
  take(event(Egress::Kind::Dns, "api.example", 0, Reason::PolicyDenied));
  take(event(Egress::Kind::Connect, "api.example", 443, Reason::PolicyDenied));
  take(request("POST", "api.example", "/v1/it's"));
  take(event(Egress::Kind::Dns, "db.example", 0, Reason::PolicyDenied));
  Egress database = event(Egress::Kind::Connect, "db.example", 5432, Reason::PolicyDenied);
  database.outcome = policy::Outcome::Allow;
  database.audited = true;
  take(database);
  take(event(Egress::Kind::Dns, "name.example", 0, Reason::PolicyDenied));
  take(event(Egress::Kind::Connect, "", 53, Reason::PolicyDenied));
  take(event(Egress::Kind::Tls, "a.example", 443, Reason::SniMismatch));
  const std::string rules = refusals.as_rules();
  EXPECT_EQ(rules,
            "[network]\n"
            "# Only looked up, so that the port is a guess: name.example:443\n"
            "allow_hosts = [\n  \"db.example:5432\",\n  \"name.example:443\",\n]\n"
            "allow_cidr = [\n  \"93.184.216.34:53\",\n]\n"
            "allow_endpoints = [\n  \"POST https://api.example:443/v1/it%27s\",\n]\n"
            "# No line admits these (shut for good, denied by a rule, or left to a person):\n"
            "#   a.example:443  sni_mismatch\n");
  const config::Parsed parsed = config::parse_manifest(rules);
  EXPECT_TRUE(parsed.complaints.empty());
  EXPECT_EQ(parsed.settings.allow_hosts.size(), 2U);
}

TEST_F(RefusalsTest, AreBounded) {
  for (size_t i = 0; i < Refusals::kMost + 5; ++i)
    take(event(Egress::Kind::Connect, "h" + std::to_string(i) + ".example", 443,
               Reason::PolicyDenied));
  EXPECT_EQ(refusals.all().size(), Refusals::kMost);
  EXPECT_EQ(refusals.more(), 5U);
  EXPECT_THAT(refusals.as_rules(), testing::HasSubstr("# And 5 records of others.\n"));
}

}
}
