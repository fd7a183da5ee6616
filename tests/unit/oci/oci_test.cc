// Documents and references: what is taken, and every way to be refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/oci/document.h"
#include "mvm/oci/reference.h"

namespace mvm::oci {
namespace {

using ::testing::HasSubstr;

template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Kind::Internal, ""};
}

const std::string kDigest = "sha256:" + std::string(64, 'a');

TEST(References, TakeTheirDefaults) {
  const auto text = [](const char* given) { return parse_reference(given).text(); };
  EXPECT_EQ(text("python"), "docker.io/library/python:latest");
  EXPECT_EQ(text("python:3.12"), "docker.io/library/python:3.12");
  EXPECT_EQ(text("org/app"), "docker.io/org/app:latest");
  EXPECT_EQ(text("index.docker.io/org/app"), "docker.io/org/app:latest");
  EXPECT_EQ(text("GHCR.io/org/app:V1"), "ghcr.io/org/app:V1");
  EXPECT_EQ(text("localhost/app"), "localhost/app:latest");
  EXPECT_EQ(text("localhost:5000/app:v1"), "localhost:5000/app:v1");
  EXPECT_EQ(text("[::1]:5000/app"), "[::1]:5000/app:latest");
  EXPECT_EQ(parse_reference("a@" + kDigest).text(), "docker.io/library/a@" + kDigest);
  EXPECT_EQ(parse_reference("a:b@" + kDigest).tag, "b");
}

TEST(References, ThatAreNoneAreRefused) {
  for (const std::string bad :
       {"",          ":",  "a:",          "a b",      "Upper", "a//b",   "/a",       "a/",
        "a..b",      "-a", "a-",          "a___b",    "a:-x",  "a:b:c",  "host:0/a", "host:99999/a",
        "ho st.x/a", "a@", "a@sha256:12", "a@md5:00", "../a",  "a/../b", "a\n"})
    EXPECT_EQ(error_of([&] { parse_reference(bad); }).kind(), Kind::Invalid) << bad;
  EXPECT_EQ(error_of([] { parse_reference(std::string(300, 'a')); }).kind(), Kind::Invalid);
  EXPECT_EQ(error_of([] { parse_reference("a:" + std::string(129, 't')); }).kind(), Kind::Invalid);
  EXPECT_EQ(error_of([] { parse_reference("a@sha512:" + std::string(128, '0')); }).kind(),
            Kind::Unsupported);
}

TEST(References, LoopbackIsThisHostAlone) {
  for (const char* host :
       {"localhost", "localhost:5000", "127.0.0.1", "127.1.2.3:80", "[::1]:5000"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"localhost.example", "127.0.0.1.example", "128.0.0.1", "127.0.1",
                           "127.0.0.1234", "[::2]", "mylocalhost", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Documents, DisagreeingMediaTypesAreRefused) {
  const std::string manifest =
      R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]})";
  EXPECT_TRUE(std::holds_alternative<Index>(parse_document(manifest, "")));
  EXPECT_THAT(error_of([&] {
                parse_document(manifest, "application/vnd.oci.image.manifest.v1+json");
              }).message(),
              HasSubstr("was named as"));
  EXPECT_THAT(error_of([] {
                parse_document(R"({"schemaVersion":2,"manifests":[],"layers":[]})", "");
              }).message(),
              HasSubstr("both layers and manifests"));
}

