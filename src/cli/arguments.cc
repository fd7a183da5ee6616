// From words to Arguments, by CLI11. Only the command that was asked for is built: a CLI11 app of
// all commands would cost more than the rest of a short `mvm exec`.
//
// Commands with a rest (exec, run) end their own flags at the first word that is neither flag nor
// argument, or at "--". What follows is passed on byte for byte, so it is cut off before CLI11
// sees it wherever possible.

#include "mvm/cli/arguments.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "mvm/base/text.h"

namespace mvm::cli {
namespace {

constexpr size_t kMaxWordsShown = 40;  // bytes of a wrong word in a complaint

std::string shown(std::string_view word) { return "'" + printable(word, kMaxWordsShown) + "'"; }

std::string cli11_names(const Option& option) {
  std::string names = "--" + std::string(option.name);
  if (!option.alias.empty()) names += ",--" + std::string(option.alias);
  if (option.letter != 0) names += std::string(",-") + option.letter;
  return names;
}

// One use of CLI11. The vectors must not move once options point to them.
class Parser {
 public:
  Parser(const Command& command, bool with_positionals)
      : command_(command), app_("", std::string(command.name)) {
    app_.set_help_flag("-h,--help");
    app_.allow_extras();
    if (!command.rest.empty()) app_.prefix_command();
    values_.resize(command.options.size());
    words_.resize(command.positionals.size());
    for (size_t i = 0; i < command.options.size(); ++i) add_option(command.options[i], values_[i]);
    if (!with_positionals) return;
    for (size_t i = 0; i < command.positionals.size(); ++i) {
      const Positional& positional = command.positionals[i];
      auto* added = app_.add_option(std::string(positional.name), words_[i]);
      // Whether it is there is checked later, as --name may stand for it.
      if (!positional.repeatable) added->type_size(1)->expected(1)->allow_extra_args(false);
      added->required(false);
    }
  }

  // The words that no option and no positional took.
  std::vector<std::string> parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    try {
      app_.parse(words);
    } catch (const CLI::CallForHelp&) {
      help_ = true;
    } catch (const CLI::ArgumentMismatch& error) {
      throw UsageError(&command_, mismatch(error));
    } catch (const CLI::ParseError& error) {
      throw UsageError(&command_, printable(error.what()));
    }
    return app_.remaining();
  }

  bool help() const { return help_; }

  Arguments arguments() const {
    Arguments out(command_);
    for (size_t i = 0; i < command_.options.size(); ++i) {
      const Option& option = command_.options[i];
      const CLI::Option* given = app_.get_option("--" + std::string(option.name));
      if (given->count() == 0) continue;
      if (!option.value.empty())
        out.add(option.name, values_[i]);
      else if (given->as<bool>())  // `--json=false` is not asking for it
        out.add(option.name, {});
    }
    for (size_t i = 0; i < words_.size(); ++i)
      if (!words_[i].empty()) out.add(command_.positionals[i].name, words_[i]);
    return out;
  }

 private:
  void add_option(const Option& option, std::vector<std::string>& into) {
    if (option.value.empty()) {
      app_.add_flag(cli11_names(option));
      return;
    }
    auto* added = app_.add_option(cli11_names(option), into);
    added->type_size(1)->expected(1)->allow_extra_args(false);
    added->multi_option_policy(option.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                 : CLI::MultiOptionPolicy::Throw);
  }

  std::string mismatch(const CLI::ArgumentMismatch& error) const {
    const std::string_view what = error.what();
    for (const Option& option : command_.options) {
      const std::string name = "--" + std::string(option.name);
      if (what.find(name) == what.npos || option.value.empty()) continue;
      const CLI::Option* given = app_.get_option(name);
      if (given->count() > 1) return name + " is given twice";
      return name + " needs a value: " + name + " " + std::string(option.value);
    }
    return printable(what);
  }

  const Command& command_;
  CLI::App app_;
  std::vector<std::vector<std::string>> values_;
  std::vector<std::vector<std::string>> words_;
  bool help_ = false;
};

bool looks_like_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

[[noreturn]] void unknown_option(const Command& command, std::string_view word) {
  std::string message = shown(word) + " is not a flag of `mvm " + std::string(command.name) + "`";
  if (word.starts_with("--")) {
    std::vector<std::string_view> known;
    for (const Option& option : command.options) {
      if (option.hidden) continue;
      known.push_back(option.name);
      if (!option.alias.empty()) known.push_back(option.alias);
    }
    const auto bare = word.substr(2, std::min(word.find('='), size_t{64}) - 2);
    if (const auto near = nearest(bare, known)) message += "; did you mean '--" + *near + "'?";
  }
  throw UsageError(&command, message);
}

void require_positionals(const Arguments& arguments) {
  const Command& command = arguments.command();
  for (const Positional& positional : command.positionals) {
    if (!positional.required || arguments.positional(positional.name)) continue;
    // --name stands for NAME where the command has it.
    if (positional.name == "NAME" && arguments.flag("name")) continue;
    throw UsageError(&command, std::string(positional.name) + " is missing");
  }
}

std::variant<Arguments, HelpWanted> parse_rest_command(const Command& command,
                                                       std::span<const std::string> words) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const std::vector<std::string> before(words.begin(), dashes);

