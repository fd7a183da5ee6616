// Command lines and what they mean.

#include "mvm/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/options.h"
#include "mvm/config/schema.h"

namespace mvm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Words = std::vector<std::string>;

std::optional<std::string> no_variable(std::string_view) { return std::nullopt; }

Arguments parsed(const Words& words) {
  auto result = parse_command_line(words);
  if (!std::holds_alternative<Arguments>(result)) throw std::runtime_error("help was wanted");
  return std::get<Arguments>(std::move(result));
}

ExecOptions exec(const Words& words) { return exec_options(parsed(words), no_variable); }

template <typename Body>
std::string usage_error(const Body& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "accepted";
}

std::string exec_error(const Words& words) {
  return usage_error([&] { exec(words); });
}
std::string parse_error(const Words& words) {
  return usage_error([&] { parsed(words); });
}

TEST(Exec, EndsItsFlagsAtTheCommand) {
  ExecOptions expected;
  expected.sandbox = "web";
  expected.argv = {"ls", "-l", "--json", "-it"};
  EXPECT_EQ(exec({"exec", "web", "ls", "-l", "--json", "-it"}), expected);
  EXPECT_EQ(exec({"exec", "web", "--", "ls", "-l", "--json", "-it"}), expected);
  EXPECT_EQ(exec({"exec", "--name", "web", "--", "ls", "-l", "--json", "-it"}), expected);
  EXPECT_EQ(exec({"exec", "--name=web", "ls", "-l", "--json", "-it"}), expected);
}

TEST(Up, NetworkFlagsContradictHavingNone) {
  const auto error = [](Words words) {
    words.insert(words.begin(), {"up", "web", "--no-network"});
    return usage_error([&] { up_options(parsed(words), no_variable); });
  };
  EXPECT_EQ(error({}), "accepted");
  EXPECT_EQ(error({"--allow-host", "a.example"}), "--no-network and --allow-host contradict");
  EXPECT_EQ(error({"--network-inspect", "all"}), "--no-network and --network-inspect contradict");
  EXPECT_EQ(error({"--network-preset", "dev"}), "--no-network and --network-preset contradict");
}

TEST(Up, WrongRulesAreUsageErrors) {
  const auto error = [](Words words) {
    words.insert(words.begin(), {"up", "web"});
    return usage_error([&] { up_options(parsed(words), no_variable); });
  };
  EXPECT_EQ(error({"--allow-host", "10.0.0.1"}),
            "--allow-host \"10.0.0.1\" is an address; those are for allow_cidr");
  EXPECT_THAT(error({"--allow-cidr", "10.0.0.1/8"}),
              HasSubstr("--allow-cidr \"10.0.0.1/8\" is not"));
  EXPECT_THAT(error({"--allow-endpoint", "example.com"}), HasSubstr("is not an endpoint such as"));
  EXPECT_THAT(error({"--network-preset", "all"}), HasSubstr("--network-preset must be \"none\""));
}

TEST(Exec, PassesTheCommandByteForByte) {
  EXPECT_THAT(exec({"exec", "web", "--", "sh", "-c", "--", "x"}).argv,
              ElementsAre("sh", "-c", "--", "x"));
  EXPECT_THAT(exec({"exec", "web", "grep", "--", "-x", ""}).argv,
              ElementsAre("grep", "--", "-x", ""));
  EXPECT_THAT(exec({"exec", "web", "--", "--help"}).argv, ElementsAre("--help"));
  EXPECT_THAT(exec({"exec", "web", "tool", "--help"}).argv, ElementsAre("tool", "--help"));
  EXPECT_THAT(exec({"exec", "web", "tool", "--name", "x"}).argv,
              ElementsAre("tool", "--name", "x"));
  EXPECT_THAT(exec({"exec", "web", "--", "a b", "\"q\"", "'s'", "[x]", "{y}", "%%", "\\"}).argv,
              ElementsAre("a b", "\"q\"", "'s'", "[x]", "{y}", "%%", "\\"));
  EXPECT_THAT(exec({"exec", "web", "a b", "[x]", "\n", "=", "-"}).argv,
              ElementsAre("a b", "[x]", "\n", "=", "-"));
}

