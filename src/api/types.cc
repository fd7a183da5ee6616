#include "mvm/api/types.h"

#include <array>

#include "ai_json.h"
#include "json.h"

namespace mvm::api {

static constexpr std::array<std::string_view, 7> kStateNames{
    "queued", "starting", "running", "stopping", "stopped", "failed", "crashed"};

std::string_view state_name(SandboxState state) {
  return kStateNames.at(static_cast<size_t>(state));
}

std::optional<SandboxState> state_from_name(std::string_view name) {
  for (size_t at = 0; at < kStateNames.size(); ++at)
    if (kStateNames[at] == name) return static_cast<SandboxState>(at);
  return std::nullopt;
}

bool is_live(SandboxState state) {
  return state == SandboxState::Queued || state == SandboxState::Starting ||
         state == SandboxState::Running || state == SandboxState::Stopping;
}

SandboxState state_after(proto::EndReason reason) {
  using proto::EndReason;
  switch (reason) {
    case EndReason::Panic:
    case EndReason::Crashed:
    case EndReason::OutOfMemory:
      return SandboxState::Crashed;
    case EndReason::StartFailed:
    case EndReason::HostFault:
      return SandboxState::Failed;
    case EndReason::Stopped:
    case EndReason::Exited:
    case EndReason::Rebooted:
    case EndReason::Killed:
    case EndReason::TimeLimit:
    case EndReason::IdleTimeout:
      return SandboxState::Stopped;
  }
  return SandboxState::Failed;
}

unsigned http_status(Kind kind) {
  switch (kind) {
    case Kind::Invalid:
      return 400;
    case Kind::Denied:
      return 403;
    case Kind::NotFound:
      return 404;
    case Kind::Conflict:
      return 409;
    case Kind::Exhausted:
      return 507;
    case Kind::Unavailable:
      return 503;
    case Kind::Timeout:
      return 504;
    case Kind::Unsupported:
      return 501;
    case Kind::Internal:
      return 500;
  }
  return 500;
}

// ---- fields
// ---------------------------------------------------------------------------------------

namespace {

struct Pids {
  int64_t sandbox = 0;
  int64_t monitor = 0;
};

struct ErrorBody {
  std::string kind;
  std::string message;
  std::string hint;
};
struct ErrorDocument {
  ErrorBody error;
};

struct EventDocument {
  std::optional<ImportProgress> progress;
  std::optional<Image> image;
  std::optional<ErrorBody> error;
};

}

template <typename Io, typename T>
void describe(Io& io, T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, SandboxSpec>) {
    io("name", value.name);
    io.required("image", value.image);
    io("kernel", value.kernel);
    io("cpus", value.cpus);
    io("memory", value.memory);
    io("disk", value.disk);
    io("kept_disk", value.kept_disk);
    io("disk_bandwidth", value.disk_bandwidth);
    io("disk_iops", value.disk_iops);
    io("huge_pages", value.huge_pages);
    io("watchdog_ms", value.watchdog_ms);
    io("env", value.env);
    io("workdir", value.workdir);
    io("user", value.user);
    io("hostname", value.hostname);
    io("profile", value.profile);
    io("audit_strict", value.audit_strict);
    io("labels", value.labels);
    io("ephemeral", value.ephemeral);
    io("wait", value.wait);
    io("boot_timeout_ms", value.boot_timeout_ms);
    io("limits", value.limits);
    io("network", value.network);
    io("ports", value.ports);
    io("health", value.health);
    io("secrets", value.secrets);
    io.unless_empty("secret_values", value.secret_values);
  } else if constexpr (std::is_same_v<Plain, KeptDisk>) {
    io.required("name", value.name);
    io.required("path", value.path);
    io.required("size", value.size);
  } else if constexpr (std::is_same_v<Plain, proto::HealthCheck>) {
    io.required("command", value.command);
    io("interval_ms", value.interval_ms);
    io("timeout_ms", value.timeout_ms);
    io("start_period_ms", value.start_period_ms);
    io("start_interval_ms", value.start_interval_ms);
    io("retries", value.retries);
  } else if constexpr (std::is_same_v<Plain, Health>) {
    std::string state(proto::health_name(value.state));
    io.required("state", state);
    io("failures", value.failures);
    io("checks", value.checks);
    io("checked_at", value.checked_at);
    io("exit_code", value.exit_code);
    io("why", value.why);
    io("output", value.output);
    if constexpr (!std::is_const_v<T>) {
      const auto known = proto::health_from_name(state);
      if (!known) bad_json("health.state", "unknown state \"" + printable(state) + "\"");
      value.state = *known;
    }
  } else if constexpr (std::is_same_v<Plain, proto::PublishedPort>) {
    std::string address = value.address.text();
    io("address", address);
    io.required("host", value.host);
    io.required("guest", value.guest);
    if constexpr (!std::is_const_v<T>) {
      const auto parsed = IpAddress::parse(address);
      if (!parsed) bad_json("port.address", "no IP address: \"" + printable(address, 60) + "\"");
      value.address = *parsed;
    }
  } else if constexpr (std::is_same_v<Plain, proto::SecretRule>) {
    io.required("name", value.name);
    io("from", value.from);
    io("hosts", value.hosts);
    io("places", value.places);
    io("headers", value.headers);
    io("prefix", value.prefix);
    io("plaintext", value.plaintext);
    io("on_misuse", value.on_misuse);
    io("on_unreadable", value.on_unreadable);
    io("require", value.require);
  } else if constexpr (std::is_same_v<Plain, proto::NetworkConfig>) {
    io("enabled", value.enabled);
    io("audit", value.audit);
    io("inspect_all", value.inspect_all);
    io("allow_hosts", value.allow_hosts);
    io("preset", value.preset);
    io("preset_hosts", value.preset_hosts);
    io("allow_cidr", value.allow_cidr);
    io("allow_endpoints", value.allow_endpoints);
    io("routes", value.routes);
    io("resolvers", value.resolvers);
    io("upstream_ca", value.upstream_ca);
    io("limits", value.limits);
    io("timeouts", value.timeouts);
    io("ask_timeout_ms", value.ask_timeout_ms);
    io("proxy_port", value.proxy_port);
    io("mtu", value.mtu);
    io("ai", value.ai);
    io("pii", value.pii);
  } else if constexpr (std::is_same_v<Plain, proto::NetworkLimits>) {
    io("flows", value.flows);
    io("flows_per_second", value.flows_per_second);
    io("queries_per_second", value.queries_per_second);
    io("names_per_zone", value.names_per_zone);
    io("send_bandwidth", value.send_bandwidth);
    io("receive_bandwidth", value.receive_bandwidth);
    io("total", value.total);
  } else if constexpr (std::is_same_v<Plain, proto::NetworkTimeouts>) {
    io("first_bytes", value.first_bytes);
    io("connect", value.connect);
    io("handshake", value.handshake);
    io("idle", value.idle);
    io("http_idle", value.http_idle);
    io("half_closed", value.half_closed);
  } else if constexpr (std::is_same_v<Plain, proto::PiiConfig>) {
    io("mode", value.mode);
    io("categories", value.categories);
    io("rules", value.rules);
    io("patterns", value.patterns);
    io("bypass", value.bypass);
    io("on_mismatch", value.on_mismatch);
    io("on_undecodable", value.on_undecodable);
    io("token_lifetime_ms", value.token_lifetime_ms);
    io("token_once", value.token_once);
    io("token_window_ms", value.token_window_ms);
    io("max_value", value.max_value);
    io("max_growth", value.max_growth);
  } else if constexpr (std::is_same_v<Plain, proto::NetworkRoute>) {
    io("id", value.id);
    io.required("host", value.host);
    io("ports", value.ports);
    io("rules", value.rules);
    io("otherwise", value.otherwise);
  } else if constexpr (std::is_same_v<Plain, proto::NetworkRouteRule>) {
    io("id", value.id);
    io("method", value.method);
    io("path", value.path);
    io("outcome", value.outcome);
  } else if constexpr (std::is_same_v<Plain, Limits>) {
    io("wall_clock_ms", value.wall_clock_ms);
    io("pids", value.pids);
    io("output", value.output);
    io("ttl_ms", value.ttl_ms);
    io("idle_timeout_ms", value.idle_timeout_ms);
    io("retention_ms", value.retention_ms);
  } else if constexpr (std::is_same_v<Plain, Sandbox>) {
    std::string state(state_name(value.state));
    Pids pids{value.sandbox_pid, value.monitor_pid};
    io.required("id", value.id);
    io.required("name", value.name);
    io.required("state", state);
    io("image", value.image);
    io("image_digest", value.image_digest);
    io("kernel", value.kernel);
    io("cpus", value.cpus);
    io("memory", value.memory);
    io("disk", value.disk);
    io("disk_bandwidth", value.disk_bandwidth);
    io("disk_iops", value.disk_iops);
    io("created_at", value.created_at);
    io("started_at", value.started_at);
    io("ended_at", value.ended_at);
    io("end", value.end);
    io("pids", pids);
    io("labels", value.labels);
    io("ephemeral", value.ephemeral);
    io("profile", value.profile);
    io("audit_strict", value.audit_strict);
    io("limits", value.limits);
    io("ttl_left_ms", value.ttl_left_ms);
    io("idle_left_ms", value.idle_left_ms);
    io("retention_left_ms", value.retention_left_ms);
    io("control_socket", value.control_socket);
    io("console_log", value.console_log);
    io("memory_use", value.memory_use);
    io("network", value.network);
    io("network_missing", value.network_missing);
    io("ports", value.ports);
    io("health", value.health);
    io("secrets", value.secrets);
    if constexpr (!std::is_const_v<T>) {
      const auto known = state_from_name(state);
      if (!known) bad_json("sandbox.state", "unknown state \"" + printable(state) + "\"");
      value.state = *known;
      value.sandbox_pid = pids.sandbox;
      value.monitor_pid = pids.monitor;
    }
  } else if constexpr (std::is_same_v<Plain, MemoryUse>) {
    io("resident", value.resident);
    io("guest_total", value.guest_total);
    io("guest_free", value.guest_free);
    io("guest_available", value.guest_available);
    io("guest_caches", value.guest_caches);
    io("balloon", value.balloon);
    io("released", value.released);
  } else if constexpr (std::is_same_v<Plain, Pids>) {
    io("sandbox", value.sandbox);
    io("monitor", value.monitor);
  } else if constexpr (std::is_same_v<Plain, End>) {
    std::string reason(proto::end_reason_name(value.reason));
    io.required("reason", reason);
    io("detail", value.detail);
    if constexpr (!std::is_const_v<T>) {
      const auto known = proto::end_reason_from_name(reason);
      if (!known) bad_json("end.reason", "unknown reason \"" + printable(reason) + "\"");
      value.reason = *known;
    }
  } else if constexpr (std::is_same_v<Plain, StopRequest>) {
    io("grace_ms", value.grace_ms);
    io("kill", value.kill);
  } else if constexpr (std::is_same_v<Plain, WaitRequest>) {
    io("timeout_ms", value.timeout_ms);
  } else if constexpr (std::is_same_v<Plain, StartRequest>) {
    io("wait", value.wait);
    io("boot_timeout_ms", value.boot_timeout_ms);
    io.unless_empty("secret_values", value.secret_values);
  } else if constexpr (std::is_same_v<Plain, Version>) {
    io.required("version", value.version);
    io.required("api", value.api);
    io("pid", value.pid);
    io("started_at", value.started_at);
    io("runtime_dir", value.runtime_dir);
    io("data_dir", value.data_dir);
    io("sandboxes_live", value.sandboxes_live);
    io("spare_pid", value.spare_pid);
    io("last_repair", value.last_repair);
  } else if constexpr (std::is_same_v<Plain, Repair>) {
    io.required("at", value.at);
    io("actions", value.actions);
  } else if constexpr (std::is_same_v<Plain, Image>) {
    io("name", value.name);
    io("names", value.names);
    io.required("digest", value.digest);
    io("source", value.source);
    io("source_kind", value.source_kind);
    io("source_digest", value.source_digest);
    io("source_index", value.source_index);
    io("size", value.size);
    io("content_bytes", value.content_bytes);
    io("files", value.files);
    io("created_at", value.created_at);
    io("entrypoint", value.entrypoint);
    io("command", value.command);
    io("env", value.env);
    io("workdir", value.workdir);
    io("user", value.user);
    io("stop_signal", value.stop_signal);
    io("health", value.health);
    io("labels", value.labels);
    io.unless_empty("kernel", value.kernel);
    io("used_by", value.used_by);
    io.unless_empty("problem", value.problem);
  } else if constexpr (std::is_same_v<Plain, ImportRequest>) {
    io.required("source", value.source);
    io.required("name", value.name);
    io("reference", value.reference);
    io("platform", value.platform);
    io("drop_set_id", value.drop_set_id);
  } else if constexpr (std::is_same_v<Plain, PullRequest>) {
    io.required("reference", value.reference);
    io("name", value.name);
    io("platform", value.platform);
    io("drop_set_id", value.drop_set_id);
  } else if constexpr (std::is_same_v<Plain, CaptureRequest>) {
    io.required("sandbox", value.sandbox);
    io.required("argv", value.argv);
    io.required("name", value.name);
    io("source", value.source);
    io.required("key", value.key);
    io("entrypoint", value.entrypoint);
    io("env", value.env);
    io("workdir", value.workdir);
    io("user", value.user);
    io("health", value.health);
    io("labels", value.labels);
    io("attributes", value.attributes);
    io("kernel", value.kernel);
    io("timeout_ms", value.timeout_ms);
  } else if constexpr (std::is_same_v<Plain, CaptureRequest::Attributes>) {
    io.required("path", value.path);
    io.required("mode", value.mode);
    io("uid", value.uid);
    io("gid", value.gid);
  } else if constexpr (std::is_same_v<Plain, AdoptRequest>) {
    io.required("key", value.key);
    io.required("name", value.name);
  } else if constexpr (std::is_same_v<Plain, TagRequest>) {
    io.required("name", value.name);
  } else if constexpr (std::is_same_v<Plain, PruneRequest>) {
    io("all", value.all);
    io("dry_run", value.dry_run);
  } else if constexpr (std::is_same_v<Plain, PruneResult>) {
    io("images", value.images);
    io("layers", value.layers);
    io("bytes", value.bytes);
  } else if constexpr (std::is_same_v<Plain, ImportProgress>) {
    io("stage", value.stage);
    io("done", value.done);
    io("total", value.total);
    io("note", value.note);
  } else if constexpr (std::is_same_v<Plain, Kernel>) {
    io.required("name", value.name);
    io("image", value.image);
    io("size", value.size);
    io("modules", value.modules);
    io("default", value.is_default);
    io.unless_empty("problem", value.problem);
  } else if constexpr (std::is_same_v<Plain, KernelImportRequest>) {
    io.required("source", value.source);
    io("default", value.make_default);
    io("of_image", value.of_image);
  } else if constexpr (std::is_same_v<Plain, ErrorBody>) {
    io.required("kind", value.kind);
    io.required("message", value.message);
    io("hint", value.hint);
  } else if constexpr (std::is_same_v<Plain, ErrorDocument>) {
    io.required("error", value.error);
  } else {
    static_assert(std::is_same_v<Plain, EventDocument>);
    io("progress", value.progress);
    io("image", value.image);
    io("error", value.error);
  }
}

