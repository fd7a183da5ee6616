// mvm fs: what its command lines mean; and the limits of one command.
#include "mvm/cli/file_options.h"

#include <gtest/gtest.h>

#include "mvm/cli/options.h"

namespace mvm::cli {
namespace {

Arguments parsed(const std::vector<std::string>& words) {
  return std::get<Arguments>(parse_command_line(words));
}

TEST(FileOptions, NameAPlaceInASandbox) {
  EXPECT_EQ(file_target(parsed({"fs", "read", "web:/etc/a:b"})),
            (FileTarget{"web", {"", "/etc/a:b"}}));
  EXPECT_EQ(file_target(parsed({"fs", "ls", "web:.", "--root", "/work"})),
            (FileTarget{"web", {"/work", "."}}));
}

TEST(FileOptions, TakeOffsetsBeyondFourGibibytes) {
  const auto request =
      read_request(parsed({"fs", "read", "web:/f", "--offset", "5G", "--length", "12"}));
  EXPECT_EQ(request.offset, uint64_t{5} << 30);
  EXPECT_EQ(request.length, 12U);
}

TEST(FileOptions, RedactWhatTheyReadWhereAskedTo) {
  EXPECT_TRUE(read_request(parsed({"fs", "read", "--redact", "web:/f"})).redact);
  EXPECT_FALSE(read_request(parsed({"fs", "read", "web:/f"})).redact);
}

TEST(FileOptions, ReadModesAsOctal) {
  const auto request = write_request(parsed({"fs", "write", "web:/f", "--mode", "1750", "--new"}));
  EXPECT_EQ(request.mode, 01750U);
  EXPECT_TRUE(request.exclusive);
  EXPECT_FALSE(request.offset);
}

TEST(FileOptions, RenameWithinOneSandbox) {
  const auto request = rename_request(parsed({"fs", "mv", "-n", "web:/a", "/b"}));
  EXPECT_EQ(request.from.path, "/a");
  EXPECT_EQ(request.to, "/b");
  EXPECT_TRUE(request.keep_existing);
  EXPECT_THROW(rename_request(parsed({"fs", "mv", "web:/a", "b"})), UsageError);
}

ExecOptions exec(const std::vector<std::string>& flags) {
  std::vector<std::string> words{"exec", "web"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", "true"});
  return exec_options(parsed(words), [](std::string_view) { return std::nullopt; });
}

TEST(ExecLimits, AreReadAsTheKernelCountsThem) {
  const auto options = exec({"--rlimit", "nofile=1024:2048", "--rlimit", "core=0", "--ulimit",
                             "stack=16M:unlimited", "--memory-limit", "256M", "--pids-limit", "40",
                             "--cpu-limit", "1.5", "--group-add", "video", "--group-add", "27"});
  const std::vector<proto::ResourceLimit> rlimits{
      {7, 1024, 2048}, {4, 0, 0}, {3, 16 << 20, proto::kUnlimited}};
  EXPECT_EQ(options.rlimits, rlimits);
  EXPECT_EQ(options.limits, (proto::TreeLimits{256 << 20, 40, 1500}));
  EXPECT_EQ(options.groups, (std::vector<std::string>{"video", "27"}));
}

TEST(ExecLimits, CountThousandthsOfACpu) {
  EXPECT_EQ(exec({"--cpu-limit", "2"}).limits.cpu_millis, 2000U);
  EXPECT_EQ(exec({"--cpu-limit", "0.01"}).limits.cpu_millis, 10U);
  for (const char* wrong : {"0", "0.001", "1.2345", "1.", ".5", "-1", "1e3", ""})
    EXPECT_THROW(exec({"--cpu-limit", wrong}), UsageError) << wrong;
}

}
}
