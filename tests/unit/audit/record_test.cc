#include "mvm/audit/record.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace mvm::audit {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;
using testing::Not;

const Time kWhen{microseconds(1'790'000'000'123'456)};
// FIPS 180-2, appendix B.
constexpr std::string_view kOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string line_of(const Event& event, const Detail& detail = {}) {
  return encode({3, crypto::sha256(as_bytes("abc"))}, kWhen, LogId("sb-abc"), event, detail);
}

Egress request() {
  Egress egress;
  egress.kind = Egress::Kind::Http;
  egress.flow = 9;
  egress.host = HostName("API.example.com");
  egress.address = IpAddress::parse("2001:db8::1");
  egress.port = 443;
  egress.method = Method("POST");
  egress.path = Path("/v1/chat;s=1/x?api_key=sk-12345#f");
  egress.outcome = policy::Outcome::Allow;
  egress.reason = policy::Reason::Allowed;
  egress.rule = RuleId("network.routes.chat");
  return egress;
}

TEST(AuditRecord, OfARequestHoldsWhereItWentAndWhyAndNothingElse) {
  EXPECT_EQ(line_of(request()),
            R"({"v":1,"seq":3,"time":"2026-09-21T14:13:20.123456Z","kind":"http",)"
            R"("sandbox_id":"sb-abc","flow":9,"host":"api.example.com","address":"2001:db8::1",)"
            R"("port":443,"transport":"tcp","method":"POST","path":"/v1/chat/x",)"
            R"("outcome":"allow","reason":"allowed","rule":"network.routes.chat",)"
            R"("prev":")" +
                std::string(kOfAbc) + R"("})");
}

TEST(AuditRecord, LeavesPathsOutWhenAskedTo) {
  EXPECT_THAT(line_of(request(), {.paths = false}), Not(HasSubstr("chat/x")));
}