// ---- out
// ------------------------------------------------------------------------------------------

template <typename T>
static std::string text_of(const T& value) {
  return json::dump(JsonWriter::to_json(value));
}

std::string encode(const SandboxSpec& value) { return text_of(value); }
std::string encode(const Sandbox& value) { return text_of(value); }
std::string encode(const std::vector<Sandbox>& value) { return text_of(value); }
std::string encode(const proto::PublishedPort& value) { return text_of(value); }
std::string encode(const std::vector<proto::PublishedPort>& value) { return text_of(value); }
std::string encode(const StopRequest& value) { return text_of(value); }
std::string encode(const StartRequest& value) { return text_of(value); }
std::string encode(const WaitRequest& value) { return text_of(value); }
std::string encode(const Version& value) { return text_of(value); }
std::string encode(const Image& value) { return text_of(value); }
std::string encode(const std::vector<Image>& value) { return text_of(value); }
std::string encode(const ImportRequest& value) { return text_of(value); }
std::string encode(const PullRequest& value) { return text_of(value); }
std::string encode(const CaptureRequest& value) { return text_of(value); }
std::string encode(const AdoptRequest& value) { return text_of(value); }
std::string encode(const TagRequest& value) { return text_of(value); }
std::string encode(const PruneRequest& value) { return text_of(value); }
std::string encode(const PruneResult& value) { return text_of(value); }
std::string encode(const Kernel& value) { return text_of(value); }
std::string encode(const std::vector<Kernel>& value) { return text_of(value); }
std::string encode(const KernelImportRequest& value) { return text_of(value); }

