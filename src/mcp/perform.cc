#include "mvm/mcp/perform.h"

#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include "mvm/agent/connection.h"
#include "mvm/agent/exec.h"
#include "mvm/agent/files.h"
#include "mvm/base/text.h"
#include "mvm/crypto/random.h"
#include "mvm/proto/cbor.h"
#include "mvm/proto/profile.h"
#include "mvm/secret/text.h"

#include "kept.h"

namespace mvm::mcp {
namespace {

using Json = json::Ordered;
using Clock = std::chrono::steady_clock;

constexpr agent::Milliseconds kStatusLimit{10'000};
constexpr agent::Milliseconds kReadyLimit{60'000};
// Beyond a command's time-out and grace: a busy sandbox may be slow to say so.
constexpr agent::Milliseconds kTimeoutSlack{15'000};
// Redacted text is counted from the file's beginning, which so has to be read each time.
constexpr uint64_t kMaxRedactedOffset = uint64_t{64} << 20;

constexpr std::array<std::string_view, 10> kStatusNames{
    "ok",         "command_failed", "timed_out", "policy_denied", "invalid",
    "file_error", "limit",          "busy",      "transport",     "internal"};

// A call's result as it comes to be.
struct Work {
  const Target& target;
  int interrupt;
  std::string sandbox_id;
  std::string run;
  bool redacted = false;

  Json head(Status status, const std::string& message = "") const {
    Json out;
    out["status"] = status_name(status);
    if (!message.empty()) out["message"] = message;
    out["sandbox"] = target.name;
    if (!sandbox_id.empty()) out["sandbox_id"] = sandbox_id;
    if (!run.empty()) out["run_id"] = run;
    if (redacted) out["redacted"] = true;
    return out;
  }
  ToolResult failure(Status status, const std::string& message) const {
    return {head(status, message), true};
  }

  // A connection to the sandbox, ready to be asked something.
  agent::Connection open() {
    auto connection = agent::Connection::connect(target.control_socket, interrupt);
    const proto::SandboxStatus status = connection.status(kStatusLimit);
    sandbox_id = printable(status.id, proto::kMaxWord);
    redacted = target.redacts(sandbox_id);
    // Booting has a limit of its own, which is not the call's.
    if (status.state == "starting") connection.wait_ready(kReadyLimit);
    return connection;
  }
};

// The gate's own words: what it says to a second command, or to any other verb that it refuses.
bool refused_by_profile(std::string_view verb, const Error& error) {
  proto::ProfileGate gate(proto::Profile::Sealed);
  auto refusal = gate.refuse(verb);
  if (!refusal) refusal = gate.refuse(verb);
  return refusal && error.kind() == refusal->kind &&
         error.message() == printable(refusal->message, agent::kMaxErrorText);
}

Status status_of(std::string_view verb, const Error& error) {
  if (verb.empty()) return Status::Internal;  // the sandbox was not asked
  if (refused_by_profile(verb, error)) return Status::PolicyDenied;
  switch (error.kind()) {
    case Kind::Invalid:
      // Arguments were judged before; what the guest finds wrong with a path is what is there.
      return verb == proto::kExecVerb ? Status::Invalid : Status::FileError;
    case Kind::Timeout:
    case Kind::Unavailable:
    case Kind::Unsupported:
      return Status::Transport;
    case Kind::Exhausted:
      return Status::Limit;
    case Kind::NotFound:
    case Kind::Conflict:
    case Kind::Denied:
      return Status::FileError;
    case Kind::Internal:
      break;
  }
  return Status::Internal;
}

// ---- run --------------------------------------------------------------------------------------

void add_stream(Json& out, const std::string& name, const Kept& kept) {
  const std::string text = kept.text();
  const bool lossy = !proto::is_utf8(text);  // which json::dump makes UTF-8
  out[name] = text;
  out[name + "_bytes"] = kept.bytes();
  out[name + "_truncated"] = kept.truncated();
  if (lossy) out[name + "_lossy"] = true;
}

Status status_of(const proto::ExecResult& result) {
  if (result.timed_out) return Status::TimedOut;
  return result.exit_code == 0 && result.signal == 0 ? Status::Ok : Status::CommandFailed;
}

ToolResult run(Work& work, const RunCall& call) {
  agent::Connection connection = work.open();
  proto::ExecRequest request = call.request;
  request.run = work.run = crypto::random_id("run-");
  request.redact = work.redacted;
  const auto began = Clock::now();
  const auto over = began + request.timeout + request.kill_grace + kTimeoutSlack;
  Kept out(call.keep);
  Kept err(call.keep);
  proto::ExecResult result;
  std::string message;
  try {
    agent::Command command(connection, request, as_bytes(call.input));
    while (true) {
      // However much it says meanwhile.
      const auto left = std::chrono::ceil<agent::Milliseconds>(over - Clock::now());
      if (left.count() <= 0)
        throw Error(Kind::Timeout, "the command's time is over, and the sandbox has not ended it");
      const auto piece = command.next(left);
      if (!piece) break;
      (piece->stream == agent::Stream::Out ? out : err).add(as_text(piece->data));
    }
    result = command.result();
  } catch (const Error& error) {
    // As a shell has it: what cannot be started has failed.
    const bool missing = error.kind() == Kind::NotFound;
    if (!missing && (error.kind() != Kind::Denied || refused_by_profile(proto::kExecVerb, error)))
      throw;
    result.exit_code = missing ? 127 : 126;
    message = error.message();
  }
  const Status status = status_of(result);
  Json json = work.head(status, message);
  if (result.signal == 0 && !result.timed_out) json["exit_code"] = result.exit_code;
  if (result.signal != 0) json["signal"] = result.signal;
  json["timed_out"] = result.timed_out;
  if (result.out_of_memory) json["out_of_memory"] = true;
  json["duration_ms"] =
      std::chrono::duration_cast<agent::Milliseconds>(Clock::now() - began).count();
  add_stream(json, "stdout", out);
  add_stream(json, "stderr", err);
  // By the sandbox's own limit of output, which says nothing of which stream it was.
  if (result.truncated) json["stdout_truncated"] = json["stderr_truncated"] = true;
  return {std::move(json), false};
}

// ---- files ------------------------------------------------------------------------------------

// A window of what read_file() gives.
class Window {
 public:
  Window(uint64_t skip, uint64_t limit) : skip_(skip), limit_(limit) {}

  void take(std::string_view bytes) {
    const uint64_t skipped = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t room = limit_ - text_.size();
    text_ += bytes.substr(0, room);
    more_ = more_ || bytes.size() > room;
  }
  std::string& text() { return text_; }
  bool more() const { return more_; }  // than it holds

 private:
  uint64_t skip_;
  uint64_t limit_;
  std::string text_;
  bool more_ = false;
};

struct Enough {};

// With `redact`, offsets count the redacted text: so its windows join without a seam at which a
// value would be seen in two halves.
ToolResult read(Work& work, const ReadCall& call) {
  agent::Connection connection = work.open();
  if (work.redacted && call.offset > kMaxRedactedOffset)
    return work.failure(Status::Limit, "with redaction, offset must not be beyond " +
                                           format_size(kMaxRedactedOffset));
  proto::ReadRequest request;
  request.place.path = call.path;
  request.redact = work.redacted;
  if (!work.redacted) {
    request.offset = call.offset;
    request.length = call.limit + 1;  // one more tells whether there is more
  }
  Window window(work.redacted ? call.offset : 0, call.limit);
  std::optional<uint64_t> size;
  try {
    size = agent::read_file(connection, request, [&](ByteView bytes) {
             window.take(as_text(bytes));
             if (work.redacted && window.more()) throw Enough{};
           }).size;
  } catch (const Enough&) {  // NOLINT(bugprone-empty-catch)
    // The connection is closed, which ends the reading there.
  }
  std::string& text = window.text();
  bool is_text = proto::is_utf8(text);
  if (!is_text && window.more()) {
    const std::string_view whole = without_cut_character(text);
    if (!whole.empty() && proto::is_utf8(whole)) {
      text.resize(whole.size());
      is_text = true;
    }
  }
  Json json = work.head(Status::Ok);
  json["path"] = call.path;
  json["encoding"] = is_text ? "utf-8" : "base64";
  json["offset"] = call.offset;
  json["bytes"] = text.size();
  if (size) json["size"] = *size;
  json["truncated"] = window.more();
  if (window.more()) json["next_offset"] = call.offset + text.size();
  json["content"] = is_text ? std::move(text) : secret::base64(text);
  return {std::move(json), false};
}

ToolResult write(Work& work, const WriteCall& call) {
  agent::Connection connection = work.open();
  proto::WriteRequest request;
  request.place.path = call.path;
  request.mode = call.mode;
  request.limit = call.content.size();
  ByteView rest = as_bytes(call.content);
  const auto result = agent::write_file(connection, request, [&](size_t room) {
    const ByteView piece = rest.first(std::min(room, rest.size()));
    rest = rest.subspan(piece.size());
    return piece;
  });
  Json json = work.head(Status::Ok);
  json["path"] = call.path;
  json["bytes"] = result.bytes;
  return {std::move(json), false};
}

std::string octal(uint32_t mode) {
  std::string text;
  for (int shift = 9; shift >= 0; shift -= 3) text += static_cast<char>('0' + (mode >> shift & 7));
  return text;
}

Json entry_of(const proto::ListEntry& entry) {
  Json out;
  out["name"] = entry.name;
  if (!proto::is_utf8(entry.name)) out["lossy"] = true;
  out["type"] = proto::file_type_name(entry.status.type);
  out["size"] = entry.status.size;
  out["mode"] = octal(entry.status.mode);
  out["mtime"] = entry.status.mtime_seconds;
  if (!entry.status.target.empty()) out["target"] = entry.status.target;
  return out;
}

ToolResult list(Work& work, const ListCall& call) {
  agent::Connection connection = work.open();
  work.redacted = false;  // names are told as they are
  proto::ListRequest request;
  request.place.path = call.path;
  request.limit = call.limit;
  Json entries = Json::array();
  const auto result = agent::list_files(connection, request, [&](const proto::ListEntry& entry) {
    entries.push_back(entry_of(entry));
  });
  Json json = work.head(Status::Ok);
  json["path"] = call.path;
  json["entries"] = std::move(entries);
  json["truncated"] = result.truncated;
  return {std::move(json), false};
}

// ---- the network ------------------------------------------------------------------------------

ToolResult refusals(Work& work, const RefusalsCall& call) {
  const Refusals found = work.target.refusals(call.run);
  work.run = call.run;
  Json json = work.head(Status::Ok);
  Json all = Json::array();
  for (const Refusal& each : found.shown) {
    Json one;
    one["what"] = printable(each.what, 400);
    one["reason"] = printable(each.reason, 64);
    if (!each.allow.empty()) one["allow"] = printable(each.allow, 400);
    if (each.let_through) one["let_through"] = true;
    all.push_back(std::move(one));
  }
  json["refusals"] = std::move(all);
  json["more"] = found.more;
  return {std::move(json), false};
}

std::string_view verb_of(const Call& call) {
  constexpr std::array<std::string_view, 5> kVerbs{proto::kExecVerb, proto::kReadVerb,
                                                   proto::kWriteVerb, proto::kListVerb, ""};
  return kVerbs.at(call.index());
}

ToolResult dispatch(Work& work, const Call& call) {
  if (const auto* one = std::get_if<RunCall>(&call)) return run(work, *one);
  if (const auto* one = std::get_if<ReadCall>(&call)) return read(work, *one);
  if (const auto* one = std::get_if<WriteCall>(&call)) return write(work, *one);
  if (const auto* one = std::get_if<ListCall>(&call)) return list(work, *one);
  return refusals(work, std::get<RefusalsCall>(call));
}

}

std::string_view status_name(Status status) { return kStatusNames.at(static_cast<size_t>(status)); }

ToolResult perform(const Target& target, const Call& call, int interrupt) {
  Work work{target, interrupt, {}, {}, false};
  try {
    return dispatch(work, call);
  } catch (const Error& error) {
    return work.failure(status_of(verb_of(call), error), error.message());
  } catch (const std::exception& error) {
    return work.failure(Status::Internal, error.what());
  }
}

ToolResult refused(const Target& target, Status status, const std::string& message) {
  return Work{target, -1, {}, {}, false}.failure(status, message);
}

}