TEST(Exec, TakesFlagsBeforeAndAfterTheName) {
  ExecOptions expected;
  expected.sandbox = "web";
  expected.argv = {"bash"};
  expected.interactive = expected.tty = true;
  expected.workdir = "/work";
  expected.user = "nobody";
  expected.env = {{"A", "1"}, {"B", "x=y"}};
  expected.env_files = {"one", "two"};
  expected.timeout_ms = 90'000;
  EXPECT_EQ(exec({"exec", "-it", "web", "-w", "/work", "-u", "nobody", "-e", "A=1", "--env=B=x=y",
                  "--env-file", "one", "--env-file", "two", "--timeout", "1m30s", "bash"}),
            expected);
}

TEST(Exec, RepeatableFlagTakesOneValueEachTime) {
  EXPECT_THAT(exec({"exec", "-e", "A=1", "web", "true"}).sandbox, "web");
  EXPECT_THAT(exec({"exec", "-eA=1", "web", "-e", "A=", "true"}).env,
              ElementsAre(Pair("A", "1"), Pair("A", "")));
  EXPECT_THAT(exec({"exec", "-e", "A=-x -y", "web", "true"}).env, ElementsAre(Pair("A", "-x -y")));
}

TEST(Exec, EnvironmentWithoutAValueIsTakenFromHere) {
  const auto here = [](std::string_view name) {
    return name == "TOKEN" ? std::optional<std::string>("t0") : std::nullopt;
  };
  EXPECT_THAT(exec_options(parsed({"exec", "web", "-e", "TOKEN", "true"}), here).env,
              ElementsAre(Pair("TOKEN", "t0")));
  EXPECT_EQ(
      usage_error([&] { exec_options(parsed({"exec", "web", "-e", "OTHER", "true"}), here); }),
      "--env: variable 'OTHER' is not set here");
}

TEST(Exec, JsonHoldsABoundedOutput) {
  EXPECT_EQ(exec({"exec", "web", "--json", "true"}).max_output, kDefaultJsonOutput);
  EXPECT_EQ(exec({"exec", "web", "--json", "--max-output", "64K", "true"}).max_output, 65536U);
  EXPECT_EQ(exec({"exec", "web", "--max-output", "1G", "true"}).max_output, uint64_t{1} << 30);
  EXPECT_EQ(exec({"exec", "web", "--json", "--max-output", "256M", "true"}).max_output,
            kMaxJsonOutput);
  EXPECT_THAT(exec_error({"exec", "web", "--json", "--max-output", "257M", "true"}),
              HasSubstr("at most 256 MiB"));
  EXPECT_THAT(exec_error({"exec", "web", "--max-output", "0", "true"}),
              HasSubstr("must be a size"));
}

TEST(Exec, ContradictionsAreUsageErrors) {
  EXPECT_EQ(exec_error({"exec", "-d", "-it", "web", "true"}),
            "--detach and --interactive contradict");
  EXPECT_EQ(exec_error({"exec", "-d", "-t", "web", "true"}), "--detach and --tty contradict");
  EXPECT_EQ(exec_error({"exec", "-d", "--json", "web", "true"}), "--detach and --json contradict");
  EXPECT_EQ(exec_error({"exec", "-t", "--json", "web", "true"}),
            "--json and --tty contradict: a terminal is not a document");
}

TEST(Exec, WrongValuesAreUsageErrors) {
  EXPECT_EQ(exec_error({"exec", "web", "--timeout", "soon", "true"}),
            "--timeout must be a duration such as 30s or 1m30s, not 'soon'");
  EXPECT_EQ(exec_error({"exec", "web", "--timeout", "0", "true"}),
            "--timeout must be from 1ms to 366d0h, not 0");
  EXPECT_EQ(exec_error({"exec", "web", "--timeout", "367d", "true"}),
            "--timeout must be from 1ms to 366d0h, not 367d");
  EXPECT_EQ(exec_error({"exec", "web", "-w", "work", "true"}),
            "--workdir must be an absolute path, such as \"/work\"");
  EXPECT_EQ(exec_error({"exec", "web/../x", "true"}),
            "'web/../x' is no valid name: the name has the character '/'; letters, digits, '.', "
            "'_' and '-' are allowed");
  EXPECT_THAT(exec_error({"exec", std::string(300, 'a'), "true"}),
              HasSubstr("the name has 300 characters; the most is 63"));
  EXPECT_THAT(exec_error({"exec", "", "true"}), HasSubstr("a name cannot be empty"));
}