TEST(AuditRecord, SaysThatAPathWasCut) {
  Egress egress = request();
  egress.path = Path("/" + std::string(5'000, 'a'));
  const std::string line = line_of(egress);
  EXPECT_THAT(line, HasSubstr("\"path_length\":5001"));
  EXPECT_LT(line.size(), kMaxLine / 2);
}

TEST(AuditRecord, OfAnExecHoldsItsExitCodeAndNoArguments) {
  EXPECT_THAT(line_of(ExecEnded{RunId("run-1"), 3, {}, false}),
              HasSubstr(R"("sandbox_id":"sb-abc","run_id":"run-1","exit_code":3,"prev")"));
  EXPECT_THAT(line_of(ExecEnded{RunId("run-1"), {}, 9, true}),
              HasSubstr(R"("run_id":"run-1","signal":9,"timed_out":1,"prev")"));
}

TEST(AuditRecord, OfASecretHoldsItsNameAndWhereItWent) {
  for (const auto& [kind, word] : {std::pair{SecretUse::Kind::Used, "secret_used"},
                                   {SecretUse::Kind::Inert, "secret_inert"},
                                   {SecretUse::Kind::Misused, "secret_misused"},
                                   {SecretUse::Kind::Leaked, "secret_leaked"},
                                   {SecretUse::Kind::Masked, "secret_masked"},
                                   {SecretUse::Kind::Unreadable, "secret_unreadable"}}) {
    const std::string line =
        line_of(SecretUse{kind, 9, HostName("api.test"), 443, VariableName("GITHUB_TOKEN"), 2});
    EXPECT_THAT(line, HasSubstr("\"kind\":\"" + std::string(word) + "\""));
    EXPECT_THAT(line, HasSubstr(R"("sandbox_id":"sb-abc","flow":9,"host":"api.test","port":443,)"
                                R"("secret":"GITHUB_TOKEN","count":2,"prev")"));
    EXPECT_TRUE(parse(line));
  }
  EXPECT_EQ(VariableName("ghp_0123 456").text(), "invalid");
}

TEST(AuditRecord, OfPersonalDataHoldsItsClassAndPlaceAlone) {
  for (const auto& [kind, word] : {std::pair{PiiUse::Kind::Detected, "pii_detected"},
                                   {PiiUse::Kind::Tokenized, "pii_tokenized"},
                                   {PiiUse::Kind::Redacted, "pii_redacted"},
                                   {PiiUse::Kind::Denied, "pii_denied"},
                                   {PiiUse::Kind::Restored, "pii_restored"},
                                   {PiiUse::Kind::Mismatched, "pii_mismatched"},
                                   {PiiUse::Kind::Undecodable, "pii_undecodable"}}) {
    const std::string line = line_of(
        PiiUse{kind, 9, HostName("api.test"), 443, ClassName("email"), ClassName("body"), 2});
    EXPECT_THAT(line, HasSubstr("\"kind\":\"" + std::string(word) + "\""));
    EXPECT_THAT(line, HasSubstr(R"("sandbox_id":"sb-abc","flow":9,"host":"api.test","port":443,)"
                                R"("data":"email","place":"body","count":2,"prev")"));
    EXPECT_TRUE(parse(line));
  }
  const std::string changed =
      line_of(PiiUse{PiiUse::Kind::Mismatched, 9, HostName("api.test"), 443, ClassName("card"),
                     ClassName("body"), 1, ClassName("reencoded")});
  EXPECT_THAT(changed, HasSubstr(R"("data":"card","change":"reencoded","place":"body","prev")"));
  EXPECT_TRUE(parse(changed));
  EXPECT_EQ(ClassName("jane@example.com").text(), "invalid");
}

AiUse use_of(AiUse::Told told) {
  AiUse use;
  use.told = told;
  use.flow = 9;
  use.host = HostName("api.test");
  use.port = 443;
  use.provider = ClassName("openai");
  use.model = ModelName("gpt-4o:2024/a@b");
  use.input = 19;
  use.output = 10;
  use.total = 29;
  return use;
}

TEST(AuditRecord, OfAnExchangeWithAProviderHoldsCountsAlone) {
  AiUse use = use_of(AiUse::Told::Reported);
  EXPECT_THAT(line_of(use),
              HasSubstr(R"("kind":"ai_usage","sandbox_id":"sb-abc","flow":9,"host":"api.test",)"
                        R"("port":443,"provider":"openai","model":"gpt-4o:2024/a@b",)"
                        R"("usage":"reported","input_tokens":19,"output_tokens":10,)"
                        R"("total_tokens":29,"prev")"));
  use.cached = 4;
  use.reasoning = 5;
  use.estimated = 400;
  use.told = AiUse::Told::Unknown;
  const std::string unknown = line_of(use);
  EXPECT_THAT(unknown, HasSubstr(R"("usage":"unknown","input_tokens":19,"output_tokens":10,)"
                                 R"("total_tokens":29,"cached_tokens":4,"reasoning_tokens":5,)"
                                 R"("estimated_tokens":400,"prev")"));
  const auto line = parse(unknown);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->number("estimated_tokens"), 400U);
  const std::string nothing = line_of(use_of(AiUse::Told::Nothing));
  EXPECT_THAT(nothing, HasSubstr(R"("usage":"none","prev")"));
  EXPECT_TRUE(parse(nothing));
  for (const std::string& bad :
       {std::string("say hello"), std::string("a\nb"), std::string("\"x"), std::string(81, 'a')})
    EXPECT_EQ(ModelName(bad).text(), "invalid") << bad;
}

TEST(AuditRecord, IsReadAsItWasWritten) {
  const std::string text = line_of(request());
  const auto line = parse(text);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->seq, 3U);
  EXPECT_EQ(line->kind, "http");
  EXPECT_EQ(line->field("path"), "/v1/chat/x");
  EXPECT_EQ(line->number("port"), 443U);
  EXPECT_EQ(line->field("rule"), "network.routes.chat");
  EXPECT_FALSE(line->signature);
  EXPECT_EQ(hex(line->prev), kOfAbc);
}

