// Completion scripts. Each shell gets the same facts: for every command its flags, which flags take
// a value, and what its words are. Names of sandboxes and images are asked from mvm when needed.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "mvm/cli/help.h"

namespace mvm::cli {
namespace {

struct Words {
  std::vector<std::string> first;                       // commands and groups
  std::map<std::string, std::vector<std::string>> sub;  // group -> second words
};

Words command_words() {
  Words words;
  for (const Command& command : commands()) {
    const size_t blank = command.name.find(' ');
    const std::string first(command.name.substr(0, blank));
    if (std::find(words.first.begin(), words.first.end(), first) == words.first.end())
      words.first.push_back(first);
    if (blank != command.name.npos) words.sub[first].emplace_back(command.name.substr(blank + 1));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string offer_word(Offer offer) {
  switch (offer) {
    case Offer::Sandboxes:
      return "sandboxes";
    case Offer::Images:
      return "images";
    case Offer::Files:
      return "files";
    case Offer::Shells:
      return "shells";
    case Offer::Commands:
      return "commands";
    case Offer::Nothing:
      break;
  }
  return "nothing";
}

std::string case_pattern(const Command& command) {
  std::string out = "'" + std::string(command.name) + "'";
  if (!command.alias.empty()) {
    const size_t blank = command.name.rfind(' ');
    const std::string prefix =
        blank == command.name.npos ? "" : std::string(command.name.substr(0, blank + 1));
    out += "|'" + prefix + std::string(command.alias) + "'";
  }
  return out;
}

std::vector<std::string> long_flags(const Command& command) {
  std::vector<std::string> out;
  for (const Option& option : command.options)
    if (!option.hidden) out.push_back("--" + std::string(option.name));
  out.emplace_back("--help");
  return out;
}

// Flags with a value, by what may be offered for it.
std::map<std::string, std::set<std::string>> value_flags() {
  std::map<std::string, std::set<std::string>> out;
  for (const Command& command : commands())
    for (const Option& option : command.options) {
      if (option.value.empty() || option.hidden) continue;
      auto& flags = out[offer_word(option.offer)];
      flags.insert("--" + std::string(option.name));
      if (!option.alias.empty()) flags.insert("--" + std::string(option.alias));
    }
  return out;
}

std::string group_pattern(const Words& words) {
  std::string out;
  for (const auto& [group, second] : words.sub) out += (out.empty() ? "" : "|") + group;
  return out;
}

std::string bash_script() {
  const Words words = command_words();
  std::string out =
      "# bash completion of mvm. Load it with: source <(mvm completion bash)\n"
      "_mvm_offer() {\n"
      "  case \"$1\" in\n"
      "    sandboxes) COMPREPLY=($(compgen -W \"$(mvm ps --all --quiet 2>/dev/null)\" -- "
      "\"$2\"));;\n"
      "    images) COMPREPLY=($(compgen -W \"$(mvm image ls --quiet 2>/dev/null)\" -- \"$2\"));;\n"
      "    files) COMPREPLY=($(compgen -f -- \"$2\"));;\n"
      "    shells) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$2\"));;\n"
      "    commands) COMPREPLY=($(compgen -W '" +
      joined(words.first) +
      "' -- \"$2\"));;\n"
      "  esac\n"
      "}\n"
      "_mvm() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local command=\"${COMP_WORDS[1]}\" flags= offer=nothing word\n"
      "  COMPREPLY=()\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then _mvm_offer commands \"$current\"; return; fi\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do [[ $word == -- ]] && return; done\n"
      "  case \"$command\" in\n";
  for (const auto& [group, second] : words.sub)
    out += "    " + group +
           ") if [[ $COMP_CWORD -eq 2 && $current != -* ]]; then\n"
           "        COMPREPLY=($(compgen -W '" +
           joined(second) +
           "' -- \"$current\")); return\n"
           "      fi;;\n";
  out +=
      "  esac\n"
      "  case \"$command\" in " +
      group_pattern(words) +
      ") [[ ${COMP_WORDS[2]} == -* ]] || command+=\" ${COMP_WORDS[2]}\";; esac\n"
      "  case \"$previous\" in\n";
  for (const auto& [offer, flags] : value_flags()) {
    std::string pattern;
    for (const std::string& flag : flags) pattern += (pattern.empty() ? "" : "|") + flag;
    out += "    " + pattern + ") _mvm_offer " + offer + " \"$current\"; return;;\n";
  }
  out +=
      "  esac\n"
      "  case \"$command\" in\n";
  for (const Command& command : commands()) {
    const Offer offer =
        command.positionals.empty() ? Offer::Nothing : command.positionals.front().offer;
    out += "    " + case_pattern(command) + ") flags='" + joined(long_flags(command)) +
           "' offer=" + offer_word(offer) + ";;\n";
  }
  return out +
         "  esac\n"
         "  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
         "  else _mvm_offer \"$offer\" \"$current\"; fi\n"
         "}\n"
         "complete -F _mvm mvm\n";
}

std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == ':' || c == '[' || c == ']')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zsh_action(Offer offer) {
  switch (offer) {
    case Offer::Sandboxes:
      return ":sandbox:_mvm_sandboxes";
    case Offer::Images:
      return ":image:_mvm_images";
    case Offer::Files:
      return ":file:_files";
    case Offer::Shells:
      return ":shell:(bash zsh fish)";
    case Offer::Commands:
      return ":command:_mvm_commands";
    case Offer::Nothing:
      break;
  }
  return ":value: ";
}

std::string zsh_script() {
  const Words words = command_words();
  std::string out =
      "#compdef mvm\n"
      "_mvm_sandboxes() { local -a names; names=(${(f)\"$(mvm ps --all --quiet 2>/dev/null)\"}); "
      "compadd -a names }\n"
      "_mvm_images() { local -a names; names=(${(f)\"$(mvm image ls --quiet 2>/dev/null)\"}); "
      "compadd -a names }\n"
      "_mvm_commands() {\n"
      "  local -a names; names=(\n";
  std::set<std::string> seen;
  for (const Command& command : commands()) {
    const size_t blank = command.name.find(' ');
    const std::string first(command.name.substr(0, blank));
    if (!seen.insert(first).second) continue;
    const std::string summary =
        blank == command.name.npos ? std::string(command.summary) : "the " + first + " commands";
    out += "    '" + first + ":" + zsh_escaped(summary) + "'\n";
  }
  out +=
      "  ); _describe command names\n}\n"
      "_mvm() {\n"
      "  if (( CURRENT == 2 )); then _mvm_commands; return; fi\n"
      "  local command=$words[2]\n"
      "  case $command in\n";
  for (const auto& [group, second] : words.sub)
    out += "    " + group + ") if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then compadd " +
           joined(second) +
           "; return; fi\n"
           "      if [[ $words[3] != -* ]]; then command=\"$command $words[3]\"; shift words; "
           "(( CURRENT-- )); fi;;\n";
  out +=
      "  esac\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const Command& command : commands()) {
    out += "    " + case_pattern(command) + ") _arguments -s";
    for (const Option& option : command.options) {
      if (option.hidden) continue;
      const std::string star = option.repeatable ? "*" : "";
      const std::string explained = "[" + zsh_escaped(option.help) + "]" +
                                    (option.value.empty() ? "" : zsh_action(option.offer));
      out += " '" + star + "--" + std::string(option.name) + explained + "'";
      if (option.letter != 0)
        out += " '" + star + "-" + std::string(1, option.letter) + explained + "'";
    }
    out += " '--help[Print help]'";
    size_t index = 0;
    for (const Positional& positional : command.positionals) {
      const std::string place = positional.repeatable ? "*" : std::to_string(++index);
      out += " '" + place + zsh_action(positional.offer) + "'";
    }
    if (!command.rest.empty()) out += " '*::command: '";
    out += ";;\n";
  }
  return out +
         "  esac\n}\n"
         "if [ \"$funcstack[1]\" = _mvm ]; then _mvm \"$@\"; else compdef _mvm mvm; fi\n";
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text)
    out += (c == '\'' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_arguments(Offer offer) {
  switch (offer) {
    case Offer::Sandboxes:
      return "'(mvm ps --all --quiet 2>/dev/null)'";
    case Offer::Images:
      return "'(mvm image ls --quiet 2>/dev/null)'";
    case Offer::Files:
      return "'(__fish_complete_path (commandline -ct))'";
    case Offer::Shells:
      return "'bash zsh fish'";
    case Offer::Commands:
      return fish_quoted(joined(command_words().first));
    case Offer::Nothing:
      break;
  }
  return "";
}

// True when the words so far are those of `command`.
std::string fish_condition(const Command& command) {
  const size_t blank = command.name.find(' ');
  const std::string first(command.name.substr(0, blank));
  std::string alias(command.alias);
  if (blank == command.name.npos) return "__mvm_at " + first + (alias.empty() ? "" : " " + alias);
  return "__mvm_at_sub " + first + " " + std::string(command.name.substr(blank + 1)) +
         (alias.empty() ? "" : " " + alias);
}

std::string fish_script() {
  const Words words = command_words();
  std::string out =
      "# fish completion of mvm\n"
      "complete -c mvm -f\n"
      "function __mvm_at\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -ge 2; and contains -- $words[2] $argv\n"
      "end\n"
      "function __mvm_at_sub\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -ge 3; and test $words[2] = $argv[1]; and contains -- $words[3] "
      "$argv[2..-1]\n"
      "end\n"
      "function __mvm_second\n"
      "  set -l words (commandline -opc)\n"
      "  test (count $words) -eq 2; and test $words[2] = $argv[1]\n"
      "end\n";
  std::set<std::string> seen;
  for (const Command& command : commands()) {
    const size_t blank = command.name.find(' ');
    const std::string first(command.name.substr(0, blank));
    if (seen.insert(first).second)
      out += "complete -c mvm -n 'test (count (commandline -opc)) -eq 1' -a " + first +
             (blank == command.name.npos ? " -d " + fish_quoted(command.summary) : "") + "\n";
    if (blank != command.name.npos)
      out += "complete -c mvm -n '__mvm_second " + first + "' -a " +
             std::string(command.name.substr(blank + 1)) + " -d " + fish_quoted(command.summary) +
             "\n";
    const std::string when = "complete -c mvm -n " + fish_quoted(fish_condition(command));
    for (const Option& option : command.options) {
      if (option.hidden) continue;
      out += when + (option.letter == 0 ? "" : std::string(" -s ") + option.letter) + " -l " +
             std::string(option.name);
      if (!option.value.empty()) {
        out += " -x";
        const std::string arguments = fish_arguments(option.offer);
        if (!arguments.empty()) out += " -a " + arguments;
      }
      out += " -d " + fish_quoted(option.help) + "\n";
    }
    if (!command.positionals.empty()) {
      const std::string arguments = fish_arguments(command.positionals.front().offer);
      if (!arguments.empty()) out += when + " -a " + arguments + "\n";
    }
  }
  return out;
}

}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return "";
}

}
