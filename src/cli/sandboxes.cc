// Commands about sandboxes as a whole: each is a call of the daemon and some text.

#include <algorithm>
#include <chrono>
#include <ctime>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"

#include "json_text.h"
#include "memory_use.h"
#include "ports.h"
#include "progress.h"
#include "secret_values.h"
#include "settings.h"

namespace mvm::cli {
namespace {

using api::Sandbox;
using api::SandboxState;

std::optional<Sandbox> find_sandbox(api::Service& service, const std::string& name) {
  try {
    return service.sandbox(name);
  } catch (const Error& error) {
    if (error.kind() == Kind::NotFound) return std::nullopt;
    throw;
  }
}

// "2026-01-02T03:04:05Z", with or without a fraction; nothing when it is not such a time.
std::optional<int64_t> unix_seconds(const std::string& rfc3339) {
  std::tm parts{};
  if (::strptime(rfc3339.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
  return static_cast<int64_t>(::timegm(&parts));
}

std::string age(const Context& context, const Sandbox& sandbox) {
  const auto since = unix_seconds(is_live(sandbox.state) ? sandbox.started_at : sandbox.ended_at);
  if (!since) return "-";
  const int64_t seconds = std::max<int64_t>(0, context.unix_seconds() - *since);
  return format_duration_ms(static_cast<uint64_t>(seconds) * 1000);
}

std::string state_text(const Sandbox& sandbox) {
  std::string text(state_name(sandbox.state));
  if (sandbox.health) text += " (" + std::string(proto::health_name(sandbox.health->state)) + ")";
  if (!sandbox.end) return text;
  const std::string_view reason = proto::end_reason_name(sandbox.end->reason);
  return reason == text ? text : text + " (" + std::string(reason) + ")";
}

bool has_labels(const Sandbox& sandbox, const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& text) {
    const size_t equals = text.find('=');
    const auto found = sandbox.labels.find(text.substr(0, equals));
    if (found == sandbox.labels.end()) return false;
    return equals == text.npos || found->second == text.substr(equals + 1);
  });
}

// Whether somebody has said something of the network, here and now.
bool asks_for_network(const config::Resolved& wanted) {
  const auto keys = config::keys();
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].table.starts_with("network") && !wanted.origins.at(i).empty() &&
        wanted.origins.at(i) != "default")
      return true;
  return false;
}

// Whether it lacks one of them. One whose number was to be chosen has another by now.
bool lacks_port(const Sandbox& have, const std::vector<proto::PublishedPort>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const proto::PublishedPort& port) {
    return std::none_of(have.ports.begin(), have.ports.end(), [&](const auto& each) {
      return each.address == port.address && each.guest == port.guest &&
             (port.host == 0 || each.host == port.host);
    });
  });
}

// A stopped sandbox keeps the machine it was made with. Whoever asks for another one is told.
std::string differences(const Context& context, const Sandbox& have,
                        const config::Resolved& wanted) {
  const api::SandboxSpec spec = spec_of(context, wanted.settings);
  std::string names;
  const auto keys = config::keys();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (wanted.origins.at(i).empty() || wanted.origins.at(i) == "default") continue;
    const auto name = keys[i].name;
    const bool differs =
        (name == "cpus" && spec.cpus != have.cpus) ||
        (name == "mem" && spec.memory != have.memory) ||
        (name == "disk" && spec.disk != have.disk) ||
        (name == "disk_bandwidth" && spec.disk_bandwidth != have.disk_bandwidth) ||
        (name == "disk_iops" && spec.disk_iops != have.disk_iops) ||
        (name == "wall_clock" && spec.limits.wall_clock_ms != have.limits.wall_clock_ms) ||
        (name == "pids" && spec.limits.pids != have.limits.pids) ||
        (name == "output" && spec.limits.output != have.limits.output) ||
        (name == "ttl" && spec.limits.ttl_ms != have.limits.ttl_ms) ||
        (name == "idle_timeout" && spec.limits.idle_timeout_ms != have.limits.idle_timeout_ms) ||
        (name == "retention" && spec.limits.retention_ms != have.limits.retention_ms) ||
        (name == "sync" && spec.audit_strict != have.audit_strict) ||
        (name == "kernel" && spec.kernel != have.kernel) ||
        (name == "ports" && lacks_port(have, spec.ports)) ||
        (name == "image" && spec.image != have.image && spec.image + ":latest" != have.image &&
         spec.image != have.image_digest);
    if (differs) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  if (asks_for_network(wanted) && spec.network != have.network)
    names += (names.empty() ? "" : ", ") + std::string("network");
  return names;
}

