// Package managers' tools, asked for what their files do not say. Stand-ins are on the PATH.
#include "../../../src/cli/package_tools.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "mvm/sys/file.h"

namespace mvm::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr auto kLong = 60s;
const std::vector<Manager> kAll{Manager::Npm, Manager::Pip, Manager::Cargo, Manager::Go};

class PackageTools : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& script, const std::string& folder = "bin") {
    const std::string path = root_.path() + "/" + folder + "/" + name;
    std::filesystem::create_directories(root_.path() + "/" + folder);
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  std::string text_of(const std::string& name) const {
    return sys::exists(root_.path() + "/" + name)
               ? sys::read_text_file(root_.path() + "/" + name, 1 << 20)
               : "";
  }
  std::vector<std::string> ask(std::chrono::milliseconds patience = kLong) {
    return ask_package_tools(kAll, variable_, patience).urls;
  }
  std::vector<std::string> ask_or_recall(std::chrono::milliseconds patience = kLong) {
    return package_tool_urls(kAll, variable_, patience, root_.path() + "/kept");
  }

  sys::TempDir root_;
  std::string path_ = root_.path() + "/bin:/usr/bin:/bin";
  Variable variable_ = [this](std::string_view name) -> std::optional<std::string> {
    if (name == "PATH") return path_;
    if (name == "HOME") return root_.path();
    if (name == "TOKEN") return "secret";
    return std::nullopt;
  };
  // A host has some of these; the test has its own.
  void SetUp() override {
    for (const char* name : {"npm", "pip", "cargo", "go"}) put(name, "exit 1");
  }
};

TEST_F(PackageTools, SayWhatTheirUsersSet) {
  put("npm", "test \"$*\" = 'config get registry' && echo https://npm.example/");
  put("pip", R"(test "$*" = 'config list' && cat <<'END'
:env:.timeout='60'
global.index-url='https://pip.example/simple'
install.extra-index-url='\nhttps://one.example/simple\nhttp://two.example:8081'
END)");
  put("cargo", R"(cat <<'END'
registries.acme.index = "sparse+https://acme.example/index/"
source.crates-io.replace-with = "mirror"
source.mirror.registry = "https://crates.example"
END)");
  put("go",
      R"(test "$*" = 'env GOPROXY GOSUMDB' && printf '%s\n' 'https://go.example,direct' sum.example)");
  EXPECT_THAT(ask(), UnorderedElementsAre("https://npm.example", "https://pip.example",
                                          "https://one.example", "https://two.example:8081",
                                          "https://acme.example", "https://crates.example",
                                          "https://go.example", "https://sum.example"));
}

TEST_F(PackageTools, AreAskedForWhatIsAskedAlone) {
  put("npm", "echo https://npm.example/");
  put("go", "touch \"$HOME/ran\"");
  EXPECT_THAT(ask_package_tools({Manager::Npm, Manager::Pip}, variable_, kLong).urls,
              ElementsAre("https://npm.example"));
  EXPECT_FALSE(sys::exists(root_.path() + "/ran"));
}

TEST_F(PackageTools, AreBelievedNothingThatIsNoHost) {
  put("npm",
      R"(printf 'undefined\n\033]0;x\007https://esc.example\nhttps://10.0.0.1/\nhttps://*.example/\nfile:///etc\n'
    printf 'https://ok.example/$(touch x)\n--allow-host evil.test\nhttps://a.example/\0https://b.example\n')");
  EXPECT_THAT(ask(), ElementsAre("https://ok.example", "https://a.example"));
}

TEST_F(PackageTools, SayNothingWhereTheyFail) {
  put("npm", "echo https://npm.example/; exit 3");
  put("pip", "echo \"global.index-url='https://pip.example'\"; kill -9 $$");
  EXPECT_THAT(ask(), IsEmpty());
  EXPECT_TRUE(ask_package_tools(kAll, variable_, kLong).whole);
}

