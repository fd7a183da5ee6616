#include "mvm/cli/help.h"

#include <algorithm>
#include <vector>

#include "mvm/base/text.h"

namespace mvm::cli {
namespace {

constexpr size_t kWidth = 96;
constexpr size_t kHelpColumn = 30;  // where explanations start

// Words of one paragraph in lines of at most kWidth, all but the first behind `indent` blanks;
// `at` is where the first line starts.
std::string wrap(std::string_view paragraph, size_t at, size_t indent) {
  std::string out;
  size_t column = at;
  bool first = true;
  for (const std::string_view word : split(paragraph, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  return out;
}

std::vector<std::string_view> paragraphs(std::string_view text) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t gap = text.find("\n\n");
    out.push_back(text.substr(0, gap));
    if (gap == text.npos) return out;
    text.remove_prefix(gap + 2);
  }
}

std::string row(std::string left, std::string_view explanation) {
  left = "  " + left;
  std::string out = left;
  if (left.size() + 2 > kHelpColumn) {
    out += '\n' + std::string(kHelpColumn, ' ');
  } else {
    out.append(kHelpColumn - left.size(), ' ');
  }
  return out + wrap(explanation, kHelpColumn, kHelpColumn) + '\n';
}

std::string spelling(const Option& option) {
  std::string out = option.letter == 0 ? "" : std::string("-") + option.letter + ", ";
  out += "--" + std::string(option.name);
  if (!option.alias.empty()) out += ", --" + std::string(option.alias);
  if (!option.value.empty()) out += " " + std::string(option.value);
  return out;
}

constexpr std::string_view kExitCodes =
    "Exit codes: of exec, run and shell the command's own; 124 it ran out of time, 125 mvm failed, "
    "126 the command cannot be executed, 127 it was not found, 128+n signal n ended it; 2 the "
    "command line is wrong.";

constexpr std::string_view kVariables =
    "MVM_RUNTIME_DIR and MVM_DATA_DIR move the sockets and the data; NO_COLOR turns colours off; "
    "MVM_NAME, MVM_IMAGE, MVM_KERNEL, MVM_CPUS, MVM_MEM, MVM_DISK and MVM_BOOT_TIMEOUT stand for "
    "the settings of mvm.toml.";

std::string title(const Command& command) {
  std::string out = "mvm " + std::string(command.name);
  if (!command.alias.empty()) {
    const size_t blank = command.name.rfind(' ');
    const std::string prefix =
        blank == command.name.npos ? "" : std::string(command.name.substr(0, blank + 1));
    out += " (also: mvm " + prefix + std::string(command.alias) + ")";
  }
  return out;
}

}

std::string usage_line(const Command& command) {
  std::string out = "mvm " + std::string(command.name);
  const bool flags = std::any_of(command.options.begin(), command.options.end(),
                                 [](const Option& option) { return !option.hidden; });
  if (flags) out += " [FLAGS]";
  for (const Positional& positional : command.positionals) {
    std::string word(positional.name);
    if (positional.repeatable) word += "...";
    out += positional.required ? " " + word : " [" + word + "]";
  }
  if (!command.rest.empty()) out += " " + std::string(command.rest);
  return out;
}

std::string command_help(const Command& command) {
  std::string out = title(command) + " - " + std::string(command.summary) +
                    "\n\nUsage: " + usage_line(command) + "\n";
  for (const std::string_view paragraph : paragraphs(command.description))
    out += '\n' + wrap(paragraph, 0, 0) + '\n';
  if (!command.positionals.empty()) {
    out += "\nArguments:\n";
    for (const Positional& positional : command.positionals)
      out += row(std::string(positional.name), positional.help);
  }
  out += "\nFlags:\n";
  for (const Option& option : command.options)
    if (!option.hidden) out += row(spelling(option), option.help);
  out += row("-h, --help", "Print this.");
  out += "\nExamples:\n";
  for (const std::string_view example : command.examples) out += "  " + std::string(example) + '\n';
  return out;
}

std::string group_help(std::string_view group) {
  std::string out = "Usage: mvm " + std::string(group) + " COMMAND\n\nCommands:\n";
  for (const Command& command : commands())
    if (command.name.starts_with(std::string(group) + " "))
      out += row(std::string(command.name.substr(group.size() + 1)), command.summary);
  return out + "\n`mvm " + std::string(group) + " COMMAND --help` explains one.\n";
}

std::string overview() {
  std::string out =
      "mvm runs commands of AI agents in microVMs: a Linux of their own behind KVM, with no\n"
      "network and nothing of this host's files but what you copy in.\n\n"
      "Usage: mvm COMMAND [FLAGS] [ARGUMENTS]\n";
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group != group) {
      group = command.group;
      out += "\n" + std::string(group) + ":\n";
    }
    out += row(std::string(command.name), command.summary);
  }
  out +=
      "\nFirst steps:\n"
      "  mvm doctor\n"
      "  mvm up agent-sandbox\n"
      "  mvm exec agent-sandbox -- uname -a\n"
      "  mvm down agent-sandbox\n\n"
      "`mvm COMMAND --help` explains one.\n\n";
  return out + wrap(kExitCodes, 0, 0) + "\n\n" + wrap(kVariables, 0, 0) + '\n';
}

std::string reference_markdown() {
  std::string out =
      "# The command line\n\n"
      "Made by `mvm help --markdown` from the table that also drives the parser, `--help` and the\n"
      "shell completions.\n\n";
  out += wrap(kExitCodes, 0, 0) + "\n\n" + wrap(kVariables, 0, 0) +
         "\n\nWith `--json` a command prints exactly one JSON document on standard output. Errors "
         "go to standard\nerror as text.\n";
  std::string_view group;
  for (const Command& command : commands()) {
    if (command.group != group) {
      group = command.group;
      out += "\n## " + std::string(group) + "\n";
    }
    out += "\n### mvm " + std::string(command.name) + "\n\n" + std::string(command.summary) +
           ".\n\n```\n" + usage_line(command) + "\n```\n";
    for (const std::string_view paragraph : paragraphs(command.description))
      out += '\n' + wrap(paragraph, 0, 0) + '\n';
    if (!command.alias.empty()) out += "\nAlso spelt `" + std::string(command.alias) + "`.\n";
    const bool flags = std::any_of(command.options.begin(), command.options.end(),
                                   [](const Option& option) { return !option.hidden; });
    if (flags || !command.positionals.empty()) out += "\n| | |\n|---|---|\n";
    for (const Positional& positional : command.positionals)
      out += "| `" + std::string(positional.name) + "` | " + std::string(positional.help) + " |\n";
    for (const Option& option : command.options)
      if (!option.hidden)
        out += "| `" + spelling(option) + "` | " + std::string(option.help) + " |\n";
    out += "\n```\n";
    for (const std::string_view example : command.examples) out += std::string(example) + '\n';
    out += "```\n";
  }
  return out;
}

}