TEST(AuditRecord, OfEveryKindIsReadAsItWasWritten) {
  const LogId sandbox("sb-abc");
  const Name name("web");
  const DigestText digest(kOfAbc);
  const Head head{7, crypto::sha256({})};
  const std::vector<Event> events = {
      SandboxCreated{sandbox, name, Name("base:latest"), digest},
      SandboxStarted{sandbox, name},
      SandboxEnded{sandbox, name, proto::EndReason::Panic, head},
      SandboxRemoved{sandbox, name},
      ImageImported{name, digest},
      ImageRemoved{name},
      LogExpired{sandbox, head},
      DaemonStarted{},
      PortPublished{sandbox, name, IpAddress(), 8080, 80},
      PortWithdrawn{sandbox, name, IpAddress(), 8080},
      ExecStarted{RunId("run-1")},
      ExecEnded{RunId("run-1"), 3, {}, false},
      request(),
      PolicyChanged{policy::Outcome::Deny, RuleId("a.example")},
      QuestionAnswered{7, policy::Outcome::Allow, true},
      SecretUse{SecretUse::Kind::Used, 9, HostName("api.test"), 443, VariableName("KEY"), 2},
      PiiUse{PiiUse::Kind::Tokenized, 9, HostName("api.test"), 443, ClassName("email"),
             ClassName("body"), 2},
      use_of(AiUse::Told::Unknown)};
  ASSERT_EQ(events.size(), std::variant_size_v<Event>);
  for (const Event& event : events) EXPECT_TRUE(parse(line_of(event))) << line_of(event);
  const auto key = key_of('k');
  FileOpened opened{LogId("daemon"), 2, key.public_key(), {5, crypto::sha256({})}, 3};
  for (const LogRecord& record :
       {LogRecord(opened), LogRecord(Checkpoint{1}), LogRecord(LogClosed{})}) {
    const std::string text = encode({}, kWhen, record, key);
    const auto line = parse(text);
    ASSERT_TRUE(line) << text;
    EXPECT_TRUE(is_signed_by(*line, key.public_key()));
    EXPECT_FALSE(is_signed_by(*line, key_of('j').public_key()));
  }
}

TEST(AuditRecord, HasOneSpellingOnly) {
  const std::string good = line_of(request());
  ASSERT_TRUE(parse(good));
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text : {good + " ",
                                  " " + good,
                                  good.substr(0, good.size() - 1),
                                  std::string(),
                                  std::string("{}"),
                                  with("\"seq\":3", "\"seq\":03"),
                                  with("\"seq\":3", "\"seq\":-3"),
                                  with("\"seq\":3", "\"seq\":\"3\""),
                                  with("\"seq\":3", "\"seq\":18446744073709551616"),
                                  with("\"v\":1", "\"v\": 1"),
                                  with("\"v\":1", "\"v\":2"),
                                  with(",\"flow\"", ", \"flow\""),
                                  with("2026-09-21T", "2026-09-21 "),
                                  with("\"http\"", "\"gopher\""),
                                  with("\"flow\":9", "\"flow\":9,\"flow\":9"),
                                  with("\"flow\":9", "\"argv\":9"),
                                  with("POST", "PO\\u0053T"),
                                  with("POST", "PO\tST"),
                                  with("POST", ""),
                                  with("ba78", "BA78"),
                                  with("ba78", "ba7")})
    EXPECT_FALSE(parse(text)) << text;
  EXPECT_TRUE(is_later_version(with("\"v\":1", "\"v\":2")));
  EXPECT_FALSE(is_later_version(good));
}

