#include "mvm/cli/options.h"

#include <algorithm>

#include "mvm/base/text.h"
#include "mvm/config/schema.h"

#include "limits.h"

namespace mvm::cli {
namespace {

using Pair = std::pair<std::string, std::string>;

[[noreturn]] void wrong(const Arguments& arguments, std::string message) {
  throw UsageError(&arguments.command(), std::move(message));
}

uint64_t duration_ms(const Arguments& arguments, std::string_view option, uint64_t least) {
  const std::string text = *arguments.value(option);
  const auto value = parse_duration_ms(text);
  const std::string flag = "--" + std::string(option);
  if (!value)
    wrong(arguments,
          flag + " must be a duration such as 30s or 1m30s, not '" + printable(text, 40) + "'");
  if (*value < least || *value > kMaxTimeoutMs)
    wrong(arguments, flag + " must be from " + format_duration_ms(least) + " to " +
                         format_duration_ms(kMaxTimeoutMs) + ", not " + printable(text, 40));
  return *value;
}

// "A=1" as it is; "A" with the value it has here.
Pair env_pair(std::string_view text, const Variable& variable) {
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  std::string value;
  if (equals != text.npos) {
    value = text.substr(equals + 1);
  } else {
    auto here = variable(name);
    if (!here) throw Error(Kind::Invalid, "variable '" + printable(name, 40) + "' is not set here");
    value = std::move(*here);
  }
  if (const auto complaint = config::env_complaint(name, value))
    throw Error(Kind::Invalid, *complaint);
  return {name, value};
}

std::vector<Pair> env_of(const Arguments& arguments, const Variable& variable) {
  std::vector<Pair> env;
  for (const std::string& text : arguments.values("env")) {
    try {
      env.push_back(env_pair(text, variable));
    } catch (const Error& error) {
      wrong(arguments, "--env: " + error.message());
    }
  }
  if (env.size() > config::kMaxTableEntries)
    wrong(arguments, "--env is given " + std::to_string(env.size()) + " times; the most is " +
                         std::to_string(config::kMaxTableEntries));
  return env;
}

// The settings that have a flag, through the schema that also reads mvm.toml.
config::Settings settings_of(const Arguments& arguments) {
  config::Settings settings;
  for (const config::Key& key : config::keys()) {
    if (!key.flag.starts_with("--") || key.type == config::Type::TextTable) continue;
    const std::string_view name = key.flag.substr(2);
    if (key.type == config::Type::TextList || key.type == config::Type::Secrets) {
      for (const std::string& entry : arguments.values(name))
        if (const auto complaint = config::set_from_text(key, entry, settings))
          wrong(arguments, std::string(key.flag) + " " + *complaint);
      continue;
    }
    std::optional<std::string> text;
    if (key.type != config::Type::Boolean)
      text = arguments.value(name);
    else if (arguments.flag(name))
      text = "true";
    if (!text) continue;
    if (const auto complaint = config::set_from_text(key, *text, settings))
      wrong(arguments, std::string(key.flag) + " " + *complaint);
  }
  if (arguments.flag("no-network")) {
    for (const std::string_view other :
         {"allow-host", "allow-cidr", "allow-endpoint", "network-preset", "network-mode",
          "network-inspect", "upstream-ca", "ai-metering", "ai-token-budget", "ai-budget", "secret",
          "pii", "pii-rule", "pii-bypass"})
      if (arguments.flag(other))
        wrong(arguments, "--no-network and --" + std::string(other) + " contradict");
    settings.network_enabled = false;
  }
  if (arguments.flag("no-healthcheck")) settings.healthcheck = false;
  for (const std::string& label : arguments.values("label")) {
    const size_t equals = label.find('=');
    const std::string name = label.substr(0, equals);
    const std::string value = equals == label.npos ? "" : label.substr(equals + 1);
    if (const auto complaint = config::label_complaint(name, value))
      wrong(arguments, "--label: " + *complaint);
    settings.labels[name] = value;
  }
  return settings;
}

void read_streams(const Arguments& arguments, ExecOptions& options) {
  options.interactive = arguments.flag("interactive");
  options.tty = arguments.flag("tty");
  options.json = arguments.flag("json");
  options.redact = arguments.flag("redact");
  if (arguments.flag("timeout")) options.timeout_ms = duration_ms(arguments, "timeout", 1);
  if (options.json) options.max_output = kDefaultJsonOutput;
  if (const auto text = arguments.value("max-output")) {
    const auto size = parse_size(*text);
    if (!size || *size == 0)
      wrong(arguments,
            "--max-output must be a size such as 64K or 1M, not '" + printable(*text, 40) + "'");
    if (options.json && *size > kMaxJsonOutput)
      wrong(arguments, "--max-output with --json must be at most " + format_size(kMaxJsonOutput));
    options.max_output = *size;
  }
  if (options.redact && options.tty)
    wrong(arguments, "--redact and --tty contradict: a terminal shows each byte at once");
  if (options.json && options.tty)
    wrong(arguments, "--json and --tty contradict: a terminal is not a document");
}

void read_limits(const Arguments& arguments, ExecOptions& options) {
  const auto checked = [&](std::string_view flag, const auto& parsed) {
    if (!parsed) wrong(arguments, "--" + std::string(flag) + " " + parsed.error());
    return *parsed;
  };
  for (const std::string& text : arguments.values("rlimit")) {
    const auto limit = checked("rlimit", parse_rlimit(text));
    for (const auto& earlier : options.rlimits)
      if (earlier.resource == limit.resource)
        wrong(arguments,
              "--rlimit names " + std::string(proto::kRlimitNames.at(limit.resource)) + " twice");
    options.rlimits.push_back(limit);
  }
  if (const auto text = arguments.value("memory-limit"))
    options.limits.memory = checked("memory-limit", parse_memory_limit(*text));
  if (const auto text = arguments.value("pids-limit"))
    options.limits.processes = checked("pids-limit", parse_process_limit(*text));
  if (const auto text = arguments.value("cpu-limit"))
    options.limits.cpu_millis = checked("cpu-limit", parse_cpu_limit(*text));
  options.groups = arguments.values("group-add");
  if (options.groups.size() > proto::kMaxAddedGroups)
    wrong(arguments, "--group-add is given " + std::to_string(options.groups.size()) +
                         " times; the most is " + std::to_string(proto::kMaxAddedGroups));
  for (const std::string& group : options.groups)
    if (group.empty() || group.size() > proto::kMaxUserName)
      wrong(arguments, "--group-add must be a group's name or number");
}

void read_place(const Arguments& arguments, const Variable& variable, ExecOptions& options) {
  const config::Settings settings = settings_of(arguments);  // checks the values
  options.workdir = settings.workdir.value_or("");
  options.user = settings.user.value_or("");
  options.env = env_of(arguments, variable);
  options.env_files = arguments.values("env-file");
}

// "web:/path" when `text` is such; nothing when it is a path here.
std::optional<Pair> remote_place(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0 || text.substr(0, colon).find('/') != text.npos ||
      text.front() == '.')
    return std::nullopt;
  return Pair{text.substr(0, colon), text.substr(colon + 1)};
}

}