std::string encode_error(Kind kind, std::string_view message, std::string_view hint) {
  return text_of(
      ErrorDocument{{std::string(kind_name(kind)), std::string(message), std::string(hint)}});
}

std::string encode_import_progress(const ImportProgress& progress) {
  Json json = Json::object();
  json["progress"] = JsonWriter::to_json(progress);
  return json::dump(json);
}

std::string encode_import_image(const Image& image) {
  Json json = Json::object();
  json["image"] = JsonWriter::to_json(image);
  return json::dump(json);
}

// ---- in
// -------------------------------------------------------------------------------------------

template <typename T>
static T request(std::string_view json, const char* what) {
  return JsonReader::document<T>(json, what, UnknownKeys::Refuse);
}
template <typename T>
static T answer(std::string_view json, const char* what) {
  return JsonReader::document<T>(json, what, UnknownKeys::Skip);
}

SandboxSpec decode_spec(std::string_view json) { return request<SandboxSpec>(json, "sandbox"); }
proto::PublishedPort decode_port(std::string_view json) {
  return request<proto::PublishedPort>(json, "port");
}
StopRequest decode_stop(std::string_view json) { return request<StopRequest>(json, "stop"); }
StartRequest decode_start(std::string_view json) { return request<StartRequest>(json, "start"); }
WaitRequest decode_wait(std::string_view json) { return request<WaitRequest>(json, "wait"); }
ImportRequest decode_import(std::string_view json) {
  return request<ImportRequest>(json, "import");
}

