// What people read from the command line, kept in tests/cli/golden. A change shows as a diff there;
// MVM_ACCEPT=1 rewrites the files.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/cli/arguments.h"
#include "mvm/cli/file_options.h"
#include "mvm/cli/help.h"
#include "mvm/cli/options.h"

namespace mvm::cli {
namespace {

std::filesystem::path tree() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
}

void expect_file(const std::filesystem::path& path, const std::string& content) {
  if (std::getenv("MVM_ACCEPT") != nullptr) std::ofstream(path) << content;
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), content) << path << " is out of date; MVM_ACCEPT=1 rewrites it";
}

std::filesystem::path golden(const std::string& name) {
  return tree() / "tests" / "cli" / "golden" / name;
}

TEST(Golden, Overview) { expect_file(golden("mvm.help"), overview()); }

TEST(Golden, HelpOfEveryCommand) {
  std::set<std::string> expected = {"mvm.help"};
  for (const Command& command : commands()) {
    std::string file(command.name);
    std::replace(file.begin(), file.end(), ' ', '-');
    expect_file(golden(file + ".help"), command_help(command));
    expected.insert(file + ".help");
  }
  for (const auto& entry : std::filesystem::directory_iterator(golden("")))
    if (entry.path().extension() == ".help") {
      EXPECT_TRUE(expected.contains(entry.path().filename()))
          << entry.path() << " is of no command";
    }
}

TEST(Golden, Reference) { expect_file(tree() / "docs" / "cli.md", reference_markdown()); }

TEST(Golden, UsageErrors) {
  const std::vector<std::vector<std::string>> lines = {
      {"exce", "web"},
      {"image", "lss"},
      {"snapshot", "web"},
      {"exec"},
      {"exec", "web"},
      {"exec", "web", "--timeot", "1s", "--", "true"},
      {"exec", "-d", "-it", "web", "bash"},
      {"exec", "-t", "--json", "web", "id"},
      {"exec", "web", "--timeout", "soon", "--", "true"},
      {"exec", "web/../x", "true"},
      {"exec", std::string(300, 'a'), "true"},
      {"up", "--cpus", "two"},
      {"up", "--cpus", "1", "--cpus", "2"},
      {"up", "-m", "1M"},
      {"cp", "a", "b"},
      {"cp", "a:/x", "b:/y"},
      {"down", "web", "--kill", "--grace", "1s"},
      {"ps", "web"},
      {"exec", "web", "--rlimit", "nofiles=1", "--", "true"},
      {"exec", "web", "--rlimit", "nofile", "--", "true"},
      {"exec", "web", "--rlimit", "nofile=2:1", "--", "true"},
      {"exec", "web", "--rlimit", "nofile=1M", "--", "true"},
      {"exec", "web", "--rlimit", "core=0", "--rlimit", "core=1", "--", "true"},
      {"exec", "web", "--memory-limit", "1K", "--", "true"},
      {"exec", "web", "--pids-limit", "0", "--", "true"},
      {"exec", "web", "--cpu-limit", "0.0001", "--", "true"},
      {"exec", "web", "--group-add", "", "--", "true"},
      {"fs", "read", "web"},
      {"fs", "read", "web:file"},
      {"fs", "read", "web:/file", "--root", "/work"},
      {"fs", "read", "web:file", "--root", "work"},
      {"fs", "write", "web:/file", "--append", "--offset", "1"},
      {"fs", "write", "web:/file", "--mode", "999"},
      {"fs", "ls", "web:/", "--limit", "0"},
      {"fs", "remove", "web:/"},
      {"up", "--profile", "open"},
  };
  std::string text;
  for (const auto& words : lines) {
    text += "$ mvm";
    for (const std::string& word : words) text += " " + word;
    text += '\n';
    try {
      const auto parsed = parse_command_line(words);
      const auto& arguments = std::get<Arguments>(parsed);
      const Variable none = [](std::string_view) { return std::nullopt; };
      if (arguments.command().verb == Verb::Exec) exec_options(arguments, none);
      if (arguments.command().verb == Verb::Up) up_options(arguments, none);
      if (arguments.command().verb == Verb::Copy) copy_options(arguments);
      if (arguments.command().verb == Verb::Down) down_options(arguments);
      if (arguments.command().verb == Verb::FileRead) read_request(arguments);
      if (arguments.command().verb == Verb::FileWrite) write_request(arguments);
      if (arguments.command().verb == Verb::FileList) list_request(arguments);
      text += "accepted\n";
    } catch (const UsageError& error) {
      text += "mvm: " + error.message() + '\n';
    }
  }
  expect_file(golden("usage-errors.txt"), text);
}