std::string checked_name(const Arguments& arguments, const std::string& name) {
  if (const auto complaint = name_complaint(name))
    wrong(arguments, "'" + printable(name, 40) + "' is no valid name: " + *complaint);
  return name;
}

std::string sandbox_name(const Arguments& arguments) {
  const auto named = arguments.value("name");
  return checked_name(arguments, named ? *named : arguments.positional("NAME").value_or(""));
}

std::vector<std::string> sandbox_names(const Arguments& arguments) {
  std::vector<std::string> names = arguments.positionals("NAME");
  if (const auto named = arguments.value("name")) names.push_back(*named);
  for (const std::string& name : names) checked_name(arguments, name);
  return names;
}

ExecOptions exec_options(const Arguments& arguments, const Variable& variable) {
  ExecOptions options;
  options.sandbox = sandbox_name(arguments);
  options.argv = arguments.rest();
  read_streams(arguments, options);
  read_limits(arguments, options);
  read_place(arguments, variable, options);
  options.detach = arguments.flag("detach");
  if (options.detach) {
    // A command that nobody waits for has no terminal, no input and no result.
    for (const std::string_view other : {"interactive", "tty", "json", "max-output"})
      if (arguments.flag(other))
        wrong(arguments, "--detach and --" + std::string(other) + " contradict");
  }
  return options;
}

UpOptions up_options(const Arguments& arguments, const Variable& variable) {
  UpOptions options;
  options.flags = settings_of(arguments);
  if (arguments.flag("name") || arguments.positional("NAME"))
    options.flags.name = sandbox_name(arguments);
  for (auto& [name, value] : env_of(arguments, variable)) options.flags.env[name] = value;
  options.env_files = arguments.values("env-file");
  if (arguments.flag("rm")) options.flags.ephemeral = true;
  options.manifest = arguments.value("file");
  options.quiet = arguments.flag("quiet");
  options.json = arguments.flag("json");
  return options;
}

BuildOptions build_options(const Arguments& arguments) {
  BuildOptions options;
  options.flags = settings_of(arguments);
  options.directory = arguments.positional("DIR").value_or(".");
  if (const auto name = arguments.value("name"))
    options.flags.name = checked_name(arguments, *name);
  if (const auto profile = arguments.value("package")) {
    const auto* key = config::find_key("", "flake_profile");
    if (const auto complaint = config::set_from_text(*key, *profile, options.flags))
      wrong(arguments, "--profile " + *complaint);
  }
  if (arguments.flag("timeout"))
    options.flags.build_timeout_ms = duration_ms(arguments, "timeout", 1);
  for (const std::string& text : arguments.values("override-input")) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size())
      wrong(arguments, "--override-input must be INPUT=FOLDER, not '" + printable(text, 40) + "'");
    options.overrides.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  options.update_lock = arguments.flag("update-lock");
  options.watch = arguments.flag("watch");
  options.verbose = arguments.flag("verbose");
  options.quiet = arguments.flag("quiet");
  options.json = arguments.flag("json");
  if (options.quiet && options.verbose) wrong(arguments, "--quiet and --verbose contradict");
  return options;
}

