#pragma once
// A command line, taken apart along the command table. Nothing is executed and nothing outside the
// arguments is looked at.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/cli/command.h"

namespace mvm::cli {

// The command line makes no sense; exit code 2. `command` says whose usage line to show.
class UsageError : public Error {
 public:
  UsageError(const Command* command, std::string message)
      : Error(Kind::Invalid, std::move(message)), command_(command) {}
  const Command* command() const { return command_; }

 private:
  const Command* command_;  // of the table; nothing when the command itself is not known
};

class Arguments {
 public:
  explicit Arguments(const Command& command) : command_(&command) {}

  const Command& command() const { return *command_; }
  bool flag(std::string_view option) const { return find(option) != nullptr; }
  std::optional<std::string> value(std::string_view option) const;
  std::vector<std::string> values(std::string_view option) const;
  // Positionals by their name in the table.
  std::optional<std::string> positional(std::string_view name) const;
  std::vector<std::string> positionals(std::string_view name) const;
  // The command for the sandbox.
  const std::vector<std::string>& rest() const { return rest_; }

  void add(std::string_view key, std::vector<std::string> values);
  void set_rest(std::vector<std::string> rest) { rest_ = std::move(rest); }

 private:
  const std::vector<std::string>* find(std::string_view key) const;

  const Command* command_;
  // Options by name and positionals by NAME, which cannot clash. A flag has no values.
  std::vector<std::pair<std::string_view, std::vector<std::string>>> entries_;
  std::vector<std::string> rest_;
};

// Somebody asked for help: for a command, for the commands of a group, or for all.
struct HelpWanted {
  const Command* command = nullptr;
  std::string group;
};

// `args` without the program's name. Throws UsageError.
std::variant<Arguments, HelpWanted> parse_command_line(std::span<const std::string> args);

}