// Whether the image is a flake's: what was said last, on the way from the manifest to the flags.
bool starts_from_flake(const config::Resolved& resolved) {
  const auto origin = [&](std::string_view name) {
    const auto keys = config::keys();
    for (size_t i = 0; i < keys.size(); ++i)
      if (keys[i].table.empty() && keys[i].name == name) return resolved.origins.at(i);
    return std::string();
  };
  // As decide() has them, the strongest first.
  const auto rank = [](const std::string& from) {
    return from.empty() || from == "default" ? 3
           : from == "command line"          ? 0
           : from == "environment"           ? 1
                                             : 2;
  };
  if (resolved.settings.flake.value_or("").empty()) return false;
  const int flake = rank(origin("flake"));
  const int image = rank(origin("image"));
  if (flake == image)
    throw Error(Kind::Invalid, "flake and image contradict: both are set by " + origin("flake"));
  return flake < image;
}

}

int up(Context& context, const UpOptions& options) {
  Decided decided = decide(context, options.flags, options.env_files, options.manifest);
  auto& settings = decided.resolved.settings;
  if (!settings.name) {
    if (!decided.manifest)
      throw UsageError(find_command(Verb::Up),
                       "NAME is missing, and there is no mvm.toml in this folder");
    settings.name = folder_name(context);
  }
  const std::string name = *settings.name;
  const auto start = std::chrono::steady_clock::now();
  api::Service& service = context.service();

  std::string built;
  if (starts_from_flake(decided.resolved)) {
    built = build_image_of(context, settings, name, options.quiet || options.json).digest;
    settings.image = name;
  }

  Sandbox sandbox;
  if (auto existing = find_sandbox(service, name)) {
    if (!built.empty() && built != existing->image_digest && !options.quiet)
      context.console.err("mvm: " + name + " keeps the image that it was made from\n  `mvm rm -f " +
                          name + "` and `mvm up` makes it anew\n");
    // Who goes on as if it had them sends placeholders, or nothing.
    if (!settings.secrets.empty() && spec_of(context, settings).secrets != existing->secrets)
      throw Error(Kind::Conflict, name +
                                      " was made with other secrets, and keeps those; `mvm rm -f " +
                                      name + "` and `mvm up` makes it anew");
    const std::string changed = differences(context, *existing, decided.resolved);
    if (!changed.empty() && !options.quiet)
      context.console.err("mvm: " + name + " keeps what it was made with; not changed: " + changed +
                          "\n  `mvm rm -f " + name + "` and `mvm up` makes it anew\n");
    if (existing->state == SandboxState::Running) {
      if (options.json)
        context.console.out(api::encode(*existing) + '\n');
      else if (!options.quiet)
        context.console.out(name + " is already running\n");
      return kFine;
    }
    const Waiting waiting(context.console, "starting " + name, options.quiet);
    api::StartRequest request;
    request.boot_timeout_ms = settings.boot_timeout_ms.value_or(request.boot_timeout_ms);
    request.secret_values = secret_values(context, existing->secrets);
    const ScopeExit forget([&] { proto::wipe(request.secret_values); });
    sandbox = service.start(name, request);
  } else {
    api::SandboxSpec spec = spec_of(context, settings);
    ensure_image(context, spec.image, options.quiet || options.json);
    if (!options.quiet) tell_secrets(context, spec);
    spec.secret_values = secret_values(context, spec.secrets);
    const ScopeExit forget([&] { proto::wipe(spec.secret_values); });
    const Waiting waiting(context.console, "starting " + name, options.quiet);
    sandbox = service.create(spec);
  }
  // Not a matter of --quiet: what was asked for is not there.
  if (!sandbox.network_missing.empty())
    context.console.err("mvm: " + name + " has no network: " + tame(sandbox.network_missing) +
                        "\n  --no-network starts it without a word about that\n");
  warn_of_open_ports(context, name, sandbox.ports);
  if (options.json)
    context.console.out(api::encode(sandbox) + '\n');
  else if (!options.quiet)
    context.console.out(name + " is running (" + seconds_since(start) + ")" +
                        (sandbox.ports.empty() ? "" : ", ports " + ports_text(sandbox.ports)) +
                        "\n");
  return kFine;
}