TEST(Help, EveryCommandHasExamplesThatParse) {
  for (const Command& command : commands()) {
    EXPECT_FALSE(command.examples.empty()) << command.name;
    for (const std::string_view example : command.examples) {
      const std::string line(example);
      EXPECT_NE(line.find("mvm " + std::string(command.name)), line.npos)
          << line << " is no example of " << command.name;
    }
  }
}

TEST(Help, CommandsAndFlagsAreCoherent) {
  std::set<std::string> names;
  for (const Command& command : commands()) {
    EXPECT_TRUE(names.insert(std::string(command.name)).second) << command.name;
    EXPECT_EQ(find_command(command.verb), &command) << command.name << " shares its verb";
    std::set<std::string> spellings = {"h", "help"};
    for (const Option& option : command.options) {
      EXPECT_TRUE(spellings.insert(std::string(option.name)).second)
          << command.name << " --" << option.name;
      EXPECT_FALSE(option.help.empty());
      if (!option.alias.empty()) {
        EXPECT_TRUE(spellings.insert(std::string(option.alias)).second) << option.alias;
      }
      if (option.letter != 0) {
        EXPECT_TRUE(spellings.insert(std::string(1, option.letter)).second)
            << command.name << " -" << option.letter;
      }
    }
    EXPECT_TRUE(std::holds_alternative<HelpWanted>([&] {
      std::vector<std::string> words;
      std::stringstream split_name{std::string(command.name)};
      for (std::string word; split_name >> word;) words.push_back(word);
      words.emplace_back("--help");
      return parse_command_line(words);
    }()));
  }
}

// Runs the bash script as bash would on <TAB>, with a `mvm` that knows two sandboxes.
std::string completed(const std::vector<std::string>& words) {
  std::string script = completion_script("bash") +
                       "mvm() { case \"$*\" in 'ps --all --quiet') echo web db;; 'image ls "
                       "--quiet') echo base;; esac; }\nCOMP_WORDS=(";
  for (const std::string& word : words) script += " '" + word + "'";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
            "\n_mvm\nprintf '%s ' \"${COMPREPLY[@]}\"\n";
  char path[] = "/tmp/mvm-completion-XXXXXX";
  const int fd = ::mkstemp(path);
  if (fd < 0) return "no temporary file";
  ::close(fd);
  std::ofstream(path) << script;
  std::string out;
  if (FILE* bash = ::popen(("bash " + std::string(path) + " 2>&1").c_str(), "r")) {
    char buffer[4096];
    while (const size_t length = ::fread(buffer, 1, sizeof buffer, bash))
      out.append(buffer, length);
    ::pclose(bash);
  }
  std::filesystem::remove(path);
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

TEST(Completion, BashOffersCommandsFlagsAndNames) {
  EXPECT_EQ(completed({"mvm", "ex"}), "exec");
  EXPECT_EQ(completed({"mvm", "exec", ""}), "web db");
  EXPECT_EQ(completed({"mvm", "exec", "w"}), "web");
  EXPECT_EQ(completed({"mvm", "exec", "--time"}), "--timeout");
  EXPECT_EQ(completed({"mvm", "up", "--image", ""}), "base");
  EXPECT_EQ(completed({"mvm", "image", "in"}), "inspect");
  EXPECT_EQ(completed({"mvm", "image", "rm", ""}), "base");
  EXPECT_EQ(completed({"mvm", "stop", ""}), "web db");
  EXPECT_EQ(completed({"mvm", "completion", "f"}), "fish");
  EXPECT_EQ(completed({"mvm", "exec", "web", "--", ""}), "");
}

TEST(Completion, ScriptsAreGolden) {
  expect_file(golden("completion.bash"), completion_script("bash"));
  expect_file(golden("completion.zsh"), completion_script("zsh"));
  expect_file(golden("completion.fish"), completion_script("fish"));
  EXPECT_EQ(completion_script("tcsh"), "");
}

}
}
