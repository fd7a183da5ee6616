#include "mvm/proto/control.h"

#include "mvm/proto/cbor.h"
#include "mvm/proto/exec.h"

#include "messages.h"

namespace mvm::proto {

static std::string cut(std::string_view text) { return std::string(text.substr(0, kMaxMessage)); }

// ---- greeting -------------------------------------------------------------------------------

Bytes Hello::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("version", version);
    map.string("role", role);
    map.string("software", software);
  }
  return out;
}

std::optional<Hello> Hello::decode(ByteView payload) noexcept {
  CborReader in(payload);
  Hello hello;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("version")) {
      hello.version = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
      complete = true;
    } else if (field.is("role")) {
      hello.role = in.string(kMaxWord);
    } else if (field.is("software")) {
      hello.software = in.string(kMaxWord);
    } else {
      field.skip();
    }
  }
  return finished(in, hello, complete);
}

// ---- envelopes ------------------------------------------------------------------------------

Bytes encode_request(std::string_view verb) {
  Bytes out;
  MapWriter(out).string("verb", verb);
  return out;
}

static std::optional<std::string_view> find_word(ByteView payload, std::string_view name) noexcept {
  CborReader in(payload);
  std::string_view word;
  for (Fields field(in); field.next();) {
    if (field.is(name)) {
      word = in.string(kMaxWord);
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || word.empty()) return std::nullopt;
  return word;
}

std::optional<std::string_view> request_verb(ByteView payload) noexcept {
  return find_word(payload, "verb");
}
std::optional<std::string_view> event_name(ByteView payload) noexcept {
  return find_word(payload, "event");
}

Bytes encode_ok(ByteView result) {
  Bytes out;
  {
    MapWriter map(out);
    CborWriter item = map.field("ok");
    if (result.empty()) {
      item.map(0);
    } else {
      item.raw(result);
    }
  }
  return out;
}

Bytes encode_error(const ErrorReply& error) {
  Bytes out;
  {
    MapWriter map(out);
    map.field("error");
    MapWriter inner(out);
    inner.string("kind", kind_name(error.kind));
    inner.string("message", cut(error.message));
    if (error.sandbox_end) inner.string("sandbox_end", end_reason_name(*error.sandbox_end));
  }
  return out;
}

static ErrorReply read_error(CborReader& in) {
  ErrorReply error;
  for (Fields field(in); field.next();) {
    if (field.is("kind")) {
      error.kind = kind_from_name(in.string(kMaxWord));
    } else if (field.is("message")) {
      error.message = cut(in.string(kMaxPayload));
    } else if (field.is("sandbox_end")) {
      error.sandbox_end = end_reason_from_name(in.string(kMaxWord));
    } else {
      field.skip();
    }
  }
  return error;
}

std::optional<End> End::decode(ByteView payload) noexcept {
  CborReader in(payload);
  End end;
  for (Fields field(in); field.next();) {
    if (field.is("ok")) {
      end.result = in.skip();
    } else if (field.is("error")) {
      end.error = read_error(in);
    } else {
      field.skip();
    }
  }
  const bool one_of_both = end.error.has_value() == end.result.empty();
  return finished(in, end, one_of_both);
}

// ---- verbs of the agent ---------------------------------------------------------------------

Bytes AgentInfo::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("software", software);
    map.string("kernel", kernel);
    map.unsigned_integer("uptime_ms", uptime_ms);
    map.unsigned_integer("memory_total", memory_total);
    map.unsigned_integer("memory_available", memory_available);
    map.unsigned_integer("commands", commands);
  }
  return out;
}

std::optional<AgentInfo> AgentInfo::decode(ByteView item) noexcept {
  CborReader in(item);
  AgentInfo info;
  for (Fields field(in); field.next();) {
    if (field.is("software")) {
      info.software = in.string(kMaxWord);
    } else if (field.is("kernel")) {
      info.kernel = in.string(kMaxMessage);
    } else if (field.is("uptime_ms")) {
      info.uptime_ms = in.unsigned_integer();
    } else if (field.is("memory_total")) {
      info.memory_total = in.unsigned_integer();
    } else if (field.is("memory_available")) {
      info.memory_available = in.unsigned_integer();
    } else if (field.is("commands")) {
      info.commands = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  return finished(in, info);
}

Bytes ShutdownRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kShutdownVerb);
    write_duration(map, "grace_ms", grace);
    map.unsigned_integer("signal", signal);
  }
  return out;
}

