#include "mvm/proto/exec.h"

#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

// The kernel takes strings up to their NUL; one inside would silently cut the rest off.
static std::string read_string(CborReader& in, size_t limit) {
  const std::string_view text = in.string(limit);
  if (text.find('\0') != std::string_view::npos) in.fail();
  return std::string(text);
}

static void read_environment(CborReader& in, ExecRequest& request) {
  for (size_t left = in.map(kMaxEnvironment); left > 0 && in; --left) {
    std::string name = read_string(in, kMaxString);
    std::string value = read_string(in, kMaxString);
    if (name.empty() || name.find('=') != std::string::npos) in.fail();
    request.env.emplace_back(std::move(name), std::move(value));
  }
}

// Each resource as its number, soft and hard limit.
static void write_rlimits(MapWriter& map, const std::vector<ResourceLimit>& limits) {
  CborWriter list = map.field("rlimits");
  list.array(limits.size() * 3);
  for (const auto& limit : limits) {
    list.unsigned_integer(limit.resource);
    list.unsigned_integer(limit.soft);
    list.unsigned_integer(limit.hard);
  }
}

static void read_rlimits(CborReader& in, ExecRequest& request) {
  const size_t numbers = in.array(kRlimitNames.size() * 3);
  if (numbers % 3 != 0) in.fail();
  uint32_t seen = 0;
  for (size_t left = numbers / 3; left > 0 && in; --left) {
    ResourceLimit limit;
    limit.resource = static_cast<uint8_t>(in.unsigned_integer(kRlimitNames.size() - 1));
    limit.soft = in.unsigned_integer();
    limit.hard = in.unsigned_integer();
    const uint32_t bit = 1U << limit.resource;
    if (limit.soft > limit.hard || (seen & bit) != 0) in.fail();
    seen |= bit;
    request.rlimits.push_back(limit);
  }
}

Bytes ExecRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kExecVerb);
    CborWriter list = map.field("argv");
    list.array(argv.size());
    for (const auto& argument : argv) list.string(argument);
    if (!env.empty()) {
      CborWriter pairs = map.field("env");
      pairs.map(env.size());
      for (const auto& [name, value] : env) {
        pairs.string(name);
        pairs.string(value);
      }
    }
    if (clear_env) map.boolean("clear_env", true);
    if (!cwd.empty()) map.string("cwd", cwd);
    if (!user.empty()) map.string("user", user);
    if (stdin_open) map.boolean("stdin", true);
    if (tty) {
      map.boolean("tty", true);
      map.unsigned_integer("rows", size.rows);
      map.unsigned_integer("cols", size.columns);
    }
    if (timeout.count() > 0) write_duration(map, "timeout_ms", timeout);
    write_duration(map, "kill_grace_ms", kill_grace);
    if (max_output > 0) map.unsigned_integer("max_output", max_output);
    if (detach) map.boolean("detach", true);
    if (!run.empty()) map.string("run", run);
    if (!groups.empty()) {
      CborWriter names = map.field("groups");
      names.array(groups.size());
      for (const auto& group : groups) names.string(group);
    }
    if (!rlimits.empty()) write_rlimits(map, rlimits);
    if (limits.memory > 0) map.unsigned_integer("memory_limit", limits.memory);
    if (limits.processes > 0) map.unsigned_integer("process_limit", limits.processes);
    if (limits.cpu_millis > 0) map.unsigned_integer("cpu_limit", limits.cpu_millis);
  }
  return out;
}

std::optional<ExecRequest> ExecRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ExecRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("argv")) {
      for (size_t left = in.array(kMaxArguments); left > 0 && in; --left)
        request.argv.push_back(read_string(in, kMaxString));
    } else if (field.is("env")) {
      read_environment(in, request);
    } else if (field.is("clear_env")) {
      request.clear_env = in.boolean();
    } else if (field.is("cwd")) {
      request.cwd = read_string(in, kMaxPath);
    } else if (field.is("user")) {
      request.user = read_string(in, kMaxUserName);
    } else if (field.is("stdin")) {
      request.stdin_open = in.boolean();
    } else if (field.is("tty")) {
      request.tty = in.boolean();
    } else if (field.is("rows")) {
      request.size.rows = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("cols")) {
      request.size.columns = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("timeout_ms")) {
      request.timeout = read_duration(in);
    } else if (field.is("kill_grace_ms")) {
      request.kill_grace = read_duration(in);
    } else if (field.is("max_output")) {
      request.max_output = in.unsigned_integer();
    } else if (field.is("detach")) {
      request.detach = in.boolean();
    } else if (field.is("run")) {
      request.run = in.string(kMaxRunId);
    } else if (field.is("groups")) {
      for (size_t left = in.array(kMaxAddedGroups); left > 0 && in; --left)
        request.groups.push_back(read_string(in, kMaxUserName));
    } else if (field.is("rlimits")) {
      read_rlimits(in, request);
    } else if (field.is("memory_limit")) {
      request.limits.memory = in.unsigned_integer();
    } else if (field.is("process_limit")) {
      request.limits.processes = in.unsigned_integer(kMaxTreeProcesses);
    } else if (field.is("cpu_limit")) {
      request.limits.cpu_millis = in.unsigned_integer(kMaxCpuMillis);
    } else {
      field.skip();
    }
  }
  const bool complete = !request.argv.empty() && !request.argv[0].empty();
  return finished(in, request, complete);
}

Bytes ExecStarted::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("event", kStartedEvent);
    map.unsigned_integer("pid", pid);
  }
  return out;
}

std::optional<ExecStarted> ExecStarted::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ExecStarted started;
  for (Fields field(in); field.next();) {
    if (field.is("pid")) {
      started.pid = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  return finished(in, started);
}

Bytes ExecResult::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    if (signal == 0) {
      map.unsigned_integer("exit_code", exit_code);
    } else {
      map.unsigned_integer("signal", signal);
    }
    if (timed_out) map.boolean("timed_out", true);
    if (truncated) map.boolean("truncated", true);
    if (out_of_memory) map.boolean("out_of_memory", true);
  }
  return out;
}

std::optional<ExecResult> ExecResult::decode(ByteView item) noexcept {
  CborReader in(item);
  ExecResult result;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("exit_code")) {
      result.exit_code = static_cast<uint8_t>(in.unsigned_integer(UINT8_MAX));
      complete = true;
    } else if (field.is("signal")) {
      result.signal = static_cast<uint8_t>(in.unsigned_integer(kMaxSignal));
      complete = true;
    } else if (field.is("timed_out")) {
      result.timed_out = in.boolean();
    } else if (field.is("truncated")) {
      result.truncated = in.boolean();
    } else if (field.is("out_of_memory")) {
      result.out_of_memory = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, result, complete);
}

}
