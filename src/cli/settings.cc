#include "settings.h"

#include <algorithm>

#include <fcntl.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/privacy/rules.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "json_text.h"
#include "package_managers.h"
#include "presets.h"
#include "secret_values.h"
#include "upstream_ca.h"

namespace mvm::cli {
namespace {

// Of all tools together, the first time (package_tools.h).
constexpr std::chrono::milliseconds kToolPatience{3000};
constexpr std::string_view kManifestHere = config::kManifestName;

// What the manifest is called in complaints: as the user named it.
std::string read_manifest_text(const Context& context, const std::string& file) {
  return sys::read_text_file(context.absolute(file), config::kMaxManifest);
}

// What its paths are relative to.
std::string folder_of(const Context& context, const std::string& file) {
  const std::string path = context.absolute(file);
  return path.substr(0, path.rfind('/'));
}

struct Checked {
  std::string file;
  config::Parsed parsed;
};
Checked check_manifest(const Context& context, const Arguments& arguments) {
  Checked out;
  out.file = arguments.positional("FILE").value_or(std::string(kManifestHere));
  out.parsed = config::parse_manifest(read_manifest_text(context, out.file));
  return out;
}

}

Decided decide(const Context& context, const config::Settings& flags,
               const std::vector<std::string>& env_files,
               const std::optional<std::string>& manifest) {
  Decided out;
  config::Settings file;
  const std::string name = manifest.value_or(std::string(kManifestHere));
  if (manifest || sys::exists(context.absolute(name))) {
    file = config::read_manifest(read_manifest_text(context, name), name);
    out.manifest = name;
    place_authorities(context, folder_of(context, name), file.upstream_ca);
  }
  config::Settings given = flags;
  place_authorities(context, context.directory, given.upstream_ca);
  config::Settings env_lines;
  env_lines.env = read_env_files(context, env_files);
  const std::vector<config::Layer> layers = {
      {"command line", std::move(given)},
      {"--env-file", std::move(env_lines)},
      {"environment", config::settings_from_environment(context.variable)},
      {name, std::move(file)},
      {"default", config::default_settings()},
  };
  out.resolved = config::resolve(layers);
  return out;
}

std::map<std::string, std::string> read_env_files(const Context& context,
                                                  const std::vector<std::string>& files) {
  std::map<std::string, std::string> out;
  for (const std::string& file : files) {
    const std::string text = sys::read_text_file(context.absolute(file), kMaxEnvFile);
    for (auto& [name, value] : parse_env_file(text, file, context.variable)) out[name] = value;
  }
  return out;
}

static proto::NetworkLimits limits_of(const config::Settings& settings) {
  proto::NetworkLimits limits;
  const auto take = [](auto& into, const std::optional<uint64_t>& from) {
    if (from) into = static_cast<std::remove_reference_t<decltype(into)>>(*from);
  };
  take(limits.flows, settings.network_flows);
  take(limits.flows_per_second, settings.network_flows_per_second);
  take(limits.queries_per_second, settings.network_queries_per_second);
  take(limits.names_per_zone, settings.network_names_per_zone);
  take(limits.send_bandwidth, settings.network_send_bandwidth);
  take(limits.receive_bandwidth, settings.network_receive_bandwidth);
  take(limits.total, settings.network_total);
  return limits;
}

static proto::NetworkTimeouts timeouts_of(const config::Settings& settings) {
  proto::NetworkTimeouts timeouts;
  timeouts.first_bytes = settings.network_first_bytes_ms.value_or(timeouts.first_bytes);
  timeouts.connect = settings.network_connect_ms.value_or(timeouts.connect);
  timeouts.handshake = settings.network_handshake_ms.value_or(timeouts.handshake);
  timeouts.idle = settings.network_idle_ms.value_or(timeouts.idle);
  timeouts.http_idle = settings.network_http_idle_ms.value_or(timeouts.http_idle);
  timeouts.half_closed = settings.network_half_closed_ms.value_or(timeouts.half_closed);
  return timeouts;
}

static proto::AiConfig ai_of(const config::Settings& settings) {
  proto::AiConfig ai;
  const auto limit = [](std::optional<uint64_t>& into, const std::optional<uint64_t>& from) {
    if (from && *from != 0) into = from;
  };
  ai.metering = settings.ai_metering.value_or(false);
  ai.on_unknown = settings.ai_on_unknown.value_or(ai.on_unknown);
  ai.reserve = settings.ai_reserve.value_or(false);
  ai.inject_stream_usage = settings.ai_inject_stream_usage.value_or(false);
  ai.providers = settings.ai_providers;
  ai.budgets = settings.ai_budgets;
  ai.prices = settings.ai_prices;
  limit(ai.budget.max_total_tokens, settings.ai_max_total_tokens);
  limit(ai.budget.max_input_tokens, settings.ai_max_input_tokens);
  limit(ai.budget.max_output_tokens, settings.ai_max_output_tokens);
  limit(ai.budget.max_requests, settings.ai_max_requests);
  ai.budget.max_cost = settings.ai_max_cost.value_or("");
  return ai;
}

static proto::PiiConfig pii_of(const config::Settings& settings) {
  proto::PiiConfig pii;
  pii.mode = settings.pii_mode.value_or(pii.mode);
  pii.categories = settings.pii_categories;
  pii.rules = settings.pii_rules;
  pii.patterns = settings.pii_patterns;
  pii.bypass = settings.pii_bypass;
  pii.on_mismatch = settings.pii_on_mismatch.value_or(pii.on_mismatch);
  pii.on_undecodable = settings.pii_on_undecodable.value_or(pii.on_undecodable);
  pii.token_lifetime_ms = settings.pii_token_lifetime_ms.value_or(pii.token_lifetime_ms);
  pii.token_window_ms = settings.pii_token_window_ms.value_or(0);
  pii.token_once = settings.pii_token_once.value_or(false);
  pii.max_value = settings.pii_max_value.value_or(pii.max_value);
  pii.max_growth = settings.pii_max_growth.value_or(pii.max_growth);
  privacy::compile(pii);  // says what is wrong before anything is started
  return pii;
}

// A card that is switched off has no rules, wherever they stand: --no-network wins over a manifest
// that has some.
proto::NetworkConfig network_of(const Context& context, const config::Settings& settings) {
  proto::NetworkConfig network;
  network.enabled = settings.network_enabled.value_or(true);
  if (!network.enabled) return network;
  network.audit = settings.network_mode == "audit";
  network.inspect_all = settings.network_inspect == "all";
  network.allow_hosts = settings.allow_hosts;
  network.allow_cidr = settings.allow_cidr;
  network.allow_endpoints = settings.allow_endpoints;
  network.routes = settings.routes;
  network.resolvers = settings.resolvers;
  network.upstream_ca = settings.upstream_ca;
  network.ai = ai_of(settings);
  network.pii = pii_of(settings);
  if (settings.network_mtu) network.mtu = static_cast<uint32_t>(*settings.network_mtu);
  if (settings.network_proxy_port == proto::kDnsPort)
    throw Error(Kind::Invalid, "network.proxy_port: 53 is taken by DNS at every address");
  if (settings.network_proxy_port)
    network.proxy_port = static_cast<uint16_t>(*settings.network_proxy_port);
  if (settings.network_ask_timeout_ms) network.ask_timeout_ms = *settings.network_ask_timeout_ms;
  network.limits = limits_of(settings);
  network.timeouts = timeouts_of(settings);
  network.preset = settings.network_preset.value_or("none");
  if (network.preset == "none") network.preset.clear();
  network.preset_hosts = preset_hosts(network.preset.empty() ? "none" : network.preset, [&] {
    return package_hosts("", context.directory, context.variable,
                         [&context](const std::vector<Manager>& managers) {
                           return package_tool_urls(managers, context.variable, kToolPatience,
                                                    context.paths.data() + "/package-tools");
                         });
  });
  return network;
}

api::SandboxSpec spec_of(const Context& context, const config::Settings& settings) {
  api::SandboxSpec spec;
  spec.network = network_of(context, settings);
  check_authorities(spec.network.upstream_ca);
  spec.secrets = secrets_of(context, settings);
  spec.name = settings.name.value_or("");
  spec.image = settings.image.value_or("");
  spec.kernel = settings.kernel.value_or("");
  spec.workdir = settings.workdir.value_or("");
  spec.user = settings.user.value_or("");
  spec.profile = settings.profile.value_or(spec.profile);
  spec.audit_strict = settings.audit_sync == "strict";
  spec.hostname = settings.hostname.value_or("");
  for (const std::string& port : settings.ports)
    spec.ports.push_back(proto::parse_published_port(port).value());  // the schema has checked it
  spec.env = settings.env;
  spec.labels = settings.labels;
  if (settings.cpus) spec.cpus = static_cast<uint32_t>(*settings.cpus);
  if (settings.memory) spec.memory = *settings.memory;
  spec.huge_pages = settings.huge_pages.value_or(false);
  spec.watchdog_ms = settings.watchdog_ms.value_or(0);
  if (!settings.healthcheck.value_or(true)) spec.health.emplace();  // without a command
  if (settings.disk) spec.disk = *settings.disk;
  spec.disk_bandwidth = settings.disk_bandwidth.value_or(0);
  spec.disk_iops = settings.disk_iops.value_or(0);
  if (settings.boot_timeout_ms) spec.boot_timeout_ms = *settings.boot_timeout_ms;
  spec.ephemeral = settings.ephemeral.value_or(false);
  spec.limits.wall_clock_ms = settings.wall_clock_ms.value_or(0);
  spec.limits.pids = static_cast<uint32_t>(settings.pids.value_or(0));
  spec.limits.output = settings.output.value_or(0);
  spec.limits.ttl_ms = settings.ttl_ms.value_or(0);
  spec.limits.idle_timeout_ms = settings.idle_timeout_ms.value_or(0);
  spec.limits.retention_ms = settings.retention_ms.value_or(0);
  return spec;
}

std::string folder_name(const Context& context) {
  const std::string name = context.directory.substr(context.directory.rfind('/') + 1);
  if (const auto complaint = name_complaint(name))
    throw Error(Kind::Invalid, "the folder's name '" + printable(name, 40) +
                                   "' cannot name a sandbox (" + *complaint + "); name one");
  return name;
}

int init(Context& context, const Arguments& arguments) {
  const std::string path = context.absolute(kManifestHere);
  if (sys::exists(path) && !arguments.flag("force"))
    throw api::ApiError(Kind::Conflict, "mvm.toml is here already", "mvm init --force replaces it");
  const auto given = arguments.positional("NAME");
  const std::string name = given ? *given : folder_name(context);
  if (const auto complaint = name_complaint(name))
    throw UsageError(&arguments.command(), *complaint);
  const std::string text =
      config::starter_manifest(name, arguments.value("image").value_or("base"));
  config::read_manifest(text, kManifestHere);  // what we write, we accept
  sys::write_file_atomic(path, as_bytes(text), 0644);
  context.console.out("wrote mvm.toml; `mvm up` starts " + name + "\n");
  return kFine;
}

int config_validate(Context& context, const Arguments& arguments) {
  Checked checked = check_manifest(context, arguments);
  auto& complaints = checked.parsed.complaints;
  if (complaints.empty()) try {
      auto& settings = checked.parsed.settings;
      pii_of(settings);
      place_authorities(context, folder_of(context, checked.file), settings.upstream_ca);
      check_authorities(settings.upstream_ca);
    } catch (const Error& error) {
      complaints.push_back({0, 0, error.message()});
    }
  if (arguments.flag("json")) {
    context.console.out(json_complaints(checked.file, complaints));
  } else if (complaints.empty()) {
    context.console.out(checked.file + " is valid\n");
  } else {
    std::string text;
    for (const auto& complaint : complaints) text += complaint.text(checked.file) + '\n';
    context.console.err(text);
  }
  return complaints.empty() ? kFine : kNotWell;
}

int config_show(Context& context, const Arguments& arguments) {
  const Decided decided = decide(context, {}, {}, arguments.positional("FILE"));
  context.console.out(arguments.flag("json") ? json_settings(decided.resolved)
                                             : config::show(decided.resolved));
  return kFine;
}

}
