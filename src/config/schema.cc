// The rows. Ranges here are what a user is told at once; the daemon checks again what arrives
// there.

#include "mvm/config/schema.h"

#include <algorithm>
#include <array>

#include "mvm/proto/ports.h"

#include "schema_checks.h"

namespace mvm::config {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint64_t kMaxRate = 1'000'000;
constexpr uint64_t kYear = 366ULL * 24 * 3600 * 1000;  // milliseconds
constexpr uint64_t kMostTokens = 1'000'000'000'000;

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
    Key{"", "kernel", Type::Text, &S::kernel, "", "the image's, else the host's default kernel", 0,
        0, 1, check_kernel, "--kernel", "MVM_KERNEL",
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
    Key{"network", "inspect", Type::Text, &S::network_inspect, "needed", "", 0, 0, 1, check_inspect,
        "--network-inspect", "",
        "Whose connections are looked into. \"needed\": those that routes, secrets, `pii` or "
        "metering ask for; TLS of other hosts passes unread. \"all\": every connection that is "
        "admitted, but for `pii.bypass`; what cannot be looked into is refused."},
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
    Key{"network", "upstream_ca", Type::TextList, &S::upstream_ca, "", "", 0, 0, 1,
        check_upstream_authority, "--upstream-ca", "",
        "Certificate authorities that servers are believed by besides the host's own, where "
        "connections are inspected: \"*.corp.example=/etc/ssl/corp.pem\", or \"*=FILE\" for every "
        "host. A path in mvm.toml is relative to its folder. The first that matches counts."},
    Key{"network", "mtu", Type::Integer, &S::network_mtu, "65520", "", proto::kMinMtu,
        proto::kMaxMtu, 1, nullptr, "", "",
        "Largest packet of the sandbox's card, in bytes. Its link ends in this host, so long ones "
        "are best."},
    Key{"network", "proxy_port", Type::Integer, &S::network_proxy_port, "3128", "", 0, 65535, 1,
        nullptr, "", "",
        "Port of the sandbox's gateway (100.127.255.1, fd6d:766d::1) where programs that are told "
        "of an HTTP proxy find one. It admits what the rules admit, as every other way out. 0: "
        "there is none."},
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
    Key{"network.limits", "names_per_zone", Type::Integer, &S::network_names_per_zone, "500", "", 0,
        kMaxRate, 1, nullptr, "", "",
        "Most names below one \"*.\" of the rules that are looked up within an hour: in names that "
        "nobody else asks for, data can leave. Names that a rule spells out do not count. 0: no "
        "limit."},
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
    Key{"network.timeouts", "first_bytes", Type::Duration, &S::network_first_bytes_ms, "10s", "",
        1000, proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "How long a client may take to say something where clients speak first (ports 80, 443, "
        "8000, 8080 and 8443, and where connections are inspected)."},
    Key{"network.timeouts", "connect", Type::Duration, &S::network_connect_ms, "10s", "", 1000,
        proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "How long it may take until a server takes a connection, over all its addresses."},
    Key{"network.timeouts", "handshake", Type::Duration, &S::network_handshake_ms, "15s", "", 1000,
        proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "How long a TLS handshake may take where connections are inspected, with the client and "
        "with the server."},
    Key{"network.timeouts", "idle", Type::Duration, &S::network_idle_ms, "2h", "", 1000,
        proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "How long a connection may carry nothing, either way. It is looked at every ten seconds at "
        "most."},
    Key{"network.timeouts", "http_idle", Type::Duration, &S::network_http_idle_ms, "2h", "", 1000,
        proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "The same of a connection that is inspected: between two requests, and within one."},
    Key{"network.timeouts", "half_closed", Type::Duration, &S::network_half_closed_ms, "5m", "",
        1000, proto::kMaxTimeoutMs, 1, nullptr, "", "",
        "The same of a connection that one side has ended."},
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
    Key{"network.ai", "budgets", Type::TextList, &S::ai_budgets, "", "", 0, 0, 1, check_ai_budget,
        "--ai-budget", "",
        "Budgets besides `budget`, of one provider, or of each command's run: \"openai "
        "max_total_tokens=100000 max_cost=5.00\", \"run max_requests=50\". What a request uses "
        "counts for every run that was under way when it began."},
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
        "places, headers, prefix, plaintext, on_misuse, on_unreadable, require }, or NAME = "
        "\"env:OTHER\" for one that mvm knows the provider of."},
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
    Key{"pii", "max_value", Type::Size, &S::pii_max_value, "1M", "", proto::kMinPiiValue,
        proto::kMaxPiiValue, 1, nullptr, "", "",
        "Most bytes of one value of a request, such as a string, that are held until it is whole. "
        "A "
        "request with a longer one is refused."},
    Key{"pii", "max_growth", Type::Integer, &S::pii_max_growth, "200", "", proto::kMinPiiGrowth,
        proto::kMaxPiiGrowth, 1, nullptr, "", "",
        "By how many times a compressed body may grow when it is decoded, beyond its first 4 MiB. "
        "What grows more is refused."},
    Key{"audit", "sync", Type::Text, &S::audit_sync, "normal", "", 0, 0, 1, check_audit_sync, "",
        "MVM_AUDIT_SYNC",
        "When a record of the sandbox's audit log is on the disk (docs/audit.md). \"normal\": "
        "within a second. \"strict\": before what it tells of is done, or answered. A daemon with "
        "`--audit-sync strict` has it so for every sandbox."},
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
        "Most that the disk of the builder's Nix store holds, and as much again for its other "
        "files. The store stays from build to build, and grows to a larger disk; the host's file "
        "grows as it is written."},
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
    Key{"sandbox", "healthcheck", Type::Boolean, &S::healthcheck, "true", "", 0, 0, 1, nullptr, "",
        "",
        "Whether the image's health check (HEALTHCHECK of a Dockerfile) is run, if it names one "
        "(docs/images.md). `--no-healthcheck` switches it off."},
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

}
