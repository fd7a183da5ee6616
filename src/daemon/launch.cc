#include "launch.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/random.h"
#include "mvm/image/initramfs.h"
#include "mvm/image/overlay.h"
#include "mvm/json/json.h"
#include "mvm/meter/compile.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/secret.h"
#include "mvm/privacy/rules.h"
#include "mvm/proto/control.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "clock.h"
#include "kept_disk.h"

namespace mvm::daemon {

static constexpr size_t kMaxExitRecord = 64 * 1024;
static constexpr size_t kMaxMapBytes = 128 * 1024;
// What the encoding adds to a variable (proto/cbor.h): the lengths of name and value.
static constexpr size_t kEnvOverhead = 8;

// ---- what is asked for
// ----------------------------------------------------------------------------

[[noreturn]] static void invalid(const std::string& complaint) {
  throw Error(Kind::Invalid, complaint);
}

static uint64_t host_memory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

static void check_map(const char* key, const std::map<std::string, std::string>& map) {
  const std::string where = std::string("sandbox.") + key;
  if (map.size() > api::kMaxEnv)
    invalid(where + " has more than " + std::to_string(api::kMaxEnv) + " entries");
  size_t total = 0;
  for (const auto& [name, value] : map) {
    if (name.empty() || name.find('=') != std::string::npos || name.size() > 256)
      invalid(where + ": \"" + printable(name) + "\" cannot be a name");
    if (value.size() > api::kMaxText)
      invalid(where + "." + printable(name) + " is longer than " + format_size(api::kMaxText));
    total += name.size() + value.size();
  }
  if (total > kMaxMapBytes)
    invalid(where + " is larger than " + format_size(kMaxMapBytes) + " in all");
}

// RFC 1123 section 2.1; it also ends up on a kernel command line.
static bool is_hostname(std::string_view text) {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  for (const char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'))
      return false;
  return true;
}

// The name, with what a host name cannot hold replaced.
static std::string hostname_of(const std::string& name) {
  std::string out = name;
  for (char& c : out)
    if (c == '.' || c == '_') c = '-';
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out;
}

static void check_limits(const api::Limits& limits) {
  const auto check = [](const char* key, uint64_t value, uint64_t most, const std::string& shown) {
    if (value > most) invalid("sandbox.limits." + std::string(key) + ": must be at most " + shown);
  };
  const std::string longest = format_duration_ms(api::kMaxLimitMs);
  check("wall_clock_ms", limits.wall_clock_ms, api::kMaxLimitMs, longest);
  check("ttl_ms", limits.ttl_ms, api::kMaxLimitMs, longest);
  check("idle_timeout_ms", limits.idle_timeout_ms, api::kMaxLimitMs, longest);
  check("retention_ms", limits.retention_ms, api::kMaxLimitMs, longest);
  check("pids", limits.pids, api::kMaxPids, std::to_string(api::kMaxPids));
  check("output", limits.output, api::kMaxOutput, format_size(api::kMaxOutput));
}

// The image's variables, and over them the sandbox's own.
static std::map<std::string, std::string> environment_of(const api::SandboxSpec& spec,
                                                         const store::Image& image) {
  std::map<std::string, std::string> env;
  for (const std::string& entry : image.manifest.config.env) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals != 0)
      env[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : spec.env) env[name] = value;
  return env;
}

static void check_network(const proto::NetworkConfig& network) {
  if (network.mtu < proto::kMinMtu || network.mtu > proto::kMaxMtu)
    invalid("sandbox.network.mtu: must be " + std::to_string(proto::kMinMtu) + " to " +
            std::to_string(proto::kMaxMtu));
  if (network.proxy_port == proto::kDnsPort)
    invalid("sandbox.network.proxy_port: 53 is taken by DNS at every address");
  if (network.ask_timeout_ms == 0 || network.ask_timeout_ms > proto::kMaxAskTimeoutMs)
    invalid("sandbox.network.ask_timeout_ms: must be 1 to " +
            std::to_string(proto::kMaxAskTimeoutMs));
  if (!proto::are_timeouts(network.timeouts))
    invalid("sandbox.network.timeouts: each must be " + std::to_string(proto::kMinTimeoutMs) +
            " to " + std::to_string(proto::kMaxTimeoutMs) + " ms");
  if (!network.enabled && network.has_rules())
    invalid("sandbox.network: it is switched off and has rules; one of the two is a slip");
  try {
    policy::compile(network);
    meter::compile(network.ai);
    privacy::compile(network.pii);
  } catch (Error& error) {
    error.add_context("sandbox.network");
    throw;
  }
  const auto encoded = network.encode();
  if (encoded.size() > proto::kMaxNetworkConfig || !proto::NetworkConfig::decode(encoded))
    invalid("sandbox.network: its rules are more than " + std::to_string(proto::kMaxNetworkRules) +
            " of a kind, or larger than " + format_size(proto::kMaxNetworkConfig) + " in all");
}

static void check_secrets(const api::SandboxSpec& spec) {
  try {
    policy::compile_secrets(spec.secrets);
  } catch (Error& error) {
    error.add_context("sandbox");
    throw;
  }
  for (const proto::SecretRule& rule : spec.secrets)
    if (spec.env.contains(rule.name))
      invalid("sandbox.secrets." + rule.name +
              ": sandbox.env has this variable too; one of the two would not hold");
  if (proto::encoded_size(spec.secrets) > proto::kMaxSecretRules ||
      !proto::SecretsConfig::decode(proto::SecretsConfig{spec.secrets, {}}.encode()))
    invalid("sandbox.secrets: the rules are larger than " + format_size(proto::kMaxSecretRules) +
            " in all, or one word of them is too long");
}

void check_secret_values(const std::vector<proto::SecretRule>& rules,
                         const proto::SecretValues& values) {
  size_t total = 0;
  for (const policy::SecretBinding& binding : policy::compile_secrets(rules)) {
    const std::string where = "secret_values." + binding.name + ": ";
    const auto value = values.find(binding.name);
    if (value == values.end())
      invalid(where + "it is missing; `mvm up` and `mvm run` look it up and send it");
    if (const auto complaint = policy::secret_value_complaint(binding, value->second))
      invalid(where + *complaint);
    total += value->second.size();
  }
  if (values.size() != rules.size())
    invalid("secret_values: there are " + std::to_string(values.size()) + " for " +
            std::to_string(rules.size()) + " secrets");
  if (total > proto::kMaxSecretValues)
    invalid("secret_values: they are larger than " + format_size(proto::kMaxSecretValues) +
            " in all");
}

// Every command takes all of it along, so what is too much for one is too much for the sandbox.
static void check_environment(const std::map<std::string, std::string>& env) {
  size_t size = 0;
  for (const auto& [name, value] : env) size += name.size() + value.size() + kEnvOverhead;
  if (size > proto::kMaxEnvironmentBytes || env.size() > proto::kMaxEnvironment)
    invalid("sandbox.env: with the image's, the environment has " + std::to_string(env.size()) +
            " variables of " + format_size(size) + "; at most " +
            std::to_string(proto::kMaxEnvironment) + " of " +
            format_size(proto::kMaxEnvironmentBytes) +
            " go with every command (put large values into a file)");
}

static void check_ports(const std::vector<proto::PublishedPort>& ports) {
  if (ports.size() > proto::kMaxPublishedPorts)
    invalid("sandbox.ports: at most " + std::to_string(proto::kMaxPublishedPorts));
  for (auto port = ports.begin(); port != ports.end(); ++port) {
    if (port->guest == 0) invalid("sandbox.ports: a port of the sandbox is 1 to 65535");
    if (port->host != 0 && std::any_of(ports.begin(), port, [&](const auto& earlier) {
          return earlier.address == port->address && earlier.host == port->host;
        }))
      invalid("sandbox.ports: " + port->place() + " is there twice");
  }
}

// The image's check of its health, unless another was asked for. A sealed sandbox runs one command
// and no other, so its image's is left out.
static void complete_health(api::SandboxSpec& spec, const store::Image& image) {
  const bool sealed = proto::profile_from_name(spec.profile) != proto::Profile::Dev;
  if (!spec.health) {
    if (!sealed) spec.health = image.manifest.config.health;
    return;
  }
  if (const auto why = spec.health->complaint()) invalid("sandbox.health: " + *why);
  if (sealed && !spec.health->command.empty())
    invalid("sandbox.health: with the profile sealed no check can be run");
}

void complete_spec(api::SandboxSpec& spec, const store::Image& image) {
  if (const auto complaint = name_complaint(spec.name)) invalid("sandbox.name: " + *complaint);
  // More than the host has is slower, not wrong: virtual CPUs are threads.
  if (spec.cpus < 1 || spec.cpus > api::kMaxCpus)
    invalid("sandbox.cpus: must be 1 to " + std::to_string(api::kMaxCpus));
  constexpr uint64_t kPage = 4096;
  const uint64_t most_memory = std::min(api::kMaxMemory, host_memory());
  if (spec.memory < api::kMinMemory || spec.memory > most_memory)
    invalid("sandbox.memory: must be " + format_size(api::kMinMemory) + " to " +
            format_size(most_memory) + " on this host");
  spec.memory -= spec.memory % kPage;
  if (spec.huge_pages && spec.memory % api::kHugePage != 0)
    invalid("sandbox.memory: with huge_pages it must be a multiple of " +
            format_size(api::kHugePage));
  if (spec.watchdog_ms != 0 &&
      (spec.watchdog_ms < api::kMinWatchdogMs || spec.watchdog_ms > api::kMaxWatchdogMs))
    invalid("sandbox.watchdog_ms: must be 0 or " + std::to_string(api::kMinWatchdogMs) + " to " +
            std::to_string(api::kMaxWatchdogMs));
  const uint64_t most_disk = std::min(api::kMaxDisk, image::kMaxOverlay);
  if (spec.disk < api::kMinDisk || spec.disk > most_disk)
    invalid("sandbox.disk: must be " + format_size(api::kMinDisk) + " to " +
            format_size(most_disk));
  // What the limits count in has to fit the clock they are kept by (virtio/rate_limit.h).
  constexpr uint64_t kMostBandwidth = uint64_t{1} << 40;
  constexpr uint64_t kMostIops = 10'000'000;
  if (spec.disk_bandwidth > kMostBandwidth)
    invalid("sandbox.disk_bandwidth: must be 0 to " + format_size(kMostBandwidth));
  if (spec.disk_iops > kMostIops)
    invalid("sandbox.disk_iops: must be 0 to " + std::to_string(kMostIops));
  if (spec.kept_disk) check_kept_disk(*spec.kept_disk, most_disk);
  if (spec.boot_timeout_ms == 0 || spec.boot_timeout_ms > api::kMaxBootTimeoutMs)
    invalid("sandbox.boot_timeout_ms: must be 1 to " + std::to_string(api::kMaxBootTimeoutMs));
  check_limits(spec.limits);
  check_network(spec.network);
  check_ports(spec.ports);
  check_map("env", spec.env);
  check_secrets(spec);
  auto environment = environment_of(spec, image);
  constexpr size_t kPlaceholder = 72;  // bytes, at the most
  for (const proto::SecretRule& rule : spec.secrets)
    environment[rule.name] = std::string(kPlaceholder, '-');
  check_environment(environment);
  check_map("labels", spec.labels);
  if (spec.hostname.empty()) spec.hostname = hostname_of(spec.name);
  if (!is_hostname(spec.hostname)) invalid("sandbox.hostname: is not a host name");
  if (!proto::profile_from_name(spec.profile)) invalid("sandbox.profile: must be dev or sealed");
  complete_health(spec, image);
  if (spec.workdir.empty()) spec.workdir = image.manifest.config.workdir;
  if (!spec.workdir.empty() && (spec.workdir.front() != '/' || spec.workdir.size() > 4095))
    invalid("sandbox.workdir: must be an absolute path");
  if (spec.user.empty()) spec.user = image.manifest.config.user;
  if (spec.user.size() > 255) invalid("sandbox.user: is too long");
}

std::string new_sandbox_id() { return crypto::random_id("sb-"); }

std::string random_name() {
  static constexpr std::array<std::string_view, 32> kAdjectives{
      "amber",  "brave", "brisk", "calm",   "clever", "copper", "crisp", "eager",
      "early",  "fair",  "fleet", "gentle", "glad",   "golden", "jolly", "keen",
      "lively", "lucky", "merry", "mighty", "nimble", "noble",  "plain", "proud",
      "quick",  "quiet", "sharp", "silver", "steady", "sunny",  "swift", "witty"};
  static constexpr std::array<std::string_view, 32> kNouns{
      "badger", "beaver", "bison",  "crane",  "curlew", "dipper", "egret",   "falcon",
      "ferret", "finch",  "gannet", "hare",   "heron",  "ibex",   "jackdaw", "kestrel",
      "lark",   "lynx",   "marten", "merlin", "newt",   "osprey", "otter",   "plover",
      "puffin", "raven",  "robin",  "stoat",  "swift",  "tern",   "weasel",  "wren"};
  std::array<std::byte, 4> random{};
  crypto::random_bytes(random);
  const auto pick = [&](size_t at) { return std::to_integer<size_t>(random[at]); };
  return std::string(kAdjectives[pick(0) % kAdjectives.size()]) + "-" +
         std::string(kNouns[pick(1) % kNouns.size()]) + "-" +
         std::to_string((pick(2) << 8 | pick(3)) % 1000);
}

// ---- start
// ----------------------------------------------------------------------------------------

void HeldSandbox::release() {
  ScopeExit forget([this] {
    crypto::wipe(config_);
    crypto::wipe(secrets_);
  });
  if (base_) process_.send(base_->machine.encode(), base_->fds);
  process_.send(config_, fds_);
  if (!secrets_.empty()) process_.send(secrets_);
  base_.reset();
  fds_.clear();
}

static proto::SandboxConfig config_of(const Record& record, const store::Image& image,
                                      const image::KernelBundle& kernel) {
  const api::SandboxSpec& spec = record.spec;
  proto::SandboxConfig config;
  config.id = record.id;
  config.name = spec.name;
  config.hostname = spec.hostname;
  config.cpus = spec.cpus;
  config.disk_bandwidth = spec.disk_bandwidth;
  config.disk_iops = spec.disk_iops;
  config.watchdog_ms = spec.watchdog_ms;
  // A kernel that loads modules has its virtio console among them, too late for early output.
  config.kernel_console = kernel.modules.empty() ? "hvc0" : "ttyS0";
  config.boot_timeout_ms = spec.boot_timeout_ms;
  config.workdir = spec.workdir;
  config.user = spec.user;
  if (spec.health && !spec.health->command.empty()) config.health = spec.health;
  if (const auto signal = sys::signal_number(image.manifest.config.stop_signal))
    config.stop_signal = static_cast<uint8_t>(*signal);
  // A word we do not know, from a record of another version, allows least.
  config.profile = proto::profile_from_name(spec.profile).value_or(proto::Profile::Sealed);
  config.exec_timeout_ms = spec.limits.wall_clock_ms;
  config.exec_output = spec.limits.output;
  config.exec_pids = spec.limits.pids;
  config.ttl_ms = spec.limits.ttl_ms;
  config.idle_timeout_ms = spec.limits.idle_timeout_ms;
  if (spec.network.enabled) config.network = spec.network;
  if (spec.kept_disk) config.kept_path = spec.kept_disk->path;
  const auto env = environment_of(spec, image);
  config.env.assign(env.begin(), env.end());
  return config;
}

static proto::AuditConfig audit_of(const audit::Session& session, const AuditSettings& settings,
                                   const api::SandboxSpec& spec) {
  proto::AuditConfig config;
  config.strict = settings.strict || spec.audit_strict;
  config.paths = settings.paths;
  config.file = session.number;
  config.file_size = session.file_size;
  config.log_size = session.size;
  config.seq = session.next.seq;
  config.prev = session.next.prev;
  config.key = session.key.seed();
  return config;
}

// The sandbox process gets no more of our environment than it needs to log.
static std::vector<std::string> child_environment() {
  std::vector<std::string> env;
  for (const char* name : {"PATH", "MVM_LOG"})
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + "=" + value);
  return env;
}