// Whatever a guest or a client writes where a field comes from, no other byte of it gets through.
TEST(AuditRecord, HasNoPlaceForWhatDoesNotBelong) {
  std::mt19937 random(7);
  constexpr std::string_view kSecret = "S3CR3T!";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t length = random() % 40; text.size() < length;)
      text += static_cast<char>(random() & 0xff);
    text.insert(random() % (text.size() + 1), kSecret);
    Egress egress;
    egress.kind = Egress::Kind::Http;
    egress.host = HostName(text);
    egress.method = Method(text);
    egress.rule = RuleId(text);
    egress.path = Path("/p?" + text);
    AiUse use = use_of(AiUse::Told::Reported);
    use.host = HostName(text);
    use.provider = ClassName(text);
    use.model = ModelName(text);
    const std::string line = line_of(egress);
    ASSERT_EQ(line.find("S3CR3T"), line.npos) << line;
    ASSERT_TRUE(parse(line)) << line;
    for (const Event& event :
         {Event(SandboxCreated{LogId(text), Name(text), Name(text), DigestText(text)}),
          Event(ExecStarted{RunId(text)}), Event(use),
          Event(SecretUse{SecretUse::Kind::Used, 1, HostName(text), 443, VariableName(text), 1}),
          Event(PiiUse{PiiUse::Kind::Denied, 1, HostName(text), 443, ClassName(text),
                       ClassName(text), 1})}) {
      const std::string other = line_of(event);
      ASSERT_EQ(other.find("S3CR3T"), other.npos) << other;
      ASSERT_TRUE(parse(other));
    }
    // A path is the one thing that may hold it; it stays one field.
    egress.path = Path("/" + text);
    ASSERT_TRUE(parse(line_of(egress)));
  }
}

TEST(AuditRecord, OfAChangeHoldsTheRule) {
  const PolicyChanged change{policy::Outcome::Allow, RuleId("GET https://a.example:443/v1/**")};
  EXPECT_THAT(line_of(change),
              HasSubstr(R"("outcome":"allow","rule":"GET_https://a.example:443/v1/**")"));
  const std::string bare = encode({}, kWhen, LogId("sb-1"), change, {.paths = false});
  EXPECT_THAT(bare, HasSubstr(R"("rule":"GET_https://a.example:443",)"));
  EXPECT_THAT(line_of(QuestionAnswered{7, policy::Outcome::Deny, false}),
              HasSubstr(R"("outcome":"deny","question":7,"scope":"once")"));
}

TEST(AuditRuleId, IsARuleOrItsText) {
  EXPECT_EQ(RuleId("allow-host *.example.com:8443").text(), "allow-host_*.example.com:8443");
  EXPECT_EQ(RuleId("allow [fd00::/8]:443").text(), "allow_[fd00::/8]:443");
  EXPECT_EQ(RuleId("").text(), "");
  for (const std::string& bad : {std::string("a\"b"), std::string("a\\b"), std::string("a\nb"),
                                 std::string("\xc3\xa4"), std::string(257, 'a')})
    EXPECT_EQ(RuleId(bad).text(), "invalid");
}

TEST(AuditHostName, IsANameOrNothing) {
  EXPECT_EQ(HostName("Example.COM").text(), "example.com");
  EXPECT_EQ(HostName("").text(), "");
  EXPECT_EQ(HostName("_dmarc.xn--bcher-kva.example").text(), "_dmarc.xn--bcher-kva.example");
  for (const std::string& bad : {std::string("a..b"), std::string("a."), std::string(".a"),
                                 std::string("a b"), std::string("a\"b"), std::string(64, 'a'),
                                 std::string("a/b"), "a." + std::string(253, 'b')})
    EXPECT_EQ(HostName(bad).text(), "invalid") << bad;
}

TEST(AuditMethod, IsAKnownOneOrOther) {
  EXPECT_EQ(Method("GET").text(), "GET");
  EXPECT_EQ(Method("AAAA").text(), "AAAA");
  EXPECT_EQ(Method("TYPE65535").text(), "TYPE65535");
  EXPECT_EQ(Method("").text(), "");
  for (const std::string_view bad : {"get", "EXFILTRATE", "TYPE", "TYPE123456", "TYPEx"})
    EXPECT_EQ(Method(bad).text(), "other") << bad;
}

TEST(AuditPath, KeepsItsGrammarOnly) {
  EXPECT_EQ(Path("/a%2Fb/\"\\ \x01\xff").text(), "/a%2Fb/%22%5C%20%01%FF");
  EXPECT_EQ(Path("?q").text(), "");
  EXPECT_EQ(Path("/a;b;c/d").text(), "/a/d");
}

}
}
