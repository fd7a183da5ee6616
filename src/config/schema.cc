// The rows, and what one value must look like. Ranges here are what a user is told at once; the
// daemon checks again what arrives there.

#include "mvm/config/schema.h"

#include <algorithm>
#include <array>

#include "mvm/base/text.h"
#include "mvm/meter/compile.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/secret.h"
#include "mvm/proto/ports.h"

namespace mvm::config {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint64_t kMaxRate = 1'000'000;
constexpr uint64_t kYear = 366ULL * 24 * 3600 * 1000;  // milliseconds

using Complaint = std::optional<std::string>;

Complaint check_name(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (const auto complaint = name_complaint(value)) return "is no valid name: " + *complaint;
  return std::nullopt;
}

Complaint check_image(std::string_view, std::string_view value) {
  if (value.empty()) return "must not be empty; `mvm image ls` lists images";
  if (value.size() > 255) return "must have at most 255 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f) return "must have no blanks or control characters";
  return std::nullopt;
}

Complaint check_kernel(std::string_view, std::string_view value) {
  if (value.find('/') == value.npos) return check_name({}, value);
  if (value.front() != '/') return "must be a name or an absolute path";
  if (value.size() > 4095 || value.find('\0') != value.npos) return "is no valid path";
  return std::nullopt;
}

Complaint check_directory(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (value.front() != '/') return "must be an absolute path, such as \"/work\"";
  if (value.size() > 4095) return "must have at most 4095 characters";
  if (value.find('\0') != value.npos) return "must have no NUL character";
  return std::nullopt;
}

Complaint check_user(std::string_view, std::string_view value) {
  if (value.size() > 65) return "must have at most 65 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f || c == '/') return "must be a user name, a uid, or uid:gid";
  return std::nullopt;
}

Complaint check_hostname(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (value.size() > 63) return "must have at most 63 characters";
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (!std::all_of(value.begin(), value.end(), fine) || value.front() == '-' || value.back() == '-')
    return "must be letters, digits and inner '-'";
  return std::nullopt;
}

Complaint check_profile(std::string_view, std::string_view value) {
  if (value == "dev" || value == "sealed") return std::nullopt;
  return "must be \"dev\" or \"sealed\", not '" + printable(value, 40) + "'";
}

Complaint check_preset(std::string_view, std::string_view value) {
  for (const std::string_view known : {"none", "registries", "dev", "agent"})
    if (value == known) return std::nullopt;
  return "must be \"none\", \"registries\", \"dev\" or \"agent\", not '" + printable(value, 40) +
         "'";
}

Complaint check_flake(std::string_view, std::string_view value) {
  if (value.size() > 2048) return "must have at most 2048 characters";
  for (const char c : value)
    if ((c >= 0 && c < ' ') || c == 0x7f) return "must have no control characters";
  return std::nullopt;
}

Complaint check_flake_profile(std::string_view, std::string_view value) {
  if (value.size() > 256) return "must have at most 256 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f || c == '#') return "must be the name of a package of the flake";
  return std::nullopt;
}

Complaint check_builder_network(std::string_view, std::string_view value) {
  if (value == "nix" || value == "none") return std::nullopt;
  return "must be \"nix\" or \"none\", not '" + printable(value, 40) + "'";
}

Complaint check_mode(std::string_view, std::string_view value) {
  if (value == "enforce" || value == "audit") return std::nullopt;
  return "must be \"enforce\" or \"audit\", not '" + printable(value, 40) + "'";
}

Complaint check_allowed_host(std::string_view, std::string_view value) {
  return policy::host_complaint(value);
}
Complaint check_allowed_range(std::string_view, std::string_view value) {
  return policy::range_complaint(value);
}
Complaint check_allowed_endpoint(std::string_view, std::string_view value) {
  return policy::endpoint_complaint(value);
}
Complaint check_resolver(std::string_view, std::string_view value) {
  return policy::resolver_complaint(value);
}

Complaint check_port(std::string_view, std::string_view value) {
  return proto::published_port_complaint(value);
}

Complaint check_on_unknown(std::string_view, std::string_view value) {
  return meter::on_unknown_complaint(value);
}
Complaint check_provider(std::string_view, std::string_view value) {
  return meter::provider_complaint(value);
}
Complaint check_price(std::string_view, std::string_view value) {
  return meter::price_complaint(value);
}
Complaint check_cost(std::string_view, std::string_view value) {
  return meter::cost_complaint(value);
}

constexpr uint64_t kMostTokens = 1'000'000'000'000;

Complaint one_of(std::string_view value, std::initializer_list<std::string_view> words) {
  std::string known;
  for (const std::string_view word : words) {
    if (value == word) return std::nullopt;
    known += (known.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  }
  return "must be one of " + known + ", not '" + printable(value, 40) + "'";
}
Complaint check_pii_mode(std::string_view, std::string_view value) {
  return one_of(value, {"disabled", "detect", "tokenize", "redact", "refuse"});
}
Complaint check_pii_mismatch(std::string_view, std::string_view value) {
  return one_of(value, {"keep", "redact", "deny"});
}
Complaint check_pii_undecodable(std::string_view, std::string_view value) {
  return one_of(value, {"deny", "allow"});
}
// What it means is known where the detectors are (mvm/privacy/rules.h).
Complaint check_pii_text(std::string_view, std::string_view value) {
  if (value.empty()) return "must not be empty";
  if (value.size() > proto::kMaxPiiText)
    return "must have at most " + std::to_string(proto::kMaxPiiText) + " bytes";
  return std::nullopt;
}

using S = Settings;

constexpr std::array kKeys = {
    Key{"", "name", Type::Text, &S::name, "", "the folder's name", 0, 0, 1, check_name, "NAME",
        "MVM_NAME",
        "Name of the sandbox: 1 to 63 letters, digits, '.', '_', '-', starting with a letter or "
        "digit."},
    Key{"", "image", Type::Text, &S::image, "base", "", 0, 0, 1, check_image, "--image",
        "MVM_IMAGE", "Image whose files the sandbox starts from. `mvm image ls` lists them."},
    Key{"", "flake", Type::Text, &S::flake, "", "no flake", 0, 0, 1, check_flake, "--flake", "",
        "Flake that the image is built from, instead of `image`: \".\", \"./guest#web\", "
        "\"github:owner/repo\" (docs/build.md)."},
    Key{"", "flake_profile", Type::Text, &S::flake_profile, "", "the flake's default package", 0, 0,
        1, check_flake_profile, "", "", "Package of the flake, as #NAME behind it."},
    Key{"", "kernel", Type::Text, &S::kernel, "", "the host's default kernel", 0, 0, 1,
        check_kernel, "--kernel", "MVM_KERNEL",
        "Guest kernel: the name of an installed one, or the absolute path of a bundle or a kernel "
        "image. `mvm doctor` lists them."},
    Key{"", "cpus", Type::Integer, &S::cpus, "1", "", 1, 32, 1, nullptr, "--cpus", "MVM_CPUS",
        "Virtual CPUs."},
    Key{"", "mem", Type::Size, &S::memory, "512M", "", 64 * kMiB, 64 * kGiB, kMiB, nullptr,
        "--memory", "MVM_MEM",
        "Memory of the sandbox, in whole MiB. The host gives it as it is touched."},
    Key{"", "huge_pages", Type::Boolean, &S::huge_pages, "false", "", 0, 0, 1, nullptr,
        "--huge-pages", "",
        "Take the memory from the host's reserve of 2 MiB pages (vm.nr_hugepages), all of it at "
        "the "
        "start. None of it goes back before the sandbox ends."},
    Key{"", "disk", Type::Size, &S::disk, "8G", "", 64 * kMiB, 16 * kTiB, kMiB, nullptr,
        "--disk-size", "MVM_DISK",
        "Most that the sandbox may write over its image, in whole MiB. The host's file grows as "
        "it is "
        "written."},
    Key{"", "workdir", Type::Text, &S::workdir, "", "the image's directory", 0, 0, 1,
        check_directory, "--workdir", "", "Directory in which commands start."},
    Key{"", "user", Type::Text, &S::user, "", "the image's user", 0, 0, 1, check_user, "--user", "",
        "User that commands run as: a name, a uid, or uid:gid."},
    Key{"", "hostname", Type::Text, &S::hostname, "", "the sandbox's name", 0, 0, 1, check_hostname,
        "--hostname", "", "Host name inside the sandbox."},
    Key{"", "profile", Type::Text, &S::profile, "dev", "", 0, 0, 1, check_profile, "--profile",
        "MVM_PROFILE",
        "What the sandbox may be asked to do. \"dev\": everything. \"sealed\": it runs one "
        "command, the first it is given, and takes no other, nor reads or writes its files for "
        "anyone."},
    Key{"", "env", Type::TextTable, &S::env, "", "", 0, 0, 1, env_complaint, "--env", "",
        "Environment of every command, on top of the image's. `mvm exec --env` adds to it."},
    Key{"", "labels", Type::TextTable, &S::labels, "", "", 0, 0, 1, label_complaint, "--label", "",
        "Labels to find the sandbox by. mvm keeps and prints them, and does nothing else with "
        "them."},
    Key{"", "ports", Type::TextList, &S::ports, "", "", 0, 0, 1, check_port, "--publish", "",
        "TCP ports of this host that lead to ports of the sandbox's loopback, also without a "
        "network: "
        "\"8080:80\" is port 8080 of 127.0.0.1 here, port 80 there; \"0:80\" takes a free one. "
        "Other "
        "machines get there only by an address in front, \"192.0.2.1:8080:80\"."},
    Key{"limits", "disk_bandwidth", Type::Size, &S::disk_bandwidth, "0", "", 0, kTiB, 1, nullptr,
        "--disk-bandwidth", "",
        "Most that each disk reads and writes in a second. A second's worth may come at once. 0: "
        "no "
        "limit."},
    Key{"limits", "disk_iops", Type::Integer, &S::disk_iops, "0", "", 0, 10'000'000, 1, nullptr,
        "--disk-iops", "", "Most requests that each disk serves in a second. 0: no limit."},
    Key{"limits", "wall_clock", Type::Duration, &S::wall_clock_ms, "0s", "", 0, kYear, 1, nullptr,
        "--wall-clock", "",
        "Longest that one command may run; `mvm exec --timeout` may only ask for less. 0s: no "
        "limit."},
    Key{"limits", "pids", Type::Integer, &S::pids, "0", "", 0, 4'194'304, 1, nullptr,
        "--pids-limit", "", "Most processes and threads that one command may have. 0: no limit."},
    Key{"limits", "output", Type::Size, &S::output, "0", "", 0, kTiB, 1, nullptr, "--output-limit",
        "",
        "Most that one command may print; the rest is dropped, and the result says so. 0: no "
        "limit."},
    Key{"network", "enabled", Type::Boolean, &S::network_enabled, "true", "", 0, 0, 1, nullptr, "",
        "",
        "Whether the sandbox has a network card at all. With one, and without a rule below, "
        "nothing "
        "is reached, and programs are told so at once. `--no-network` switches it off."},
    Key{"network", "preset", Type::Text, &S::network_preset, "none", "", 0, 0, 1, check_preset,
        "--network-preset", "MVM_NETWORK_PRESET",
        "Rules to begin with (docs/network.md). \"registries\": the hosts that this host's own "
        "package managers are set up to use. \"dev\": those, and hosts of source code. \"agent\": "
        "those, and the APIs of model providers. Further rules add to it."},
    Key{"network", "mode", Type::Text, &S::network_mode, "enforce", "", 0, 0, 1, check_mode,
        "--network-mode", "",
        "\"enforce\": what no rule admits is refused. \"audit\": it is let through, and recorded "
        "as "
        "what would be refused; private and special addresses stay shut. `mvm policy suggest` "
        "writes "
        "rules from it."},
    Key{"network", "allow_hosts", Type::TextList, &S::allow_hosts, "", "", 0, 0, 1,
        check_allowed_host, "--allow-host", "",
        "Hosts that may be reached: \"example.com\", \"*.example.com\" (all below it, not itself), "
        "\"example.com:8443\". Without a port: 80 and 443."},
    Key{"network", "allow_cidr", Type::TextList, &S::allow_cidr, "", "", 0, 0, 1,
        check_allowed_range, "--allow-cidr", "",
        "Ranges of addresses that may be reached, also by names that lead there: "
        "\"10.1.0.0/16\", \"10.1.2.3:5432\", \"[fd00::/8]:443\". Private addresses need one; those "
        "of "
        "clouds' metadata and of the link stay shut."},
    Key{"network", "allow_endpoints", Type::TextList, &S::allow_endpoints, "", "", 0, 0, 1,
        check_allowed_endpoint, "--allow-endpoint", "",
        "Requests that may be made, \"GET https://example.com/v1/**\". They are judged one by one, "
        "so "
        "their connections are inspected."},
    Key{"network", "resolvers", Type::TextList, &S::resolvers, "", "", 0, 0, 1, check_resolver, "",
        "",
        "Name servers that mvm asks for the sandbox, in this order: \"9.9.9.9\", "
        "\"[2620:fe::fe]:53\". Empty: the host's (/etc/resolv.conf)."},
    Key{"network", "mtu", Type::Integer, &S::network_mtu, "65520", "", proto::kMinMtu,
        proto::kMaxMtu, 1, nullptr, "", "",
        "Largest packet of the sandbox's card, in bytes. Its link ends in this host, so long ones "
        "are best."},
    Key{"network", "ask_timeout", Type::Duration, &S::network_ask_timeout_ms, "60s", "", 1000,
        proto::kMaxAskTimeoutMs, 1, nullptr, "", "",
        "How long a connection or request that a rule leaves to a person (outcome \"ask\") waits "
        "for "
        "`mvm policy approve`; then it is refused."},
    Key{"network", "routes", Type::Routes, &S::routes, "", "", 0, 0, 1, nullptr, "", "",
        "What requests to one host may do: id, host, port or ports, rules of {id, method, path, "
        "outcome}, and `otherwise` for the rest. Routes are asked in order, before allow_hosts; an "
        "outcome is \"allow\", \"deny\" or \"ask\". A route without rules judges connections as "
        "they "
        "are."},
    Key{"network.limits", "flows", Type::Integer, &S::network_flows, "4096", "", 0, kMaxRate, 1,
        nullptr, "", "", "Most connections at a time. 0: no limit but the host's."},
    Key{"network.limits", "flows_per_second", Type::Integer, &S::network_flows_per_second, "500",
        "", 0, kMaxRate, 1, nullptr, "", "", "Most new connections in a second. 0: no limit."},
    Key{"network.limits", "queries_per_second", Type::Integer, &S::network_queries_per_second,
        "500", "", 0, kMaxRate, 1, nullptr, "", "", "Most DNS queries in a second. 0: no limit."},
    Key{"network.limits", "send_bandwidth", Type::Size, &S::network_send_bandwidth, "0", "", 0,
        kTiB, 1, nullptr, "", "",
        "Most that leaves the sandbox in a second, over all connections. A second's worth may go "
        "at "
        "once. 0: no limit."},
    Key{"network.limits", "receive_bandwidth", Type::Size, &S::network_receive_bandwidth, "0", "",
        0, kTiB, 1, nullptr, "", "", "The same of what it is sent. 0: no limit."},
    Key{"network.limits", "total", Type::Size, &S::network_total, "0", "", 0, 1024 * kTiB, 1,
        nullptr, "", "",
        "Most that it sends and is sent in all, until it is started again; then connections end, "
        "and new ones are refused. 0: no limit."},
    Key{"network.ai", "metering", Type::Boolean, &S::ai_metering, "false", "", 0, 0, 1, nullptr,
        "--ai-metering", "",
        "Count what the sandbox uses of AI providers (docs/metering.md). Connections to them are "
        "inspected then. A budget counts too."},
    Key{"network.ai", "providers", Type::TextList, &S::ai_providers, "", "", 0, 0, 1,
        check_provider, "", "",
        "Providers that are counted: \"openai\", \"anthropic\", …, or a host that speaks OpenAI's "
        "interface, \"llm.example.com:8443\". Empty: all that mvm knows."},
    Key{"network.ai", "on_unknown", Type::Text, &S::ai_on_unknown, "count", "", 0, 0, 1,
        check_on_unknown, "", "",
        "What becomes of an answer that does not say what was used. \"count\": it is counted as "
        "unknown. \"estimate\": the budget is charged the most that it can have been. \"refuse\": "
        "the next request is refused."},
    Key{"network.ai", "reserve", Type::Boolean, &S::ai_reserve, "false", "", 0, 0, 1, nullptr, "",
        "",
        "Charge requests under way with the most that they may use, so that many at once cannot "
        "overshoot a budget."},
    Key{"network.ai", "inject_stream_usage", Type::Boolean, &S::ai_inject_stream_usage, "false", "",
        0, 0, 1, nullptr, "", "",
        "Ask providers that tell a stream's usage only when asked, and take what they say out of "
        "the answer again."},
    Key{"network.ai", "prices", Type::TextList, &S::ai_prices, "", "", 0, 0, 1, check_price, "", "",
        "What models cost, in dollars a million tokens: \"gpt-4o* input=2.50 output=10 "
        "cached=1.25\". The first that fits counts."},
    Key{"network.ai.budget", "max_total_tokens", Type::Integer, &S::ai_max_total_tokens, "0", "", 0,
        kMostTokens, 1, nullptr, "--ai-token-budget", "MVM_AI_TOKEN_BUDGET",
        "Most tokens, of input and output together. The answer that crosses a limit passes, the "
        "next request is refused. 0: no limit."},
    Key{"network.ai.budget", "max_input_tokens", Type::Integer, &S::ai_max_input_tokens, "0", "", 0,
        kMostTokens, 1, nullptr, "", "",
        "Most tokens of input, cached ones included. 0: no limit."},
    Key{"network.ai.budget", "max_output_tokens", Type::Integer, &S::ai_max_output_tokens, "0", "",
        0, kMostTokens, 1, nullptr, "", "",
        "Most tokens of output, reasoning included. 0: no limit."},
    Key{"network.ai.budget", "max_requests", Type::Integer, &S::ai_max_requests, "0", "", 0,
        kMostTokens, 1, nullptr, "", "", "Most requests. 0: no limit."},
    Key{"network.ai.budget", "max_cost", Type::Text, &S::ai_max_cost, "", "no limit", 0, 0, 1,
        check_cost, "", "",
        "Most dollars, such as \"2.50\", by `prices` or by what the provider says."},
    Key{"", "secrets", Type::Secrets, &S::secrets, "", "", 0, 0, 1, nullptr, "--secret", "",
        "Secrets that the sandbox uses without having them (docs/secrets.md): the variable gets a "
        "placeholder, which becomes the value on its way to the named hosts. NAME = { from, hosts, "
        "places, headers, prefix, plaintext, on_misuse, on_unreadable }, or NAME = \"env:OTHER\" "
        "for "
        "one that mvm knows the provider of."},
    Key{"pii", "mode", Type::Text, &S::pii_mode, "disabled", "", 0, 0, 1, check_pii_mode, "--pii",
        "MVM_PII",
        "What becomes of personal data in requests (docs/pii.md). \"detect\": it passes, and is "
        "recorded. \"tokenize\": a token leaves in its place, and becomes the value again in the "
        "answer. \"redact\": it is replaced for good. \"refuse\": the request does not leave. "
        "Connections are inspected then."},
    Key{"pii", "categories", Type::TextList, &S::pii_categories, "", "", 0, 0, 1, check_pii_text,
        "", "",
        "What `mode` is about: classes (\"email\", \"card\", …), groups (\"personal\", "
        "\"financial\", \"network\", \"credentials\") and names of patterns. Empty: all."},
    Key{"pii", "rules", Type::TextList, &S::pii_rules, "", "", 0, 0, 1, check_pii_text,
        "--pii-rule", "",
        "Asked before `mode`, the first that matches decides: \"ACTION CLASSES at HOST\", such as "
        "\"allow email,phone at *.crm.example.com\" or \"deny credentials\". Actions are allow, "
        "detect, tokenize, redact, deny."},
    Key{"pii", "patterns", Type::TextList, &S::pii_patterns, "", "", 0, 0, 1, check_pii_text, "",
        "",
        "Classes of your own: a name and an expression in RE2's syntax, whose first group, if any, "
        "is the value: \"ticket TCK-[0-9]{4}\". A check may follow the name: \"member:luhn "
        "M([0-9]{8})\", or mod97."},
    Key{"pii", "bypass", Type::TextList, &S::pii_bypass, "", "", 0, 0, 1, check_pii_text,
        "--pii-bypass", "",
        "Hosts whose connections are not looked into: \"example.com\", \"*.example.com:8443\", or "
        "\"*:22\" for one port of every host."},
    Key{"pii", "on_undecodable", Type::Text, &S::pii_on_undecodable, "deny", "", 0, 0, 1,
        check_pii_undecodable, "", "",
        "What becomes of a request that cannot be looked into, such as an image or a WebSocket: "
        "\"deny\" or \"allow\"."},
    Key{"pii", "on_mismatch", Type::Text, &S::pii_on_mismatch, "keep", "", 0, 0, 1,
        check_pii_mismatch, "", "",
        "What becomes of a token in an answer that was changed, is late, or is another request's: "
        "\"keep\" it, \"redact\" it, or \"deny\" the answer."},
    Key{"pii", "token_lifetime", Type::Duration, &S::pii_token_lifetime_ms, "10m", "", 1,
        proto::kMaxPiiTimeMs, 1, nullptr, "", "", "How long a token may be put back."},
    Key{"pii", "token_window", Type::Duration, &S::pii_token_window_ms, "0s", "", 0,
        proto::kMaxPiiTimeMs, 1, nullptr, "", "",
        "Requests to one host share their tokens while they follow each other within this time, as "
        "those of a conversation do. 0s: each has tokens of its own."},
    Key{"pii", "token_once", Type::Boolean, &S::pii_token_once, "false", "", 0, 0, 1, nullptr, "",
        "", "A token is put back a single time."},
    Key{"builder", "image", Type::Text, &S::builder_image, "mvm-builder", "", 0, 0, 1, check_image,
        "", "MVM_BUILDER_IMAGE",
        "Image of the builder, in which flakes are built: it has Nix and git. There is one builder "
        "for all builds of a user."},
    Key{"builder", "cpus", Type::Integer, &S::builder_cpus, "0", "", 0, 32, 1, nullptr, "",
        "MVM_BUILDER_CPUS", "Virtual CPUs of the builder. 0: as many as the host has."},
    Key{"builder", "mem", Type::Size, &S::builder_memory, "4G", "", 128 * kMiB, 64 * kGiB, kMiB,
        nullptr, "", "MVM_BUILDER_MEM", "Memory of the builder; evaluating nixpkgs takes some."},
    Key{"builder", "disk", Type::Size, &S::builder_disk, "64G", "", 256 * kMiB, 16 * kTiB, kMiB,
        nullptr, "", "MVM_BUILDER_DISK",
        "Most that the builder's disk holds, and with it its Nix store. It stays from build to "
        "build; the host's file grows as it is written. What the builder was made with holds until "
        "`mvm builder reset`."},
    Key{"builder", "network", Type::Text, &S::builder_network, "nix", "", 0, 0, 1,
        check_builder_network, "", "MVM_BUILDER_NETWORK",
        "What the builder may reach. \"nix\": binary caches and source forges. \"none\": nothing, "
        "and Nix does not try."},
    Key{"builder", "allow_hosts", Type::TextList, &S::builder_allow_hosts, "", "", 0, 0, 1,
        check_allowed_host, "", "",
        "Further hosts that the builder may reach, as in [network]: a cache or forge of your own."},
    Key{"builder", "timeout", Type::Duration, &S::build_timeout_ms, "0s", "", 0, kYear, 1, nullptr,
        "", "", "Longest that a build may take. 0s: no limit."},
    Key{"sandbox", "ephemeral", Type::Boolean, &S::ephemeral, "false", "", 0, 0, 1, nullptr, "--rm",
        "", "Remove the sandbox, with everything it wrote, when it ends."},
    Key{"sandbox", "boot_timeout", Type::Duration, &S::boot_timeout_ms, "60s", "", 1000, 3'600'000,
        1, nullptr, "--boot-timeout", "MVM_BOOT_TIMEOUT",
        "How long the sandbox may take to answer after its start."},
    Key{"sandbox", "watchdog", Type::Duration, &S::watchdog_ms, "0s", "", 0, 86'400'000, 1, nullptr,
        "--watchdog", "",
        "The sandbox ends when nothing in it has answered for so long, as when its kernel hangs. "
        "At "
        "least 5s; be generous, a busy host makes a guest slow. 0s: never."},
    Key{"sandbox", "ttl", Type::Duration, &S::ttl_ms, "0s", "", 0, kYear, 1, nullptr, "--ttl",
        "MVM_TTL", "The sandbox ends so long after its start, whatever runs in it. 0s: never."},
    Key{"sandbox", "idle_timeout", Type::Duration, &S::idle_timeout_ms, "0s", "", 0, kYear, 1,
        nullptr, "--idle-timeout", "MVM_IDLE_TIMEOUT",
        "The sandbox ends when it was not used for so long. Use is a command, shell or copy under "
        "way, a connection to a published port, and each new one to its vsock.sock; detached "
        "commands are none. 0s: never."},
    Key{"sandbox", "retention", Type::Duration, &S::retention_ms, "0s", "", 0, kYear, 1, nullptr,
        "--retention", "",
        "An ended sandbox is removed, with everything it wrote, after so long. 0s: it is kept."},
};

constexpr std::array kSpellings = {Spelling{"limits", "disk", "", "disk"}};

constexpr std::string_view kNotYet = "this version of mvm does not support it";

constexpr std::array kLaterKeys = {
    LaterKey{"", "data_disk", kNotYet},
};

// It is not shown: it may be a value by mistake.
Complaint add_secret(std::string_view text, std::map<std::string, proto::SecretRule>& secrets) {
  const auto rule = policy::parse_secret_flag(text);
  if (!rule)
    return "must be NAME, NAME@HOST or NAME@HOST,HOST; a value belongs to `mvm secret set`";
  if (!secrets.emplace(rule->name, *rule).second)
    return "has two rules for " + rule->name + "; one of them would not hold";
  return std::nullopt;
}

std::string format_kept(const Key& key, uint64_t value) {
  if (key.type == Type::Size) return format_size(value);
  if (key.type == Type::Duration) return format_duration_ms(value);
  return std::to_string(value);
}

Complaint set_number(const Key& key, std::optional<uint64_t> Settings::* member,
                     std::string_view text, Settings& settings) {
  std::optional<uint64_t> value;
  std::string_view what = "an integer";
  if (key.type == Type::Size) {
    value = parse_size(text);
    what = "a size such as \"768M\" or \"2G\"";
  } else if (key.type == Type::Duration) {
    value = parse_duration_ms(text);
    what = "a duration such as \"30s\" or \"1m30s\"";
  } else {
    value = parse_u64(text);
  }
  if (!value) return "must be " + std::string(what) + ", not '" + printable(text, 40) + "'";
  if (*value < key.minimum || *value > key.maximum)
    return "must be from " + format_kept(key, key.minimum) + " to " +
           format_kept(key, key.maximum) + ", not " + format_kept(key, *value);
  if (*value % key.multiple != 0)
    return "must be a multiple of " + format_kept(key, key.multiple) + ", not " +
           std::to_string(*value) + " bytes";
  settings.*member = value;
  return std::nullopt;
}

Complaint set_boolean(std::optional<bool> Settings::* member, std::string_view text,
                      Settings& settings) {
  if (text != "true" && text != "false")
    return "must be true or false, not '" + printable(text, 40) + "'";
  settings.*member = text == "true";
  return std::nullopt;
}

// The shortest spelling that gives the same number back.
std::string written_size(uint64_t bytes) {
  static constexpr std::string_view kUnits = "KMGT";
  std::string unit;
  for (const char next : kUnits) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    unit = next;
  }
  return std::to_string(bytes) + unit;
}

std::string written_duration(uint64_t milliseconds) {
  if (milliseconds % 1000 != 0) return std::to_string(milliseconds) + "ms";
  return std::to_string(milliseconds / 1000) + "s";
}

}