// For both processes of a sandbox, far above what they need: it is the host that is kept safe, from
// a process that is no longer ours.
static jail::CgroupLimits cgroup_limits(const api::SandboxSpec& spec) {
  constexpr uint64_t kThreads = 128;                 // loop, disks, I/O workers of the kernel
  constexpr uint64_t kMemory = uint64_t{512} << 20;  // page cache of the disk; our own is 10 MiB
  constexpr uint64_t kWeight = 100;                  // the kernel's default is one CPU's share here
  constexpr uint64_t kMaxWeight = 10'000;
  return {.processes = kThreads + spec.cpus,
          .memory = spec.memory + kMemory,
          .cpu_weight = std::min(kWeight * spec.cpus, kMaxWeight)};
}

sys::Fd monitor_program(const DaemonOptions& options) {
  if (!options.monitor.empty()) try {
      return sys::memory_program("mvm-monitor", options.monitor);
    } catch (const SystemError& error) {
      options.log.warning("monitors share no program", {{"error", error.what()}});
    }
  return sys::open_file(options.sandbox_executable, O_RDONLY);
}

SandboxProcess::SandboxProcess(const Launch& launch, const std::string& id,
                               const api::SandboxSpec& spec) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::SeqPacket);
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDWR);
  sys::SpawnOptions options;
  options.argv = {launch.executable, "sandbox",
                  std::string(jail::isolation_name(launch.isolation))};
  options.env = child_environment();
  options.fds = {
      {nothing.get(), 0}, {nothing.get(), 1}, {STDERR_FILENO, 2}, {theirs.get(), proto::kConfigFd}};
  options.new_session = true;  // it outlives us
  options.directory = "/";
  // It makes connections for nobody but the guest's vsock, and its egress proxy needs the host's
  // network: that one is shared.
  jail::set_apart(options, launch.isolation, jail::Network::Shared);
  const sys::Fd group = launch.cgroups.make(id, cgroup_limits(spec));
  options.cgroup = group.get();
  child_ = sys::spawn(options);
  channel_ = std::move(ours);
}

