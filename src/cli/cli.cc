// From argv to an exit code: parse, find the action, run it, report. The only place where errors
// of the command line end.

#include "mvm/cli/cli.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include <unistd.h>

#include <climits>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/cli/help.h"
#include "mvm/sys/error.h"

#include "daemon_link.h"
#include "json_text.h"

namespace mvm::cli {
namespace {

std::optional<std::string> variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string working_directory() {
  std::string path(PATH_MAX, '\0');
  if (::getcwd(path.data(), path.size()) == nullptr)
    throw SystemError(errno, "finding the current folder");
  path.resize(path.find('\0'));
  return path == "/" ? "" : path;
}

int show_help(Console& console, const HelpWanted& wanted) {
  if (wanted.command != nullptr)
    console.out(command_help(*wanted.command));
  else
    console.out(wanted.group.empty() ? overview() : group_help(wanted.group));
  return kFine;
}

int help(Console& console, const Arguments& arguments) {
  if (arguments.flag("markdown")) {
    console.out(reference_markdown());
    return kFine;
  }
  std::vector<std::string> words = arguments.positionals("COMMAND");
  words.emplace_back("--help");
  return show_help(console, std::get<HelpWanted>(parse_command_line(words)));
}

int completion(Console& console, const Arguments& arguments) {
  const std::string shell = *arguments.positional("SHELL");
  const std::string script = completion_script(shell);
  if (script.empty())
    throw UsageError(&arguments.command(), "there is no completion for '" + printable(shell, 40) +
                                               "'; there is for bash, zsh and fish");
  console.out(script);
  return kFine;
}

int version(Console& console, const Arguments& arguments, std::string_view text) {
  console.out(arguments.flag("json") ? json_version(text) : "mvm " + std::string(text) + "\n");
  return kFine;
}

int serve(const Arguments& arguments, const CliEnvironment& environment) {
  int ready_fd = -1;
  if (const auto text = arguments.value("ready-fd")) {
    const auto number = parse_u64(*text);
    if (!number || *number < 3 || *number > 1023)
      throw UsageError(&arguments.command(), "--ready-fd must be a descriptor's number");
    ready_fd = static_cast<int>(*number);
  }
  return environment.serve(ready_fd);
}

int execute(Console& console, const Arguments& arguments, const CliEnvironment& environment) {
  // Those that need nothing of the world come first: they must work anywhere.
  switch (arguments.command().verb) {
    case Verb::Help:
      return help(console, arguments);
    case Verb::Completion:
      return completion(console, arguments);
    case Verb::Version:
      return version(console, arguments, environment.version);
    case Verb::Daemon:
      return serve(arguments, environment);
    default:
      break;
  }
  std::unique_ptr<api::Client> client;
  Context context{console,
                  variable,
                  store::Paths::from_environment(),
                  working_directory(),
                  std::string(environment.version),
                  {},
                  {},
                  [] { return static_cast<int64_t>(std::time(nullptr)); }};
  context.service = [&]() -> api::Service& {
    if (!client) client = find_or_start_daemon(context.paths);
    return *client;
  };
  context.running_service = [&]() -> std::unique_ptr<api::Service> {
    return find_daemon(context.paths);
  };
  return run_command(context, arguments);
}

// Every line of a message of several lines stands by itself (the complaints about a manifest).
void report(Console& console, std::string_view message) {
  console.err("mvm: " + tame(message) + "\n");
}

}

int run_cli(int argc, char** argv, const CliEnvironment& environment) noexcept {
  // A reader that goes away is an error of a write, not the end of the process: a terminal in raw
  // mode has to be put back first.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    Console console = Console::standard(variable);
    try {
      const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
      const auto parsed = parse_command_line(words);
      if (const auto* wanted = std::get_if<HelpWanted>(&parsed)) {
        show_help(console, *wanted);
        return kFine;
      }
      return execute(console, std::get<Arguments>(parsed), environment);
    } catch (const UsageError& error) {
      report(console, error.message());
      if (error.command() != nullptr)
        console.err("Usage: " + usage_line(*error.command()) + "\n`mvm " +
                    std::string(error.command()->name) + " --help` explains it.\n");
      else
        console.err("`mvm --help` lists the commands.\n");
      return kUsage;
    } catch (const api::ApiError& error) {
      report(console, error.message());
      if (!error.hint().empty()) console.err("  " + tame(error.hint()) + "\n");
      return kFailed;
    } catch (const BuildEnded& error) {
      report(console, error.message());
      return error.code();
    } catch (const SandboxEnded& error) {
      report(console, error.message());
      return exit_code_of(error.reason());
    } catch (const SystemError& error) {
      // Whoever read our output has had enough (`mvm ps | head -1`); the same code as by signal.
      if (error.errno_value() == EPIPE) return 128 + SIGPIPE;
      report(console, error.message());
      return kFailed;
    } catch (const std::exception& error) {
      report(console, error.what());
      return kFailed;
    }
  } catch (...) {
    return kFailed;  // not even the report could be written
  }
}

}