TEST(Exec, MissingPartsAreNamed) {
  EXPECT_EQ(exec_error({"exec"}), "NAME is missing");
  EXPECT_EQ(exec_error({"exec", "web"}), "COMMAND is missing");
  EXPECT_EQ(exec_error({"exec", "web", "--"}), "COMMAND is missing");
  EXPECT_EQ(exec_error({"exec", "--", "true"}), "NAME is missing");
  EXPECT_EQ(exec_error({"exec", "web", "-w"}), "--workdir needs a value: --workdir DIR");
}

TEST(CommandLine, UnknownWordsNameTheNearest) {
  EXPECT_EQ(parse_error({"exce", "web"}), "there is no command 'exce'; did you mean `mvm exec`?");
  EXPECT_EQ(parse_error({"image", "lss"}),
            "there is no command 'image lss'; did you mean `mvm image ls`?");
  EXPECT_EQ(parse_error({"frobnicate"}), "there is no command 'frobnicate'");
  EXPECT_EQ(parse_error({"exec", "web", "--timeot", "1s", "true"}),
            "'--timeot' is not a flag of `mvm exec`; did you mean '--timeout'?");
  EXPECT_EQ(parse_error({"up", "--memroy=1G"}),
            "'--memroy=1G' is not a flag of `mvm up`; did you mean '--memory'?");
  EXPECT_EQ(parse_error({"ps", "-z"}), "'-z' is not a flag of `mvm ps`");
  EXPECT_EQ(parse_error({"--frob"}), "'--frob' is not a flag of `mvm`; a command comes first");
  EXPECT_EQ(parse_error({"ps", "web"}), "unexpected argument 'web'");
  EXPECT_EQ(parse_error({"snapshot", "web"}), "there is no command 'snapshot'");
}

TEST(CommandLine, OutputOfErrorsIsPrintable) {
  EXPECT_EQ(parse_error({"\x1b[31m"}).find('\x1b'), std::string::npos);
  EXPECT_EQ(parse_error({"ps", "--\x1b[31m"}).find('\x1b'), std::string::npos);
  EXPECT_EQ(parse_error({"ps", "\x1b[31m"}).find('\x1b'), std::string::npos);
  EXPECT_EQ(exec_error({"exec", "web", "--timeout", "\x1b[31m", "x"}).find('\x1b'),
            std::string::npos);
}

TEST(CommandLine, FlagGivenTwiceIsAnErrorUnlessRepeatable) {
  EXPECT_EQ(parse_error({"up", "--cpus", "1", "--cpus", "2"}), "--cpus is given twice");
  EXPECT_EQ(parse_error({"up", "--mem", "1G", "-m", "2G"}), "--memory is given twice");
  EXPECT_EQ(parse_error({"down", "web", "--name", "web"}),
            "the name is given twice: as an argument and with --name");
}

TEST(CommandLine, HelpIsSeenEverywhereBeforeTheCommand) {
  for (const Words& words : {Words{"exec", "--help"}, Words{"exec", "web", "-h"},
                             Words{"exec", "-h", "--nonsense"}, Words{"exec", "-it", "--help"}}) {
    const auto result = parse_command_line(words);
    ASSERT_TRUE(std::holds_alternative<HelpWanted>(result));
    EXPECT_EQ(std::get<HelpWanted>(result).command, find_command(Verb::Exec));
  }
  EXPECT_EQ(std::get<HelpWanted>(parse_command_line(Words{"image"})).group, "image");
  EXPECT_EQ(std::get<HelpWanted>(parse_command_line(Words{})).command, nullptr);
}

TEST(CommandLine, AliasesMeanTheSame) {
  EXPECT_EQ(parsed({"stop", "web"}).command().verb, Verb::Down);
  EXPECT_EQ(parsed({"ls"}).command().verb, Verb::Ps);
  EXPECT_EQ(parsed({"image", "list"}).command().verb, Verb::ImageList);
  EXPECT_EQ(parsed({"--version"}).command().verb, Verb::Version);
  EXPECT_EQ(parsed({"daemon"}).command().verb, Verb::Daemon);
  EXPECT_EQ(parsed({"daemon", "stop"}).command().verb, Verb::DaemonStop);
  EXPECT_TRUE(parsed({"ps", "-qa"}).flag("all"));
  EXPECT_FALSE(parsed({"ps", "--all=false"}).flag("all"));
}