SandboxProcess& SandboxProcess::operator=(SandboxProcess&& other) noexcept {
  end();
  child_ = std::move(other.child_);
  channel_ = std::move(other.channel_);
  return *this;
}

SandboxProcess::~SandboxProcess() { end(); }

void SandboxProcess::end() noexcept {
  if (!child_) return;
  child_.signal(SIGKILL);
  child_.wait();
}

void SandboxProcess::send(ByteView message, std::span<const sys::Fd> fds) const {
  std::vector<int> passed;
  for (const sys::Fd& fd : fds) passed.push_back(fd.get());
  sys::send_message(channel_.get(), message, passed);
}

Base::Base(const Launch& launch, const api::SandboxSpec& spec, const image::KernelBundle& kernel)
    : machine{.memory = spec.memory, .huge_pages = spec.huge_pages, .spare = false} {
  const std::string initramfs = image::ensure_initramfs(launch.paths, launch.agent, kernel);
  fds.push_back(launch.monitor.duplicate());
  fds.push_back(sys::open_file(kernel.image, O_RDONLY));
  fds.push_back(sys::open_own_file(initramfs, O_RDONLY));
  MVM_ASSERT(fds.size() == static_cast<size_t>(proto::BaseFd::Count));
  for (const sys::Fd& fd : fds) stamps.push_back(sys::stamp_of(fd.get()));
}