  auto parser = std::make_unique<Parser>(command, true);
  std::vector<std::string> rest = parser->parse(before);
  if (parser->help()) return HelpWanted{&command, {}};
  Arguments arguments = parser->arguments();
  if (command.positionals.front().name == "NAME" && arguments.flag("name") &&
      arguments.positional("NAME")) {
    // `exec --name web sh -c …`: the first word is the command's.
    parser = std::make_unique<Parser>(command, false);
    rest = parser->parse(before);
    if (parser->help()) return HelpWanted{&command, {}};
    arguments = parser->arguments();
  }
  require_positionals(arguments);
  if (!rest.empty() && looks_like_option(rest.front())) unknown_option(command, rest.front());

  // With words of the command before it, "--" is one of them.
  if (dashes != words.end())
    rest.insert(rest.end(), rest.empty() ? dashes + 1 : dashes, words.end());
  if (rest.empty() && command.rest_required) throw UsageError(&command, "COMMAND is missing");
  arguments.set_rest(std::move(rest));
  return arguments;
}

std::variant<Arguments, HelpWanted> parse_plain_command(const Command& command,
                                                        std::span<const std::string> words) {
  Parser parser(command, true);
  const std::vector<std::string> left = parser.parse({words.begin(), words.end()});
  if (parser.help()) return HelpWanted{&command, {}};
  for (const std::string& word : left) {
    if (looks_like_option(word)) unknown_option(command, word);
    throw UsageError(&command, "unexpected argument " + shown(word));
  }
  Arguments arguments = parser.arguments();
  require_positionals(arguments);
  if (arguments.flag("name"))
    for (const Positional& positional : command.positionals)
      if (positional.name == "NAME" && arguments.positional("NAME"))
        throw UsageError(&command, "the name is given twice: as an argument and with --name");
  return arguments;
}

[[noreturn]] void unknown_command(std::string_view first, std::string_view second) {
  std::vector<std::string_view> known;
  for (const Command& command : commands()) {
    const size_t blank = command.name.find(' ');
    if (second.empty()) {
      known.push_back(command.name.substr(0, blank));
      if (blank == command.name.npos && !command.alias.empty()) known.push_back(command.alias);
    } else if (command.name.substr(0, blank) == first && blank != command.name.npos) {
      known.push_back(command.name.substr(blank + 1));
    }
  }
  const std::string prefix = second.empty() ? "" : std::string(first) + " ";
  const std::string_view word = second.empty() ? first : second;
  std::string message = "there is no command " + shown(prefix + std::string(word));
  if (const auto near = nearest(word.substr(0, 64), known))
    message += "; did you mean `mvm " + prefix + *near + "`?";
  throw UsageError(nullptr, message);
}

bool asks_for_help(std::string_view word) { return word == "-h" || word == "--help"; }

}

void Arguments::add(std::string_view key, std::vector<std::string> values) {
  entries_.emplace_back(key, std::move(values));
}

const std::vector<std::string>* Arguments::find(std::string_view key) const {
  for (const auto& [name, values] : entries_)
    if (name == key) return &values;
  return nullptr;
}

std::optional<std::string> Arguments::value(std::string_view option) const {
  const auto* values = find(option);
  if (values == nullptr || values->empty()) return std::nullopt;
  return values->front();
}

std::vector<std::string> Arguments::values(std::string_view option) const {
  const auto* values = find(option);
  return values == nullptr ? std::vector<std::string>() : *values;
}

std::optional<std::string> Arguments::positional(std::string_view name) const {
  return value(name);
}
std::vector<std::string> Arguments::positionals(std::string_view name) const {
  return values(name);
}

std::variant<Arguments, HelpWanted> parse_command_line(std::span<const std::string> args) {
  if (args.empty() || asks_for_help(args.front())) return HelpWanted{};
  const std::string& first = args.front();
  if (first == "--version" || first == "-V") return Arguments(*find_command(Verb::Version));
  if (looks_like_option(first))
    throw UsageError(nullptr, shown(first) + " is not a flag of `mvm`; a command comes first");

  const bool two_words = args.size() > 1 && is_group(first) && !looks_like_option(args[1]);
  const Command* command = two_words ? find_command(first, args[1]) : find_command(first, {});
  if (command == nullptr && is_group(first)) {
    if (two_words) unknown_command(first, args[1]);
    if (args.size() > 1 && !asks_for_help(args[1]))
      throw UsageError(nullptr, shown(args[1]) + " is not a flag of `mvm " + first + "`");
    return HelpWanted{nullptr, first};
  }
  if (command == nullptr) unknown_command(first, {});
  const auto words = args.subspan(two_words ? 2 : 1);
  return command->rest.empty() ? parse_plain_command(*command, words)
                               : parse_rest_command(*command, words);
}

}