TEST(Up, FlagsBecomeSettings) {
  const UpOptions options = up_options(parsed({"up",
                                               "web",
                                               "--image",
                                               "python",
                                               "--kernel=tuned",
                                               "--cpus",
                                               "2",
                                               "--mem",
                                               "1G",
                                               "--disk-size",
                                               "2G",
                                               "--disk-bandwidth",
                                               "50M",
                                               "--disk-iops",
                                               "1000",
                                               "-w",
                                               "/work",
                                               "-u",
                                               "1000:1000",
                                               "--hostname",
                                               "box",
                                               "-e",
                                               "A=1",
                                               "--label",
                                               "team=search",
                                               "--label",
                                               "x",
                                               "--boot-timeout",
                                               "5s",
                                               "--rm",
                                               "-f",
                                               "box.toml",
                                               "--json"}),
                                       no_variable);
  UpOptions expected;
  expected.flags.name = "web";
  expected.flags.image = "python";
  expected.flags.kernel = "tuned";
  expected.flags.cpus = 2;
  expected.flags.memory = uint64_t{1} << 30;
  expected.flags.disk = uint64_t{2} << 30;
  expected.flags.disk_bandwidth = uint64_t{50} << 20;
  expected.flags.disk_iops = 1000;
  expected.flags.workdir = "/work";
  expected.flags.user = "1000:1000";
  expected.flags.hostname = "box";
  expected.flags.env = {{"A", "1"}};
  expected.flags.labels = {{"team", "search"}, {"x", ""}};
  expected.flags.boot_timeout_ms = 5000;
  expected.flags.ephemeral = true;
  expected.manifest = "box.toml";
  expected.json = true;
  EXPECT_EQ(options, expected);
}

TEST(Up, DecidesNothingByItself) {
  EXPECT_EQ(up_options(parsed({"up"}), no_variable), UpOptions{});
}