TEST(Documents, OldSchemaAndOddOnesAreRefused) {
  EXPECT_THAT(error_of([] { parse_document(R"({"schemaVersion":1,"name":"x"})", ""); }).message(),
              HasSubstr("has to be built or pushed again"));
  for (const char* bad :
       {"", "null", "[]", "1", "{", R"({"schemaVersion":"2"})", R"({"schemaVersion":2})",
        R"({"schemaVersion":2,"manifests":{}})", R"({"schemaVersion":2,"manifests":[1]})",
        R"({"schemaVersion":2,"manifests":[{"digest":5,"size":1}]})",
        R"({"schemaVersion":2,"manifests":[{"digest":"sha256:00","size":1}]})"}) {
    const Kind kind = error_of([&] { parse_document(bad, ""); }).kind();
    EXPECT_TRUE(kind == Kind::Invalid || kind == Kind::Unsupported) << bad;
  }
  for (const char* size : {"-1", "1.5", "\"7\"", "null"})
    EXPECT_THAT(error_of([&] {
                  parse_document(R"({"schemaVersion":2,"manifests":[{"digest":")" + kDigest +
                                     R"(","size":)" + size + "}]}",
                                 "");
                }).message(),
                HasSubstr("size must be a number"))
        << size;
}

TEST(Documents, BoundsHoldForValuesAndDepth) {
  std::string many = R"({"schemaVersion":2,"manifests":[],"x":[)";
  for (int i = 0; i < 70'000; ++i) many += "1,";
  EXPECT_EQ(error_of([&] { parse_document(many + "1]}", ""); }).kind(), Kind::Exhausted);
  EXPECT_EQ(error_of([] { parse_document(std::string(100'000, '['), ""); }).kind(), Kind::Invalid);
  EXPECT_EQ(error_of([] { parse_document(std::string(kMaxDocument + 1, ' '), ""); }).kind(),
            Kind::Exhausted);
}

TEST(Documents, ConfigIsReadWithItsNulls) {
  const Config config = parse_config(
      R"({"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[")" + kDigest +
      R"("]},"config":{"Entrypoint":null,"Cmd":["a","b"],"Env":["A=","B=c=d"],"Labels":null}})");
  EXPECT_TRUE(config.entrypoint.empty());
  EXPECT_EQ(config.cmd.size(), 2U);
  EXPECT_EQ(config.env[1], "B=c=d");
  const std::string head =
      R"({"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]},"config":)";
  for (const char* bad :
       {R"({"Env":["A"]})", R"({"Env":["=x"]})", R"({"Env":"A=b"})", R"({"Cmd":"sh"})",
        R"({"Cmd":[1]})", R"({"User":5})", R"({"User":"a\u0000b"})", R"({"Labels":{"a":1}})",
        R"([])", R"({"StopSignal":"SIGNONE"})", R"({"StopSignal":"65"})"})
    EXPECT_EQ(error_of([&] { parse_config(head + bad + "}"); }).kind(), Kind::Invalid) << bad;
  EXPECT_EQ(error_of([&] {
              parse_config(head + R"({"User":")" + std::string(70'000, 'u') + "\"}}");
            }).kind(),
            Kind::Exhausted);
}

// A configuration with this inside of "config".
static Config with(const std::string& inside) {
  return parse_config(
      R"({"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]},"config":{)" +
      inside + "}}");
}
static std::optional<proto::HealthCheck> health_of(const std::string& check) {
  return with(R"("Healthcheck":)" + check).health;
}

