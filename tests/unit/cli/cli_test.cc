// run_cli as main() calls it: what is printed where, and the exit codes.

#include "mvm/cli/cli.h"

#include <array>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/help.h"
#include "mvm/sys/file.h"

namespace mvm::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> words, const CliEnvironment& environment = {"1.2.3", {}}) {
  words.insert(words.begin(), "mvm");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_cli(static_cast<int>(argv.size()), argv.data(), environment);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(RunCli, PrintsTheVersion) {
  EXPECT_EQ(run({"version"}).out, "mvm 1.2.3\n");
  EXPECT_EQ(run({"--version"}).out, "mvm 1.2.3\n");
  EXPECT_EQ(run({"version", "--json"}).out, "{\"version\":\"1.2.3\"}\n");
}

TEST(RunCli, HelpGoesToStandardOutput) {
  const Outcome outcome = run({"exec", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, command_help(*find_command(Verb::Exec)));
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(run({"help", "exec"}).out, outcome.out);
  EXPECT_EQ(run({}).out, overview());
  EXPECT_EQ(run({"help"}).out, overview());
  EXPECT_EQ(run({"help", "image"}).out, group_help("image"));
  EXPECT_EQ(run({"help", "--markdown"}).out, reference_markdown());
  EXPECT_EQ(run({"completion", "bash"}).out, completion_script("bash"));
}

TEST(RunCli, UsageErrorsExitWithTwo) {
  const Outcome wrong = run({"exec", "-d", "-it", "web", "bash"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, IsEmpty());
  EXPECT_EQ(wrong.err,
            "mvm: --detach and --interactive contradict\n"
            "Usage: mvm exec [FLAGS] NAME [--] COMMAND [ARGUMENT]...\n"
            "`mvm exec --help` explains it.\n");
  const Outcome unknown = run({"exce"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err,
            "mvm: there is no command 'exce'; did you mean `mvm exec`?\n"
            "`mvm --help` lists the commands.\n");
  EXPECT_EQ(run({"help", "frobnicate"}).code, 2);
  EXPECT_EQ(run({"completion", "tcsh"}).code, 2);
}

TEST(RunCli, FailuresExitWith125) {
  const Outcome outcome = run({"config", "show", "/no/such/file.toml"});
  EXPECT_EQ(outcome.code, 125);
  EXPECT_THAT(outcome.err, HasSubstr("mvm: "));
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/file.toml"));
}

TEST(RunCli, DaemonIsTheCallersToServe) {
  std::vector<int> served;
  const CliEnvironment environment{"1.2.3", [&](int ready_fd) {
                                     served.push_back(ready_fd);
                                     return 7;
                                   }};
  EXPECT_EQ(run({"daemon"}, environment).code, 7);
  EXPECT_EQ(run({"daemon", "--ready-fd", "3"}, environment).code, 7);
  EXPECT_THAT(served, testing::ElementsAre(-1, 3));
  EXPECT_EQ(run({"daemon", "--ready-fd", "x"}, environment).code, 2);
}

TEST(RunCli, StatusOfADaemonThatDoesNotRun) {
  const sys::TempDir folder;
  ::setenv("MVM_RUNTIME_DIR", (folder.path() + "/run").c_str(), 1);
  ::setenv("MVM_DATA_DIR", (folder.path() + "/data").c_str(), 1);
  const Outcome outcome = run({"daemon", "status"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "not running\n");
  ::unsetenv("MVM_RUNTIME_DIR");
  ::unsetenv("MVM_DATA_DIR");
}

}
}