int ps(Context& context, const Arguments& arguments) {
  std::vector<Sandbox> sandboxes = context.service().sandboxes(arguments.flag("all"));
  const auto labels = arguments.values("label");
  std::erase_if(sandboxes, [&](const Sandbox& sandbox) { return !has_labels(sandbox, labels); });
  if (arguments.flag("quiet") && arguments.flag("json"))
    throw UsageError(&arguments.command(), "--quiet and --json contradict");
  if (arguments.flag("json")) {
    context.console.out(api::encode(sandboxes) + '\n');
    return kFine;
  }
  if (arguments.flag("quiet")) {
    std::string names;
    for (const Sandbox& sandbox : sandboxes) names += sandbox.name + '\n';
    context.console.out(names);
    return kFine;
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATE", "IMAGE", "CPUS", "MEMORY", "SINCE"}};
  // A column that most have no use for is there when somebody has.
  const bool with_ports = std::any_of(sandboxes.begin(), sandboxes.end(),
                                      [](const Sandbox& each) { return !each.ports.empty(); });
  if (with_ports) rows.front().emplace_back("PORTS");
  for (const Sandbox& sandbox : sandboxes) {
    rows.push_back({sandbox.name, state_text(sandbox), printable(sandbox.image, 60),
                    std::to_string(sandbox.cpus), format_size(sandbox.memory),
                    age(context, sandbox)});
    if (with_ports) rows.back().push_back(ports_text(sandbox.ports));
  }
  context.console.out(table(rows));
  return kFine;
}

int inspect(Context& context, const Arguments& arguments) {
  Sandbox sandbox = context.service().sandbox(sandbox_name(arguments));
  if (sandbox.state == SandboxState::Running) sandbox.memory_use = memory_use(sandbox);
  const std::string document = api::encode(sandbox);
  context.console.out(arguments.flag("json") ? document + '\n' : json_pretty(document));
  return kFine;
}

int logs(Context& context, const Arguments& arguments) {
  if (arguments.flag("egress"))
    return egress_log(context, sandbox_name(arguments), arguments.flag("follow"));
  // A console is written by the guest: on a terminal its control sequences are shown, not obeyed.
  const bool terminal = context.console.look().out_terminal;
  context.service().logs(sandbox_name(arguments), arguments.flag("follow"),
                         [&](std::string_view piece) {
                           context.console.out(terminal ? tame(piece) : std::string(piece));
                           return true;
                         });
  return kFine;
}

int down(Context& context, const DownOptions& options) {
  api::Service& service = context.service();
  std::vector<Sandbox> stopped;
  for (const std::string& name : options.names) {
    const Waiting waiting(context.console, "stopping " + name, options.quiet);
    Sandbox sandbox = service.sandbox(name);
    if (is_live(sandbox.state)) sandbox = service.stop(name, options.request);
    // An ephemeral one has removed itself.
    if (options.remove && find_sandbox(service, name)) service.remove(name, false);
    stopped.push_back(std::move(sandbox));
  }
  if (options.json) {
    context.console.out(api::encode(stopped) + '\n');
  } else if (!options.quiet) {
    std::string text;
    for (const std::string& name : options.names)
      text += name + (options.remove ? " is removed\n" : " is stopped\n");
    context.console.out(text);
  }
  return kFine;
}

int remove(Context& context, const Arguments& arguments) {
  const bool force = arguments.flag("force");
  api::Service& service = context.service();
  for (const std::string& name : sandbox_names(arguments)) {
    if (force && !find_sandbox(service, name)) continue;
    service.remove(name, force);
    if (!arguments.flag("quiet")) context.console.out(name + " is removed\n");
  }
  return kFine;
}

}