TEST(HealthChecks, AreReadInNanosecondsWithDockersDefaults) {
  const auto full = health_of(
      R"({"Test":["CMD","curl","-f","http://localhost/"],"Interval":10000000000,)"
      R"("Timeout":2500000000,"StartPeriod":1500000,"StartInterval":3000000000,"Retries":5})");
  EXPECT_EQ(full,
            (proto::HealthCheck{{"curl", "-f", "http://localhost/"}, 10'000, 2'500, 1, 3'000, 5}));
  const auto least = health_of(R"({"Test":["CMD-SHELL","test -e /ok || exit 1"],"Interval":0})");
  EXPECT_EQ(least, (proto::HealthCheck{
                       {"/bin/sh", "-c", "test -e /ok || exit 1"}, 30'000, 30'000, 0, 5'000, 3}));
  EXPECT_EQ(with(R"("Shell":["/bin/bash","-ec"],"Healthcheck":{"Test":["CMD-SHELL","true"]})")
                .health->command,
            (std::vector<std::string>{"/bin/bash", "-ec", "true"}));
}

TEST(HealthChecks, ThatAreNoneAreNone) {
  for (const char* none : {R"({"Test":["NONE"]})", R"({"Test":["NONE","x"]})", R"({"Test":[]})",
                           R"({"Test":null,"Interval":5})", R"({})", "null"})
    EXPECT_EQ(health_of(none), std::nullopt) << none;
  EXPECT_EQ(with("").health, std::nullopt);
}

TEST(HealthChecks, TimesBeyondTheBoundsBecomeTheNearestWithin) {
  const auto odd = health_of(
      R"({"Test":["CMD","a"],"Interval":1,"Timeout":9223372036854775807,)"
      R"("StartPeriod":9223372036854775807,"StartInterval":1000000,"Retries":9223372036854775807})");
  EXPECT_EQ(odd, (proto::HealthCheck{{"a"},
                                     proto::kMinHealthMs,
                                     proto::kMaxHealthMs,
                                     proto::kMaxHealthMs,
                                     proto::kMinHealthMs,
                                     proto::kMaxHealthRetries}));
  EXPECT_EQ(odd->complaint(), std::nullopt);
}

TEST(HealthChecks, WithoutAMeaningAreRefused) {
  for (const char* bad :
       {"[]", "5", R"({"Test":"CMD"})", R"({"Test":["CMD"]})", R"({"Test":["CMD-SHELL"]})",
        R"({"Test":["CMD-SHELL","a","b"]})", R"({"Test":["curl","x"]})", R"({"Test":["cmd","x"]})",
        R"({"Test":["CMD",7]})", R"({"Test":["CMD",""]})", R"({"Test":["CMD","a\u0000b"]})",
        R"({"Test":["CMD","a"],"Interval":-1})", R"({"Test":["CMD","a"],"Interval":1.5})",
        R"({"Test":["CMD","a"],"Timeout":"30s"})",
        R"({"Test":["CMD","a"],"Retries":18446744073709551615})",
        R"({"Test":["CMD","a"],"StartPeriod":18446744073709551616})"})
    EXPECT_EQ(error_of([&] { health_of(bad); }).kind(), Kind::Invalid) << bad;
  for (const std::string& bad :
       {R"({"Test":["CMD",")" + std::string(proto::kMaxHealthCommand + 1, 'x') + R"("]})",
        R"({"Test":["CMD","a")" +
            [] {
              std::string words;
              for (size_t i = 0; i < proto::kMaxHealthWords; ++i) words += R"(,"x")";
              return words;
            }() +
            "]}"})
    EXPECT_EQ(error_of([&] { health_of(bad); }).kind(), Kind::Exhausted) << bad.substr(0, 80);
}

TEST(Documents, PlatformsAreChosenByVariantWhereThereIsOne) {
  const auto entry = [](const char* architecture, const char* variant, char name) {
    return Descriptor{"", Digest::parse("sha256:" + std::string(64, name)), 1,
                      Platform{"linux", architecture, variant}, ""};
  };
  const Index index{{entry("arm", "v6", '1'), entry("arm", "v7", '2'), entry("arm64", "v8", '3'),
                     entry("amd64", "v3", '4'), entry("amd64", "", '5')}};
  const auto chosen = [&](const char* platform) {
    return choose(index, parse_platform(platform)).digest.hex().front();
  };
  EXPECT_EQ(chosen("linux/arm/v7"), '2');
  EXPECT_EQ(chosen("linux/arm64"), '3');
  EXPECT_EQ(chosen("linux/amd64"), '5');
  EXPECT_EQ(chosen("linux/amd64/v3"), '4');
  EXPECT_EQ(error_of([&] { chosen("windows/amd64"); }).kind(), Kind::NotFound);
  for (const char* bad : {"linux", "linux/", "/x", "a/b/c/d", "linux/am d64"})
    EXPECT_EQ(error_of([&] { parse_platform(bad); }).kind(), Kind::Invalid) << bad;
}

}
}