PullRequest decode_pull(std::string_view json) { return request<PullRequest>(json, "pull"); }
CaptureRequest decode_capture(std::string_view json) {
  return request<CaptureRequest>(json, "capture");
}
AdoptRequest decode_adopt(std::string_view json) { return request<AdoptRequest>(json, "adopt"); }
TagRequest decode_tag(std::string_view json) { return request<TagRequest>(json, "tag"); }
PruneRequest decode_prune(std::string_view json) { return request<PruneRequest>(json, "prune"); }
PruneResult decode_prune_result(std::string_view json) {
  return answer<PruneResult>(json, "prune");
}

Sandbox decode_sandbox(std::string_view json) { return answer<Sandbox>(json, "sandbox"); }
std::vector<Sandbox> decode_sandboxes(std::string_view json) {
  return answer<std::vector<Sandbox>>(json, "sandboxes");
}
Version decode_version(std::string_view json) { return answer<Version>(json, "version"); }
Image decode_image(std::string_view json) { return answer<Image>(json, "image"); }
std::vector<Image> decode_images(std::string_view json) {
  return answer<std::vector<Image>>(json, "images");
}
KernelImportRequest decode_kernel_import(std::string_view json) {
  return request<KernelImportRequest>(json, "kernel");
}
Kernel decode_kernel(std::string_view json) { return answer<Kernel>(json, "kernel"); }
std::vector<Kernel> decode_kernels(std::string_view json) {
  return answer<std::vector<Kernel>>(json, "kernels");
}

static ApiError error_of(const ErrorBody& body) {
  return {kind_from_name(body.kind), body.message, body.hint};
}

ApiError decode_error(std::string_view json) {
  return error_of(answer<ErrorDocument>(json, "answer").error);
}

ImportEvent decode_import_event(std::string_view json) {
  auto document = answer<EventDocument>(json, "event");
  ImportEvent event;
  event.progress = std::move(document.progress);
  event.image = std::move(document.image);
  if (document.error) event.error = error_of(*document.error);
  if (event.progress.has_value() + event.image.has_value() + event.error.has_value() != 1)
    bad_json("event", "must be exactly one of progress, image and error");
  return event;
}

}