std::string Key::path() const {
  return table.empty() ? std::string(name) : std::string(table) + "." + std::string(name);
}

std::span<const Key> keys() { return kKeys; }
std::span<const LaterKey> later_keys() { return kLaterKeys; }

std::span<const Spelling> spellings() { return kSpellings; }

const Key* find_key(std::string_view table, std::string_view name) {
  for (const Spelling& other : kSpellings)
    if (other.table == table && other.name == name)
      return find_key(other.key_table, other.key_name);
  for (const Key& key : kKeys)
    if (key.table == table && key.name == name) return &key;
  return nullptr;
}

Complaint env_complaint(std::string_view name, std::string_view value) {
  if (name.empty()) return "a variable needs a name";
  if (name.size() > 255) return "a variable's name has at most 255 characters";
  for (const char c : name)
    if (c == '=' || c <= ' ' || c == 0x7f)
      return "a variable's name has no '=', blanks or control characters";
  if (value.find('\0') != value.npos) return "a variable has no NUL character";
  if (value.size() > kMaxEnvValue)
    return "a variable has at most " + format_size(kMaxEnvValue) + ", not " +
           std::to_string(value.size()) + " bytes";
  return std::nullopt;
}

Complaint label_complaint(std::string_view name, std::string_view value) {
  if (auto complaint = name_complaint(name)) return "as a label: " + *complaint;
  if (value.size() > kMaxLabelValue)
    return "a label has at most " + std::to_string(kMaxLabelValue) + " bytes, not " +
           std::to_string(value.size());
  for (const char c : value)
    if ((c >= 0 && c < ' ') || c == 0x7f) return "a label has no control characters";
  return std::nullopt;
}