TEST(Up, AFlagWithoutAValueSetsItsKey) {
  EXPECT_EQ(up_options(parsed({"up", "--huge-pages"}), no_variable).flags.huge_pages, true);
  EXPECT_EQ(up_options(parsed({"up", "--rm"}), no_variable).flags.ephemeral, true);
  const auto none = up_options(parsed({"up", "--watchdog", "30s"}), no_variable).flags;
  EXPECT_EQ(none.huge_pages, std::nullopt);
  EXPECT_EQ(none.watchdog_ms, 30'000U);
}

TEST(Up, RangesAreTheSchemas) {
  const auto up_error = [](const Words& words) {
    return usage_error([&] { up_options(parsed(words), no_variable); });
  };
  EXPECT_EQ(up_error({"up", "--cpus", "33"}), "--cpus must be from 1 to 32, not 33");
  EXPECT_EQ(up_error({"up", "--cpus", "two"}), "--cpus must be an integer, not 'two'");
  EXPECT_EQ(up_error({"up", "-m", "1M"}), "--memory must be from 64 MiB to 64 GiB, not 1 MiB");
  EXPECT_THAT(up_error({"up", "--label", "=x"}), HasSubstr("--label: as a label: a name cannot"));
}

// Every setting with a flag has that flag in `up`, so that the manifest's reference is true.
TEST(Up, HasEveryFlagTheSchemaNames) {
  const Command& up = *find_command(Verb::Up);
  for (const config::Key& key : config::keys()) {
    if (!key.flag.starts_with("--")) continue;
    const bool known = std::any_of(up.options.begin(), up.options.end(), [&](const Option& option) {
      return option.name == key.flag.substr(2);
    });
    EXPECT_TRUE(known) << key.flag;
  }
}

TEST(Run, SplitsMachineAndCommand) {
  const RunOptions options = run_options(parsed({"run", "base", "--cpus", "2", "--rm", "-w", "/tmp",
                                                 "-u", "nobody", "-i", "--", "cat", "-n"}),
                                         no_variable);
  RunOptions expected;
  expected.machine.image = "base";
  expected.machine.cpus = 2;
  expected.machine.ephemeral = true;
  expected.exec.argv = {"cat", "-n"};
  expected.exec.interactive = true;
  expected.exec.workdir = "/tmp";
  expected.exec.user = "nobody";
  EXPECT_EQ(options, expected);
  EXPECT_EQ(parsed({"run", "base", "echo", "-n"}).rest(), (Words{"echo", "-n"}));
  EXPECT_EQ(parse_error({"run"}), "IMAGE is missing");
  // The image may name a command of its own.
  EXPECT_EQ(parsed({"run", "base"}).rest(), Words{});
}

TEST(Copy, ExactlyOneSideIsInASandbox) {
  const auto copy = [](const Words& words) { return copy_options(parsed(words)); };
  CopyOptions expected;
  expected.sandbox = "web";
  expected.local = "agent.py";
  expected.remote = "/work/";
  EXPECT_EQ(copy({"cp", "agent.py", "web:/work/"}), expected);
  expected.direction = CopyOptions::Direction::OutOf;
  expected.local = "./out";
  expected.remote = "/a:b";
  expected.follow_link = true;
  EXPECT_EQ(copy({"cp", "-L", "web:/a:b", "./out"}), expected);
  EXPECT_EQ(copy({"cp", "./odd:name", "web:/x"}).local, "./odd:name");
  EXPECT_EQ(copy({"cp", "dir/odd:name", "web:/x"}).local, "dir/odd:name");

  const auto copy_error = [&](const Words& words) { return usage_error([&] { copy(words); }); };
  EXPECT_THAT(copy_error({"cp", "a:/x", "b:/y"}), HasSubstr("both are in a sandbox"));
  EXPECT_THAT(copy_error({"cp", "a", "b"}), HasSubstr("neither is in a sandbox"));
  EXPECT_EQ(copy_error({"cp", "a", "web:work"}), "a path in a sandbox is absolute: web:/work");
  EXPECT_EQ(copy_error({"cp", "a", "web:"}), "a path in a sandbox is absolute: web:/");
  EXPECT_THAT(copy_error({"cp", "a", "w b:/x"}), HasSubstr("is no valid name"));
  EXPECT_EQ(copy_error({"cp", "a"}), "TARGET is missing");
  EXPECT_EQ(copy_error({"cp", "-L", "a", "web:/x"}),
            "--follow-link is for copying out of a sandbox");
  EXPECT_EQ(copy_error({"cp", "-p", "web:/x", "a"}),
            "--parents and --user are for copying into a sandbox");
}

TEST(Down, ReadsNamesAndGrace) {
  DownOptions expected;
  expected.names = {"a", "b"};
  expected.request.grace_ms = 2000;
  expected.remove = true;
  EXPECT_EQ(down_options(parsed({"down", "a", "b", "--grace", "2s", "--rm"})), expected);
  EXPECT_EQ(down_options(parsed({"stop", "--name", "a"})).names, Words{"a"});
  EXPECT_EQ(usage_error([] { down_options(parsed({"down", "a", "--kill", "--grace", "1s"})); }),
            "--kill and --grace contradict");
  EXPECT_EQ(parse_error({"down"}), "NAME is missing");
}

TEST(EnvFile, ReadsLines) {
  EXPECT_THAT(
      parse_env_file("# comment\nA=1\r\n\n  \nB=x=y # not a comment\nC=\n", "f", no_variable),
      ElementsAre(Pair("A", "1"), Pair("B", "x=y # not a comment"), Pair("C", "")));
  EXPECT_THAT(parse_env_file("", "f", no_variable), IsEmpty());
}

TEST(EnvFile, ComplaintHasFileAndLine) {
  const auto complaint = [](std::string_view text) -> std::string {
    try {
      parse_env_file(text, "box.env", no_variable);
    } catch (const Error& error) {
      return error.message();
    }
    return "accepted";
  };
  // What stands there may be the second line of a value.
  EXPECT_EQ(complaint("A=-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n"),
            "box.env:2: there is no \"=\" in it, and no variable of that name is set here");
  EXPECT_EQ(complaint("=1\n"), "box.env:1: a variable needs a name");
  EXPECT_EQ(complaint("A B=1\n"),
            "box.env:1: a variable's name has no '=', blanks or control characters");
  std::string many;
  for (size_t i = 0; i < config::kMaxTableEntries; ++i) many += "V" + std::to_string(i) + "=1\n";
  EXPECT_EQ(complaint(many), "accepted");
  EXPECT_EQ(complaint(many + "X=1\n"), "box.env has more than 256 variables");
}

}
}