TEST_F(PackageTools, AreCutOffWhenTheySayTooMuch) {
  put("npm", "echo https://npm.example/; while :; do echo https://more.example/; done");
  const ToolAnswer answer = ask_package_tools(kAll, variable_, kLong);
  EXPECT_THAT(answer.urls, IsEmpty());
  EXPECT_FALSE(answer.whole);
}

// With what it has started, which would hold the pipe.
TEST_F(PackageTools, AreKilledWhenTheyTakeTooLong) {
  put("npm", "echo $$ >\"$HOME/pid\"; sleep 1000 & sleep 1000");
  put("go", "printf 'https://go.example\\noff\\n'");
  // Once it runs, it is not waited for; when that is depends on the host.
  ToolAnswer answer;
  for (auto patience = 200ms; text_of("pid").empty() || answer.urls.empty(); patience *= 2)
    answer = ask_package_tools(kAll, variable_, patience);
  EXPECT_THAT(answer.urls, ElementsAre("https://go.example"));
  EXPECT_FALSE(answer.whole);
  const pid_t pid = std::stoi(text_of("pid"));
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(PackageTools, AreFoundAtAbsolutePathsAlone) {
  put("npm", "touch \"$HOME/ran\"; echo https://evil.example/", "project");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(root_.path() + "/project");
  path_ = ".::../project:" + root_.path() + "/bin:/usr/bin:/bin";
  EXPECT_THAT(ask(), IsEmpty());
  std::filesystem::current_path(before);
  EXPECT_FALSE(sys::exists(root_.path() + "/ran"));
}

TEST_F(PackageTools, RunAtHomeWithoutTheUsersSecrets) {
  put("npm", "{ pwd; env; } >\"$HOME/seen\"; read line || echo https://npm.example/");
  EXPECT_THAT(ask(), ElementsAre("https://npm.example"));
  const std::string seen = text_of("seen");
  EXPECT_EQ(seen.substr(0, seen.find('\n')), root_.path());
  EXPECT_THAT(seen, Not(HasSubstr("secret")));
}

TEST_F(PackageTools, AreRememberedUntilTheyChange) {
  put("npm", "echo x >>\"$HOME/asked\"; echo https://user:token@npm.example/");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ask_or_recall(), ElementsAre("https://npm.example"));
  EXPECT_EQ(text_of("asked"), "x\n");
  EXPECT_THAT(text_of("kept"), Not(HasSubstr("token")));
  put("npm", "echo https://other.example/");
  EXPECT_THAT(ask_or_recall(), ElementsAre("https://other.example"));
}

TEST_F(PackageTools, AreAskedAgainWhereWhatIsKeptIsNoMore) {
  put("npm", "echo x >>\"$HOME/asked\"; echo https://npm.example/");
  ask_or_recall();
  const std::string kept = text_of("kept");
  const std::string rest = kept.substr(kept.find('\n'));
  size_t times = 1;
  // Over; of a clock that was wrong; no number; nothing at all.
  for (const std::string& first :
       {std::string("1"), std::string("99999999999999"), std::string("x"), std::string("-5")}) {
    std::ofstream(root_.path() + "/kept") << first << rest;
    EXPECT_THAT(ask_or_recall(), ElementsAre("https://npm.example"));
    EXPECT_EQ(text_of("asked").size(), 2 * ++times) << first;
  }
  std::ofstream(root_.path() + "/kept") << "";
  EXPECT_THAT(ask_or_recall(), ElementsAre("https://npm.example"));
}

TEST(GoSums, NameTheirServer) {
  EXPECT_THAT(go_sum_urls("sum.example+abc+def"), ElementsAre("https://sum.example"));
  EXPECT_THAT(go_sum_urls("name+key https://sum.example/path"),
              ElementsAre("https://sum.example/path"));
  EXPECT_THAT(go_sum_urls("off"), IsEmpty());
  EXPECT_THAT(go_sum_urls(""), IsEmpty());
  EXPECT_THAT(go_env_tool_urls(""), IsEmpty());
}

}
}