RunOptions run_options(const Arguments& arguments, const Variable& variable) {
  RunOptions options;
  options.exec.argv = arguments.rest();
  read_streams(arguments, options.exec);
  read_limits(arguments, options.exec);
  read_place(arguments, variable, options.exec);
  options.machine = settings_of(arguments);
  options.machine.workdir.reset();
  options.machine.user.reset();
  options.machine.ephemeral = true;
  if (arguments.flag("name")) options.machine.name = sandbox_name(arguments);
  const std::string image = *arguments.positional("IMAGE");
  if (const auto complaint =
          config::set_from_text(*config::find_key("", "image"), image, options.machine))
    wrong(arguments, "IMAGE " + *complaint);
  options.quiet = arguments.flag("quiet");
  return options;
}

ExplainOptions explain_options(const Arguments& arguments) {
  ExplainOptions options;
  options.flags = settings_of(arguments);
  options.manifest = arguments.value("file");
  options.json = arguments.flag("json");
  return options;
}

PortOptions port_options(const Arguments& arguments) {
  PortOptions options;
  options.sandbox = sandbox_name(arguments);
  for (const std::string& text : arguments.positionals("PORT")) {
    if (const auto complaint = proto::published_port_complaint(text))
      wrong(arguments, "PORT " + *complaint);
    options.publish.push_back(*proto::parse_published_port(text));
  }
  for (const std::string& text : arguments.values("remove")) {
    const auto place = proto::parse_port_place(text);
    if (!place)
      wrong(arguments,
            "--remove must be a port of this host such as 8080 or 192.0.2.1:8080, not '" +
                printable(text, 40) + "'");
    options.remove.push_back(*place);
  }
  options.quiet = arguments.flag("quiet");
  options.json = arguments.flag("json");
  return options;
}

CopyOptions copy_options(const Arguments& arguments) {
  CopyOptions options;
  const std::string source = *arguments.positional("SOURCE");
  const std::string target = *arguments.positional("TARGET");
  const auto from = remote_place(source);
  const auto into = remote_place(target);
  if (from && into)
    wrong(arguments, "both are in a sandbox; copy out of the one, then into the other");
  if (!from && !into)
    wrong(arguments, "neither is in a sandbox; write one of the two as NAME:/path");
  options.direction = into ? CopyOptions::Direction::Into : CopyOptions::Direction::OutOf;
  const Pair& remote = into ? *into : *from;
  options.local = into ? source : target;
  options.sandbox = checked_name(arguments, remote.first);
  options.remote = remote.second;
  if (options.local.empty()) wrong(arguments, "a path cannot be empty");
  if (options.remote.empty() || options.remote.front() != '/')
    wrong(arguments, "a path in a sandbox is absolute: " + options.sandbox + ":/" +
                         printable(options.remote, 40));
  options.parents = arguments.flag("parents");
  options.follow_link = arguments.flag("follow-link");
  options.user = arguments.value("user").value_or("");
  if (from && (options.parents || !options.user.empty()))
    wrong(arguments, "--parents and --user are for copying into a sandbox");
  if (into && options.follow_link)
    wrong(arguments, "--follow-link is for copying out of a sandbox");
  options.quiet = arguments.flag("quiet");
  options.json = arguments.flag("json");
  return options;
}

DownOptions down_options(const Arguments& arguments) {
  DownOptions options;
  options.names = sandbox_names(arguments);
  if (arguments.flag("grace")) options.request.grace_ms = duration_ms(arguments, "grace", 0);
  options.request.kill = arguments.flag("kill");
  if (options.request.kill && arguments.flag("grace"))
    wrong(arguments, "--kill and --grace contradict");
  options.remove = arguments.flag("rm");
  options.quiet = arguments.flag("quiet");
  options.json = arguments.flag("json");
  return options;
}

std::vector<Pair> parse_env_file(std::string_view text, std::string_view file,
                                 const Variable& variable) {
  std::vector<Pair> out;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos || line.front() == '#') continue;
    try {
      // It may be a part of a value that has more lines than one, so it is not said.
      if (line.find('=') == line.npos && !variable(line))
        throw Error(Kind::Invalid,
                    "there is no \"=\" in it, and no variable of that name is set here");
      out.push_back(env_pair(line, variable));
    } catch (Error& error) {
      error.add_context(std::string(file) + ":" + std::to_string(number));
      throw;
    }
    if (out.size() > config::kMaxTableEntries)
      throw Error(Kind::Invalid, std::string(file) + " has more than " +
                                     std::to_string(config::kMaxTableEntries) + " variables");
  }
  return out;
}

}