Complaint set_from_text(const Key& key, std::string_view text, Settings& settings) {
  if (const auto* number = std::get_if<std::optional<uint64_t> Settings::*>(&key.target))
    return set_number(key, *number, text, settings);
  if (const auto* flag = std::get_if<std::optional<bool> Settings::*>(&key.target))
    return set_boolean(*flag, text, settings);
  if (const auto* word = std::get_if<std::optional<std::string> Settings::*>(&key.target)) {
    if (key.check != nullptr)
      if (auto complaint = key.check(key.name, text)) return complaint;
    settings.** word = std::string(text);
    return std::nullopt;
  }
  if (const auto* list = std::get_if<std::vector<std::string> Settings::*>(&key.target)) {
    if (auto complaint = key.check(key.name, text)) return complaint;
    if ((settings.**list).size() == kMaxTableEntries)
      return "has more than " + std::to_string(kMaxTableEntries) + " entries";
    (settings.**list).emplace_back(text);
    return std::nullopt;
  }
  if (const auto* secrets =
          std::get_if<std::map<std::string, proto::SecretRule> Settings::*>(&key.target))
    return add_secret(text, settings.**secrets);
  return "is a table";
}

std::optional<std::string> written_value(const Key& key, const Settings& settings) {
  if (const auto* number = std::get_if<std::optional<uint64_t> Settings::*>(&key.target)) {
    const auto& value = settings.**number;
    if (!value) return std::nullopt;
    if (key.type == Type::Size) return '"' + written_size(*value) + '"';
    if (key.type == Type::Duration) return '"' + written_duration(*value) + '"';
    return std::to_string(*value);
  }
  if (const auto* flag = std::get_if<std::optional<bool> Settings::*>(&key.target)) {
    const auto& value = settings.**flag;
    if (!value) return std::nullopt;
    return *value ? "true" : "false";
  }
  if (const auto* word = std::get_if<std::optional<std::string> Settings::*>(&key.target)) {
    const auto& value = settings.**word;
    if (!value) return std::nullopt;
    return quoted(*value);
  }
  if (const auto* list = std::get_if<std::vector<std::string> Settings::*>(&key.target)) {
    std::string out = "[";
    for (const std::string& text : settings.**list)
      out += (out.size() > 1 ? ", " : "") + quoted(text);
    return out + "]";
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if ((c >= 0 && c < ' ') || c == 0x7f) {
      out += "\\u00" + hex(std::as_bytes(std::span(&c, 1)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}
