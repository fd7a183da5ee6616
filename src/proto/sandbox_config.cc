#include "mvm/proto/sandbox_config.h"

#include <algorithm>

#include "mvm/proto/cbor.h"
#include "mvm/proto/frame.h"

namespace mvm::proto {

static constexpr size_t kMaxText = 4096;
static constexpr size_t kMaxEnv = 4096;
static constexpr size_t kMaxEnvText = 128 * 1024;
static constexpr uint64_t kMaxWatchdogMs = uint64_t{24} * 3600 * 1000;
// A year and a day: far beyond what is of use, and far from where times overflow.
static constexpr uint64_t kMaxMilliseconds = 366ULL * 24 * 3600 * 1000;

static void encode_audit(Bytes& out, const AuditConfig& audit) {
  MapWriter map(out);
  map.unsigned_integer("file", audit.file);
  map.unsigned_integer("file_size", audit.file_size);
  map.unsigned_integer("log_size", audit.log_size);
  map.unsigned_integer("seq", audit.seq);
  map.string("prev", as_text(audit.prev));
  map.string("key", as_text(audit.key));
  map.boolean("strict", audit.strict);
  map.boolean("paths", audit.paths);
}

// Exactly as many bytes.
template <size_t Size>
static void read_bytes(CborReader& in, std::array<std::byte, Size>& into) {
  const std::string_view bytes = in.string(Size);
  if (bytes.size() != Size) return in.fail();
  std::ranges::copy(as_bytes(bytes), into.begin());
}

static AuditConfig decode_audit(CborReader& in) {
  AuditConfig audit;
  for (Fields field(in); field.next();) {
    if (field.is("file")) {
      audit.file = in.unsigned_integer();
    } else if (field.is("file_size")) {
      audit.file_size = in.unsigned_integer();
    } else if (field.is("log_size")) {
      audit.log_size = in.unsigned_integer();
    } else if (field.is("seq")) {
      audit.seq = in.unsigned_integer();
    } else if (field.is("prev")) {
      read_bytes(in, audit.prev);
    } else if (field.is("key")) {
      read_bytes(in, audit.key);
    } else if (field.is("strict")) {
      audit.strict = in.boolean();
    } else if (field.is("paths")) {
      audit.paths = in.boolean();
    } else {
      field.skip();
    }
  }
  return audit;
}

Bytes SandboxConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", id);
    map.string("name", name);
    map.string("hostname", hostname);
    map.unsigned_integer("cpus", cpus);
    map.unsigned_integer("disk_bandwidth", disk_bandwidth);
    map.unsigned_integer("disk_iops", disk_iops);
    map.unsigned_integer("watchdog_ms", watchdog_ms);
    map.string("kernel_console", kernel_console);
    map.string("kernel_arguments", kernel_arguments);
    map.unsigned_integer("boot_timeout_ms", boot_timeout_ms);
    CborWriter list = map.field("env");
    list.map(env.size());
    for (const auto& [key, value] : env) {
      list.string(key);
      list.string(value);
    }
    map.string("workdir", workdir);
    map.string("user", user);
    if (health) map.field("health").raw(health->encode());
    map.string("profile", profile_name(profile));
    map.unsigned_integer("exec_timeout_ms", exec_timeout_ms);
    map.unsigned_integer("exec_output", exec_output);
    map.unsigned_integer("exec_pids", exec_pids);
    map.unsigned_integer("stop_signal", stop_signal);
    map.unsigned_integer("ttl_ms", ttl_ms);
    map.unsigned_integer("idle_timeout_ms", idle_timeout_ms);
    map.field("audit");
    encode_audit(out, audit);
    if (network) map.field("network").raw(network->encode());
    map.string("kept_path", kept_path);
    map.boolean("secrets", secrets);
  }
  return out;
}

std::optional<SandboxConfig> SandboxConfig::decode(ByteView data) {
  SandboxConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("id")) {
      config.id = in.string(kMaxText);
    } else if (field.is("name")) {
      config.name = in.string(kMaxText);
    } else if (field.is("hostname")) {
      config.hostname = in.string(kMaxText);
    } else if (field.is("cpus")) {
      config.cpus = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("disk_bandwidth")) {
      config.disk_bandwidth = in.unsigned_integer();
    } else if (field.is("disk_iops")) {
      config.disk_iops = in.unsigned_integer();
    } else if (field.is("watchdog_ms")) {
      config.watchdog_ms = in.unsigned_integer(kMaxWatchdogMs);
    } else if (field.is("kernel_console")) {
      config.kernel_console = in.string(kMaxText);
    } else if (field.is("kernel_arguments")) {
      config.kernel_arguments = in.string(kMaxText);
    } else if (field.is("boot_timeout_ms")) {
      config.boot_timeout_ms = in.unsigned_integer();
    } else if (field.is("env")) {
      const size_t count = in.map(kMaxEnv);
      for (size_t i = 0; i < count && in; ++i) {
        const auto key = in.string(kMaxEnvText);
        config.env.emplace_back(key, in.string(kMaxEnvText));
      }
    } else if (field.is("workdir")) {
      config.workdir = in.string(kMaxText);
    } else if (field.is("user")) {
      config.user = in.string(kMaxText);
    } else if (field.is("health")) {
      config.health = HealthCheck::decode(in.skip());
      if (!config.health) in.fail();
    } else if (field.is("profile")) {
      const auto profile = profile_from_name(in.string(kMaxText));
      if (!profile) in.fail();
      config.profile = profile.value_or(Profile::Sealed);
    } else if (field.is("exec_timeout_ms")) {
      config.exec_timeout_ms = in.unsigned_integer(kMaxMilliseconds);
    } else if (field.is("exec_output")) {
      config.exec_output = in.unsigned_integer();
    } else if (field.is("exec_pids")) {
      config.exec_pids = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("stop_signal")) {
      config.stop_signal = static_cast<uint8_t>(in.unsigned_integer(kMaxSignal));
    } else if (field.is("ttl_ms")) {
      config.ttl_ms = in.unsigned_integer(kMaxMilliseconds);
    } else if (field.is("idle_timeout_ms")) {
      config.idle_timeout_ms = in.unsigned_integer(kMaxMilliseconds);
    } else if (field.is("audit")) {
      config.audit = decode_audit(in);
    } else if (field.is("network")) {
      config.network = NetworkConfig::decode(in.skip());
      if (!config.network) in.fail();
    } else if (field.is("kept_path")) {
      config.kept_path = in.string(kMaxText);
    } else if (field.is("secrets")) {
      config.secrets = in.boolean();
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || config.id.empty()) return std::nullopt;
  return config;
}

}
