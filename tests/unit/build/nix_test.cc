// What the builder says, judged.
#include "mvm/build/nix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/build/guest_image.h"

#include "../../../src/build/command.h"
#include "../../../src/build/deadline.h"

namespace mvm::build {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

static const std::string kPath = "/nix/store/rnm71xjfry7bcbm8jqv4lc1740mz44bg-web-root";

TEST(StorePath, IsItsHashAndAName) {
  EXPECT_TRUE(is_store_path(kPath));
  for (const std::string& text :
       {std::string("/nix/store/"), std::string("/etc"), kPath + "/bin", kPath + "\n",
        std::string("/nix/store/enm71xjfry7bcbm8jqv4lc1740mz44bg-x"),  // 'e' is no digit of it
        std::string("/nix/store/rnm71xjfry7bcbm8jqv4lc1740mz44bg-"),
        "/nix/store/rnm71xjfry7bcbm8jqv4lc1740mz44bg-" + std::string(212, 'a'),
        std::string("/nix/store/../../etc/passwd")})
    EXPECT_FALSE(is_store_path(text)) << text;
}

TEST(NixBuild, SaysWhatItMade) {
  EXPECT_EQ(built_path(R"([{"drvPath":"x","outputs":{"out":")" + kPath + R"("}}])"), kPath);
  for (const std::string& text :
       {std::string(""), std::string("[]"), std::string("[{},{}]"), std::string("{"),
        std::string(R"([{"outputs":{"out":"/etc"}}])"),
        std::string(R"([{"outputs":{"dev":")") + kPath + R"("}}])",
        std::string(R"([{"outputs":7}])"), std::string("[7]"), std::string(100'000, '[')})
    EXPECT_THROW(built_path(text), Error) << text.substr(0, 80);
}

TEST(Closure, IsAListOfStorePaths) {
  EXPECT_THAT(store_paths(kPath + "\n" + kPath + "2\n"), ElementsAre(kPath, kPath + "2"));
  EXPECT_THROW(store_paths(""), Error);
  EXPECT_THROW(store_paths(kPath + "\n--to-command=rm\n"), Error);
  EXPECT_THROW(store_paths(kPath + "/../..\n"), Error);
}

TEST(LockFile, SaysWhatInputsArePinnedTo) {
  EXPECT_THAT(
      pins_of(R"({"root":"r","nodes":{"r":{"inputs":{"a":"n1","b":["a"],"c":"n2","d":"gone"}},
      "n1":{"locked":{"narHash":"sha256-x","rev":"y"}},"n2":{"locked":{"rev":"z"}}}})"),
      ElementsAre(Pair("a", "sha256-x"), Pair("c", "z")));
  EXPECT_THAT(pins_of(R"({"root":"r","nodes":{"r":{}}})"), ElementsAre());
  for (const char* text : {"", "{}", "[]", R"({"root":7,"nodes":{}})", R"({"root":"r"})"})
    EXPECT_THROW(pins_of(text), Error) << text;
}

TEST(Explanation, SaysWhatToDo) {
  EXPECT_THAT(explain("error: builder for '" + kPath + ".drv' failed with exit code 1;").hint,
              HasSubstr("nix log " + kPath + ".drv"));
  EXPECT_EQ(explain("error: builder for '/etc/passwd' failed").derivation, "");
  EXPECT_THAT(explain("error: writing to file: No space left on device").hint, HasSubstr("gc"));
  EXPECT_THAT(explain("error: unable to download 'https://x'").hint, HasSubstr("allow_hosts"));
  EXPECT_THAT(explain("").message, HasSubstr("cannot be evaluated"));
  EXPECT_THAT(explain("", "mvm build /x").hint, HasSubstr("`mvm build /x -v`"));
}

TEST(Command, BuildsTheSameWhereverItIsTyped) {
  Request request;
  request.directory = "/home/a b";
  request.name = "made";
  request.flake = parse_flake(".?dir=sub#web");
  request.overrides = {{"nixpkgs", "/src/it's"}};
  EXPECT_EQ(command_of(request),
            "mvm build '/home/a b' --flake '.?dir=sub#web' --name made "
            "--override-input 'nixpkgs=/src/it'\\''s'");
  request.directory = "/w";
  request.overrides.clear();
  request.flake = parse_flake("github:owner/repo#web");
  EXPECT_EQ(command_of(request), "mvm build /w --flake github:owner/repo#web --name made");
}

TEST(Deadline, IsOneForAll) {
  EXPECT_EQ(Deadline().left(), agent::Milliseconds(0));
  EXPECT_THROW(Deadline().over(), Error);  // a hostile builder may say that it is
  const Deadline hour{agent::Milliseconds(3'600'000)};
  const auto left = hour.left();
  EXPECT_LE(left, agent::Milliseconds(3'600'000));
  EXPECT_GT(left, agent::Milliseconds(0));
  EXPECT_LE(hour.left(), left);
  try {
    Deadline(agent::Milliseconds(0)).left();
    FAIL() << "there was time";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Timeout);
  }
}

TEST(GuestImage, IsReadWhole) {
  const GuestImage image = parse_guest_image(
      R"({"mvm":1,"name":"web","root":")" + kPath +
      R"(","entrypoint":["a","b c"],"env":{"A":"1"},"user":"u","workdir":"/w","labels":{"k":"v"},
      "attributes":[{"path":"/tmp","mode":"1777","uid":3,"gid":4}],"kernel":null,
      "healthcheck":{"command":["check"],"interval":10,"retries":5}})");
  EXPECT_EQ(image.root, kPath);
  EXPECT_THAT(image.entrypoint, ElementsAre("a", "b c"));
  EXPECT_THAT(image.env, ElementsAre(Pair("A", "1")));
  ASSERT_EQ(image.attributes.size(), 1U);
  EXPECT_EQ(image.attributes[0].mode, 01777U);
  EXPECT_EQ(image.attributes[0].uid, 3U);
  EXPECT_EQ(image.kernel, "");
  EXPECT_EQ(image.health, (proto::HealthCheck{{"check"}, 10'000, 30'000, 0, 5'000, 5}));
}

TEST(GuestImage, ThatMakesNoSenseNamesItsKey) {
  const auto complaint = [](const std::string& rest) {
    try {
      parse_guest_image(R"({"mvm":1,"root":")" + kPath + "\"" + rest + "}");
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  EXPECT_EQ(complaint(""), "none");
  EXPECT_THAT(complaint(R"(,"entrypoint":"sh")"), HasSubstr("entrypoint"));
  EXPECT_THAT(complaint(R"(,"entrypoint":[7])"), HasSubstr("entrypoint"));
  EXPECT_THAT(complaint(R"(,"env":{"A=B":"1"})"), HasSubstr("env"));
  EXPECT_THAT(complaint(R"(,"env":{"A":"\u0000"})"), HasSubstr("env.A"));
  EXPECT_THAT(complaint(R"(,"workdir":"relative")"), HasSubstr("workdir"));
  EXPECT_THAT(complaint(R"(,"user":7)"), HasSubstr("user"));
  EXPECT_THAT(complaint(R"(,"labels":{"mvm.flake.lock":"sha256:0"})"),
              HasSubstr("labels.mvm.flake.lock"));
  EXPECT_THAT(complaint(R"(,"kernel":"/boot")"), HasSubstr("kernel"));
  EXPECT_THAT(complaint(R"(,"attributes":[{"path":"/x","mode":"99"}])"), HasSubstr("mode"));
  EXPECT_THAT(complaint(R"(,"attributes":[{"path":"x","mode":"755"}])"), HasSubstr("path"));
  EXPECT_THAT(complaint(R"(,"attributes":[{"path":"/x","mode":"755","uid":-1}])"),
              HasSubstr("uid"));
  EXPECT_THAT(complaint(R"(,"healthcheck":"true")"), HasSubstr("healthcheck must"));
  EXPECT_THAT(complaint(R"(,"healthcheck":{"command":[]})"), HasSubstr("healthcheck.command"));
  EXPECT_THAT(complaint(R"(,"healthcheck":{"command":["x"],"interval":0})"),
              HasSubstr("healthcheck cannot be taken: interval_ms"));
  EXPECT_THAT(complaint(R"(,"healthcheck":{"command":["x"],"retries":4294967296})"),
              HasSubstr("healthcheck.retries"));
  EXPECT_THROW(parse_guest_image("[]"), Error);
  EXPECT_THROW(parse_guest_image(R"({"root":")" + kPath + "\"}"), Error);
}

}
