#pragma once
// Flags that several commands share, for the table of commands.cc.

#include <array>
#include <string_view>

#include "mvm/cli/command.h"

namespace mvm::cli {

template <size_t... Sizes>
constexpr auto joined(const std::array<Option, Sizes>&... parts) {
  std::array<Option, (Sizes + ...)> out{};
  size_t at = 0;
  const auto append = [&](const auto& part) {
    for (const Option& option : part) out.at(at++) = option;
  };
  (append(parts), ...);
  return out;
}

inline constexpr Option kJson{0, "json", "", "", "Print one JSON document instead of text."};
inline constexpr Option kName{
    0,     "name",          "", "NAME", "The sandbox, instead of the argument NAME.", false,
    false, Offer::Sandboxes};
inline constexpr Option kQuiet{'q', "quiet", "", "", "Print no progress and no closing line."};
inline constexpr Option kManifest{
    'f', "file", "", "FILE", "Read this manifest, not ./mvm.toml.", false, false, Offer::Files};

inline constexpr std::array kMachine = {
    Option{0, "image", "", "IMAGE", "Image to start from. Default: base.", false, false,
           Offer::Images},
    Option{0, "kernel", "", "KERNEL",
           "Guest kernel: a name or an absolute path. Default: the host's."},
    Option{0, "cpus", "", "N", "Virtual CPUs, 1 to 32. Default: 1."},
    Option{'m', "memory", "mem", "SIZE", "Memory, such as 768M or 2G. Default: 512M."},
    Option{0, "huge-pages", "", "", "Memory from the host's reserve of 2 MiB pages."},
    Option{0, "watchdog", "", "DURATION",
           "End it when it has not answered for so long. Default: never."},
    Option{0, "no-healthcheck", "", "", "Do not run the image's health check."},
    Option{0, "disk-size", "", "SIZE", "Most it may write over its image. Default: 8G."},
    Option{0, "disk-bandwidth", "", "SIZE",
           "Most that a disk reads and writes in a second. Default: no limit."},
    Option{0, "disk-iops", "", "N",
           "Most requests that a disk serves in a second. Default: no limit."},
    Option{0, "hostname", "", "NAME", "Host name inside. Default: the sandbox's name."},
    Option{0, "profile", "", "PROFILE",
           "What it may be asked to do: dev, or sealed (one command, no file access). "
           "Default: dev."},
    Option{0, "label", "", "KEY=VALUE", "Label to find it by. May be given many times.", true},
    Option{0, "boot-timeout", "", "DURATION", "How long the start may take. Default: 60s."},
    Option{0, "ttl", "", "DURATION", "End the sandbox so long after its start. Default: never."},
};

inline constexpr std::array kLife = {
    Option{0, "idle-timeout", "", "DURATION",
           "End the sandbox when it was not used for so long. Default: never."},
    Option{0, "retention", "", "DURATION", "Remove it so long after its end. Default: it is kept."},
    Option{0, "wall-clock", "", "DURATION", "Longest that one command may run. Default: no limit."},
    Option{0, "pids-limit", "", "N",
           "Most processes and threads of one command. Default: no limit."},
    Option{0, "output-limit", "", "SIZE", "Most that one command may print. Default: no limit."},
};

inline constexpr std::array kNetwork = {
    Option{0, "no-network", "", "", "No network card at all."},
    Option{0, "network-preset", "", "PRESET",
           "Rules to begin with: none, registries, dev or agent. Default: none."},
    Option{0, "network-mode", "", "MODE",
           "What becomes of what no rule admits: enforce refuses it, audit lets it through and "
           "records it. Default: enforce."},
    Option{0, "network-inspect", "", "WHAT",
           "Whose connections are looked into: needed, where rules, secrets, personal data or "
           "metering ask for it; all. Default: needed."},
    Option{0, "allow-host", "network-allow", "HOST",
           "Let it reach a host: example.com, *.example.com or example.com:8443. May be given many "
           "times.",
           true},
    Option{0, "allow-cidr", "", "RANGE",
           "Let it reach a range of addresses, private ones too: 10.1.0.0/16 or 10.1.2.3:5432. May "
           "be given many times.",
           true},
    Option{0, "allow-endpoint", "", "ENDPOINT",
           "Let it make one kind of request: \"GET https://example.com/v1/**\". May be given many "
           "times.",
           true},
    Option{
        0, "upstream-ca", "", "HOST=FILE",
        "Believe servers of this host by the authorities in this file too, where connections are "
        "inspected: *.corp.example=corp.pem. May be given many times.",
        true},
    Option{0, "ai-metering", "", "", "Count what it uses of AI providers."},
    Option{0, "ai-token-budget", "", "N",
           "Most tokens it may use of AI providers; then requests are refused. Default: no limit."},
    Option{0, "ai-budget", "", "BUDGET",
           "A budget of one provider, \"openai max_total_tokens=100000 max_cost=5\", or of each "
           "command, \"run max_requests=50\". May be given many times.",
           true},
    Option{0, "pii", "", "MODE",
           "What becomes of personal data in requests: disabled, detect, tokenize, redact or "
           "refuse. Default: disabled."},
    Option{0, "pii-rule", "", "RULE",
           "For some of it: \"allow email,phone at *.example.com\", \"deny credentials\". May be "
           "given "
           "many times.",
           true},
    Option{
        0, "pii-bypass", "", "HOST",
        "Do not look into its connections: example.com, *.example.com:8443 or *:22. May be given "
        "many times.",
        true},
};

inline constexpr Option kPublish{
    'p',
    "publish",
    "port",
    "[ADDRESS:]HOST:GUEST",
    "Lead a TCP port of this host to one of the sandbox, as `mvm port` does. May be given many "
    "times.",
    true};
inline constexpr std::array kSecrets = {
    Option{0, "secret", "", "NAME[@HOST,...]",
           "Let it use a secret without having it: NAME gets a placeholder that becomes the value "
           "on its way to the host. May be given many times (docs/secrets.md).",
           true},
};

inline constexpr std::array kPlace = {
    Option{'e', "env", "", "NAME[=VALUE]",
           "Environment variable; without a value, the one of the same name here.", true},
    Option{0, "env-file", "", "FILE", "Environment variables, one NAME=VALUE a line.", true, false,
           Offer::Files},
    Option{'w', "workdir", "", "DIR", "Directory to start in."},
    Option{'u', "user", "", "USER", "User to run as: a name, a uid, or uid:gid."},
};

inline constexpr std::array kStreams = {
    Option{'i', "interactive", "", "",
           "Connect standard input. Without it the command reads nothing."},
    Option{'t', "tty", "", "", "Give the command a terminal."},
    Option{0, "timeout", "", "DURATION",
           "Stop the command and all it started after this time, such as 30s; exit code 124."},
    Option{0, "max-output", "", "SIZE",
           "Drop output beyond this. Default: no limit; with --json 1M for each stream."},
    Option{0, "redact", "", "", "Replace personal data and keys in the output by [redacted]."},
};

inline constexpr std::array kLimits = {
    Option{0, "rlimit", "ulimit", "NAME=SOFT[:HARD]",
           "Resource limit as setrlimit(2) has it, such as nofile=1024:2048, core=0 or "
           "stack=16M; 'unlimited' for none. May be given many times.",
           true},
    Option{0, "memory-limit", "", "SIZE",
           "Memory for the command and all it starts; beyond it the kernel ends it."},
    Option{0, "pids-limit", "", "N", "Processes and threads of the command, itself included."},
    Option{0, "cpu-limit", "", "CPUS", "Processor time of the command, such as 0.5 or 2."},
    Option{0, "group-add", "", "GROUP",
           "Supplementary group, a name or a gid. May be given many times.", true},
};

}