bool Base::same_as(const Base& other) const {
  return machine.memory == other.machine.memory && machine.huge_pages == other.machine.huge_pages &&
         stamps == other.stamps;
}

static std::string mounts_of_host() {
  constexpr size_t kMaxMounts = size_t{4} << 20;
  return sys::read_text_file("/proc/self/mountinfo", kMaxMounts);
}

Spare::Spare(const Launch& launch, std::string sandbox_id, const api::SandboxSpec& like,
             const image::KernelBundle& kernel)
    : id(std::move(sandbox_id)),
      base(launch, like, kernel),
      mounts(mounts_of_host()),
      process(launch, id, like) {
  base.machine.spare = true;
  process.send(base.machine.encode(), base.fds);
}

bool Spare::fits(const Base& wanted) const try {
  pollfd ended{process.child().pidfd(), POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0 && base.same_as(wanted) && mounts == mounts_of_host();
} catch (const Error&) {
  return false;  // what is mounted cannot be told; without a spare it starts as well
}

HeldSandbox hold_sandbox(const Launch& launch, const Record& record,
                         const proto::SecretValues& values, const store::Image& image,
                         const image::KernelBundle& kernel, std::unique_ptr<Spare> spare) {
  const store::Paths& paths = launch.paths;
  const std::string& id = record.id;
  const std::string& name = record.name();
  Base base(launch, record.spec, kernel);
  paths.make_sandbox_data(id);
  sys::remove_file(paths.exit_file(id));
  if (!sys::exists(paths.overlay_image(id))) {
    const std::string unfinished = paths.overlay_image(id) + ".new";
    sys::remove_file(unfinished);
    image::create_overlay(paths, record.spec.disk, unfinished);
    sys::rename_file(unfinished, paths.overlay_image(id));
  }
  paths.make_sandbox_runtime(name);

  HeldSandbox held;
  const auto open = [&](const std::string& path, int flags) {
    held.fds_.push_back(sys::open_own_file(path, flags));
  };
  const auto open_directory = [&](const std::string& path) {
    held.fds_.push_back(sys::open_file(path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  };
  held.fds_.push_back(sys::listen_unix(paths.control_socket(name)));
  held.fds_.push_back(sys::listen_unix(paths.vsock_socket(name)));
  open_directory(paths.sandbox_runtime(name));
  open_directory(paths.sandbox_data(id));
  open(paths.console_log(id), O_RDWR | O_CREAT);
  held.fds_.push_back(store::open_root(image));
  open(paths.overlay_image(id), O_RDWR);
  audit::Session audit = launch.audit.open(id);
  proto::SandboxConfig config = config_of(record, image, kernel);
  config.audit = audit_of(audit, launch.audit.settings(), record.spec);
  if (!record.spec.secrets.empty()) {
    config.secrets = true;
    proto::SecretsConfig secrets{record.spec.secrets, values};
    const ScopeExit forget([&] { proto::wipe(secrets.values); });
    held.secrets_ = secrets.encode();
    MVM_ASSERT(held.secrets_.size() <= proto::kMaxSecretsMessage);  // its parts are bounded
  }
  held.fds_.push_back(std::move(audit.directory));
  held.fds_.push_back(std::move(audit.file));
  if (record.spec.kept_disk) held.fds_.push_back(open_kept_disk(paths, *record.spec.kept_disk));
  MVM_ASSERT(held.fds_.size() ==
             static_cast<size_t>(proto::SandboxFd::Count) - (record.spec.kept_disk ? 0 : 1));
  held.config_ = config.encode();
  crypto::wipe(config.audit.key);
  MVM_ASSERT(held.config_.size() <= proto::kMaxConfigMessage);  // its parts are bounded

  if (spare && spare->fits(base)) {
    launch.cgroups.make(id, cgroup_limits(record.spec));  // those of what it was made like
    held.process_ = std::move(spare->process);
  } else {
    spare.reset();  // its cgroup is the sandbox's
    held.process_ = SandboxProcess(launch, id, record.spec);
    held.base_ = std::move(base);
  }
  return held;
}

// ---- end
// ------------------------------------------------------------------------------------------

std::optional<ExitRecord> read_exit_record(const std::string& path) {
  if (!sys::exists(path)) return std::nullopt;
  ExitRecord record{{proto::EndReason::HostFault, "the record of its end is damaged"},
                    rfc3339_now()};
  std::string text;
  try {
    text = sys::read_own_text_file(path, kMaxExitRecord);
  } catch (const Error&) {
    return record;  // not a file of ours, or far too large: whoever put it there, it ended
  }
  const auto json = json::parse_object(text);
  if (!json) return record;
  const auto reason = json->find("reason");
  const auto detail = json->find("detail");
  const auto ended = json->find("ended_at_unix_ms");
  if (reason == json->end() || !reason->is_string()) return record;
  const auto known = proto::end_reason_from_name(reason->get<std::string>());
  if (!known) return record;
  record.end = {*known, ""};
  if (detail != json->end() && detail->is_string()) record.end.detail = detail->get<std::string>();
  // Up to the year 9999, so that it stays a date.
  if (ended != json->end() && ended->is_number_unsigned() &&
      ended->get<uint64_t>() < 253'402'300'800'000)
    record.ended_at = rfc3339(
        std::chrono::system_clock::time_point(std::chrono::milliseconds(ended->get<int64_t>())));
  return record;
}
}