std::optional<ShutdownRequest> ShutdownRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ShutdownRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("grace_ms")) {
      request.grace = read_duration(in);
    } else if (field.is("signal")) {
      request.signal = static_cast<uint8_t>(in.unsigned_integer(kMaxSignal));
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

Bytes TrustRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kTrustVerb);
    map.string("authority", authority);
    if (!files.empty()) write_texts(map.field("files"), files);
  }
  return out;
}

std::optional<TrustRequest> TrustRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  TrustRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("authority")) {
      request.authority = in.string(kMaxAuthority);
    } else if (field.is("files")) {
      request.files = read_texts(in, kMaxTrustedFiles, kMaxPath);
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

Bytes SyncTimeRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSyncTimeVerb);
    map.unsigned_integer("unix_ns", unix_nanoseconds);
  }
  return out;
}

std::optional<SyncTimeRequest> SyncTimeRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  SyncTimeRequest request;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("unix_ns")) {
      request.unix_nanoseconds = in.unsigned_integer();
      complete = true;
    } else {
      field.skip();
    }
  }
  return finished(in, request, complete);
}

// ---- verbs of the sandbox process -----------------------------------------------------------

static void write_end(Bytes& out, const SandboxEnd& end) {
  MapWriter map(out);
  map.string("reason", end_reason_name(end.reason));
  map.string("detail", cut(end.detail));
}

static SandboxEnd read_end(CborReader& in) {
  SandboxEnd end;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("reason")) {
      const auto reason = end_reason_from_name(in.string(kMaxWord));
      complete = reason.has_value();
      end.reason = reason.value_or(EndReason::HostFault);
    } else if (field.is("detail")) {
      end.detail = in.string(kMaxMessage);
    } else {
      field.skip();
    }
  }
  if (!complete) in.fail();
  return end;
}

Bytes SandboxEnd::encode() const {
  Bytes out;
  write_end(out, *this);
  return out;
}

std::optional<SandboxEnd> SandboxEnd::decode(ByteView item) noexcept {
  CborReader in(item);
  SandboxEnd end = read_end(in);
  return finished(in, end);
}

Bytes SandboxStatus::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", id);
    map.string("name", name);
    map.string("state", state);
    map.unsigned_integer("sandbox_pid", sandbox_pid);
    map.unsigned_integer("monitor_pid", monitor_pid);
    map.unsigned_integer("started_unix_ms", started_unix_ms);
    if (ttl_left_ms) map.unsigned_integer("ttl_left_ms", *ttl_left_ms);
    if (idle_left_ms) map.unsigned_integer("idle_left_ms", *idle_left_ms);
    if (!network_missing.empty()) map.string("network_missing", network_missing);
    if (health) map.field("health").raw(health->encode());
    if (end) {
      map.field("end");
      write_end(out, *end);
    }
  }
  return out;
}

std::optional<SandboxStatus> SandboxStatus::decode(ByteView item) noexcept {
  CborReader in(item);
  SandboxStatus status;
  for (Fields field(in); field.next();) {
    if (field.is("id")) {
      status.id = in.string(kMaxWord);
    } else if (field.is("name")) {
      status.name = in.string(kMaxSandboxName);
    } else if (field.is("state")) {
      status.state = in.string(kMaxWord);
    } else if (field.is("sandbox_pid")) {
      status.sandbox_pid = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("monitor_pid")) {
      status.monitor_pid = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("started_unix_ms")) {
      status.started_unix_ms = in.unsigned_integer();
    } else if (field.is("ttl_left_ms")) {
      status.ttl_left_ms = in.unsigned_integer();
    } else if (field.is("idle_left_ms")) {
      status.idle_left_ms = in.unsigned_integer();
    } else if (field.is("network_missing")) {
      status.network_missing = in.string(kMaxMessage);
    } else if (field.is("health")) {
      status.health = HealthStatus::decode(in.skip());
      if (!status.health) in.fail();
    } else if (field.is("end")) {
      status.end = read_end(in);
    } else {
      field.skip();
    }
  }
  const bool complete = !status.state.empty();
  return finished(in, status, complete);
}

Bytes StopRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxStopVerb);
    map.boolean("kill", kill);
    write_duration(map, "grace_ms", grace);
  }
  return out;
}

std::optional<StopRequest> StopRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  StopRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("kill")) {
      request.kill = in.boolean();
    } else if (field.is("grace_ms")) {
      request.grace = read_duration(in);
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

}
