// The commands `secret ...`: what they keep, and that they show nothing.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/actions.h"
#include "mvm/cli/arguments.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kValue = "sk-typed-in/0123456789";

class SecretCommands : public testing::Test {
 protected:
  int run(const std::vector<std::string>& words, const std::string& input = "") {
    const sys::Fd out_file = sys::memory_file("out", 0);
    const sys::Fd err_file = sys::memory_file("err", 0);
    Console console(out_file.get(), err_file.get(), {});
    Context context{console,
                    [this](std::string_view name) -> std::optional<std::string> {
                      const auto found = variables.find(std::string(name));
                      if (found == variables.end()) return std::nullopt;
                      return found->second;
                    },
                    store::Paths(folder.path() + "/run", folder.path() + "/data"),
                    folder.path(),
                    "0.1.0",
                    []() -> api::Service& { throw Error(Kind::Internal, "no daemon is needed"); },
                    [] { return nullptr; },
                    [] { return int64_t{1767323105}; }};
    // Standard input as the shell would give it.
    const sys::Fd typed = sys::memory_file("in", 0);
    sys::pwrite_all(typed.get(), as_bytes(input), 0);
    const sys::Fd before(::dup(STDIN_FILENO));
    EXPECT_GE(::dup2(typed.get(), STDIN_FILENO), 0);
    int code = 0;
    try {
      code = run_command(context, std::get<Arguments>(parse_command_line(words)));
      failure = "";
    } catch (const Error& error) {
      failure = error.message();
      code = kFailed;
    }
    ::dup2(before.get(), STDIN_FILENO);
    out = content(out_file);
    err = content(err_file);
    EXPECT_THAT(out + err + failure, Not(HasSubstr("0123456789")));
    return code;
  }
  static std::string content(const sys::Fd& file) {
    std::string text(sys::file_size(file.get()), '\0');
    EXPECT_TRUE(sys::pread_exact(file.get(), std::as_writable_bytes(std::span(text)), 0));
    return text;
  }

  sys::TempDir folder;
  std::map<std::string, std::string> variables;
  std::string out;
  std::string err;
  std::string failure;
};

TEST_F(SecretCommands, KeepAValueFromStandardInput) {
  EXPECT_EQ(run({"secret", "set", "API_KEY"}, std::string(kValue) + "\n"), 0);
  EXPECT_EQ(out, "API_KEY is set\n");
  EXPECT_EQ(run({"secret", "test", "API_KEY"}), 0);
  EXPECT_EQ(out, "API_KEY has a value of 22 bytes\n");
  EXPECT_EQ(run({"secret", "test", "API_KEY", "--json"}), 0);
  EXPECT_EQ(out, "{\"name\":\"API_KEY\",\"ok\":true,\"bytes\":22}\n");
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() + "/data/secrets/values").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(SecretCommands, ListNamesAndNoValues) {
  run({"secret", "set", "OPENAI_API_KEY"}, kValue);
  run({"secret", "set", "TOKEN", "--from", "env:OTHER"});
  EXPECT_EQ(run({"secret", "ls"}), 0);
  EXPECT_EQ(out,
            "NAME            STORED     SET                   KNOWN HOSTS\n"
            "OPENAI_API_KEY  value      2026-01-02T03:05:05Z  api.openai.com\n"
            "TOKEN           env:OTHER  2026-01-02T03:05:05Z  -\n");
  EXPECT_EQ(run({"secret", "ls", "--json", "--all"}), 0);
  EXPECT_THAT(out, AllOf(HasSubstr("\"GITHUB_TOKEN\""), HasSubstr("\"stored\":\"reference\"")));
  EXPECT_EQ(run({"secret", "rm", "TOKEN"}), 0);
  EXPECT_EQ(out, "TOKEN is forgotten\n");
  EXPECT_EQ(run({"secret", "rm", "TOKEN"}), kFailed);
}

TEST_F(SecretCommands, LookReferencesUp) {
  variables["OTHER"] = kValue;
  EXPECT_EQ(run({"secret", "set", "TOKEN", "--from", "env:OTHER"}), 0);
  EXPECT_EQ(out, "TOKEN is looked up there from now on\n");
  EXPECT_EQ(run({"secret", "test", "TOKEN"}), 0);
  EXPECT_EQ(run({"secret", "test", "OTHER"}), 0);
  EXPECT_EQ(run({"secret", "test", "MISSING"}), 1);
  EXPECT_THAT(err, HasSubstr("mvm secret set MISSING"));
}

TEST_F(SecretCommands, RefuseWhatIsNoSecret) {
  EXPECT_EQ(run({"secret", "set", "API_KEY"}, "short"), kFailed);
  EXPECT_THAT(failure, HasSubstr("fewer than 8 bytes"));
  EXPECT_EQ(run({"secret", "set", "API_KEY"}, std::string(9000, 'x')), kFailed);
  EXPECT_THAT(failure, HasSubstr("larger than 8 KiB"));
  EXPECT_EQ(run({"secret", "set", "API_KEY"}, std::string("\xff\xfe 0123456789")), kFailed);
  EXPECT_EQ(run({"secret", "set", "API KEY"}, kValue), kFailed);
  EXPECT_EQ(run({"secret", "set", "API_KEY", "--from", kValue}), kFailed);
  EXPECT_EQ(run({"secret", "set", "API_KEY", "--from", "stored:OTHER"}), kFailed);
  EXPECT_EQ(run({"secret", "ls"}), 0);
  EXPECT_EQ(out, "NAME  STORED  SET  KNOWN HOSTS\n");
}

}
}
