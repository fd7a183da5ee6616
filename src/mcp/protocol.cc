// Specification: modelcontextprotocol.io, revisions 2024-11-05 to 2025-11-25, basic protocol,
// lifecycle, cancellation, progress and tools; JSON-RPC 2.0 for what those leave open.

#include "mvm/mcp/protocol.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/mcp/lines.h"

namespace mvm::mcp {
namespace {

constexpr std::array<std::string_view, 4> kRevisions{"2024-11-05", "2025-03-26", "2025-06-18",
                                                     "2025-11-25"};
constexpr Revision kNewest = Revision::Nov2025;

constexpr json::Limits kLimits{.bytes = kMaxLine};

constexpr double kExactNumbers = 9007199254740992.0;  // 2^53

// Ids and progress tokens: text, or a number that comes back as it went. JSON-RPC lets an id be
// null, MCP does not.
bool is_token(const json::Value& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size() <= kMaxToken;
  if (value.is_number_float()) return std::abs(value.get<double>()) < kExactNumbers;
  return value.is_number_integer();
}

// The member, or null.
const json::Value& member(const json::Value& object, std::string_view key) {
  static const json::Value none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

json::Ordered envelope() { return {{"jsonrpc", "2.0"}}; }

}

std::string_view revision_name(Revision revision) {
  return kRevisions.at(static_cast<size_t>(revision));
}

Protocol::Protocol(json::Ordered tools, ServerInfo info)
    : tools_(std::move(tools)), info_(std::move(info)) {
  for (const auto& tool : tools_) names_.insert(tool.at("name").get<std::string>());
}

Step Protocol::take(std::string_view line) {
  Step step;
  if (line.find_first_not_of(" \t\r") == line.npos) return step;
  json::Value message;
  try {
    message = json::parse(line, "the message", kLimits);
  } catch (const Error& error) {
    fail(nullptr, Fault::Parse, error.message(), nullptr);
    return step;
  }
  if (message.is_array())
    take_batch(message, step);
  else
    take_message(message, nullptr, step);
  return step;
}

void Protocol::take_too_long() {
  fail(nullptr, Fault::Parse, "the message is larger than " + format_size(kMaxLine), nullptr);
}

void Protocol::take_batch(const json::Value& messages, Step& step) {
  if (revision_ != Revision::Mar2025)
    return fail(nullptr, Fault::InvalidRequest, "this revision of the protocol has no batches",
                nullptr);
  if (messages.empty() || messages.size() > kMaxBatch)
    return fail(nullptr, Fault::InvalidRequest,
                "a batch has 1 to " + std::to_string(kMaxBatch) + " messages", nullptr);
  const auto batch = std::make_shared<Batch>();
  for (const json::Value& message : messages) take_message(message, batch, step);
  close_one(batch);
}

void Protocol::take_message(const json::Value& message, const BatchPtr& batch, Step& step) {
  static const json::Value no_id;
  if (!message.is_object())
    return fail(no_id, Fault::InvalidRequest, "a message is an object", batch);
  const json::Value& id = member(message, "id");
  const bool wants_answer = message.contains("id");
  const bool legal = is_token(id);
  const auto invalid = [&](std::string_view why) {
    fail(legal ? id : no_id, Fault::InvalidRequest, why, batch);
  };
  if (member(message, "jsonrpc") != "2.0") return invalid("jsonrpc must be \"2.0\"");
  const json::Value& method = member(message, "method");
  // We ask a client nothing, so an answer of its is none.
  if (method.is_null() && (message.contains("result") || message.contains("error"))) return;
  if (!method.is_string()) return invalid("method must be a string");
  const auto& name = method.get_ref<const std::string&>();

  static const json::Value no_params = json::Value::object();
  const json::Value& given = member(message, "params");
  const json::Value& params = given.is_null() ? no_params : given;
  if (!wants_answer) {
    if (params.is_object()) take_notification(name, params, step);
    return;
  }
  if (!legal) return invalid("id must be a string of at most 256 bytes, or a number");
  // Under the id itself this would be the answer to the other one.
  const auto same = [&](const auto& entry) { return entry.second.id == id; };
  if (std::ranges::any_of(running_, same))
    return fail(no_id, Fault::InvalidRequest, "a request with this id still runs", batch);
  const Request request{id, name, params, batch};
  if (!params.is_object()) return fail(request, Fault::InvalidParams, "params must be an object");
  take_request(request, step);
}

void Protocol::take_notification(const std::string& method, const json::Value& params, Step& step) {
  if (method != "notifications/cancelled") return;  // none of the others asks for anything
  const json::Value& id = member(params, "requestId");
  for (auto& [number, call] : running_) {
    if (call.cancelled || call.id != id) continue;
    call.cancelled = true;
    step.cancel.push_back(number);
  }
}

void Protocol::take_request(const Request& request, Step& step) {
  if (request.method == "ping") return succeed(request, json::Ordered::object());
  if (request.method == "initialize") return initialize(request);
  if (request.method != "tools/list" && request.method != "tools/call")
    return fail(request, Fault::MethodNotFound, "no method " + printable(request.method, 64));
  if (!revision_) return fail(request, Fault::InvalidRequest, "initialize comes first");
  if (request.method == "tools/list") return list_tools(request);
  call_tool(request, step);
}

void Protocol::initialize(const Request& request) {
  if (request.batch) return fail(request, Fault::InvalidRequest, "initialize comes alone");
  if (revision_) return fail(request, Fault::InvalidRequest, "initialize comes once");
  const json::Value& asked = member(request.params, "protocolVersion");
  if (!asked.is_string())
    return fail(request, Fault::InvalidParams, "protocolVersion must be a string");
  const auto found = std::ranges::find(kRevisions, asked.get_ref<const std::string&>());
  revision_ =
      found == kRevisions.end() ? kNewest : static_cast<Revision>(found - kRevisions.begin());

  json::Ordered result;
  result["protocolVersion"] = revision_name(*revision_);
  result["capabilities"] = {{"tools", {{"listChanged", false}}}};
  result["serverInfo"] = {{"name", "mvm"}, {"version", info_.version}};
  if (at_least(Revision::Jun2025)) result["serverInfo"]["title"] = "mvm sandbox";
  result["instructions"] = info_.instructions;
  succeed(request, std::move(result));
}

void Protocol::list_tools(const Request& request) {
  if (request.params.contains("cursor"))
    return fail(request, Fault::InvalidParams, "the list has one page, and so no cursor");
  json::Ordered tools = tools_;
  for (auto& tool : tools) {
    if (!at_least(Revision::Mar2025)) tool.erase("annotations");
    if (at_least(Revision::Jun2025)) continue;
    tool.erase("title");
    tool.erase("outputSchema");
  }
  succeed(request, {{"tools", std::move(tools)}});
}

void Protocol::call_tool(const Request& request, Step& step) {
  const json::Value& name = member(request.params, "name");
  if (!name.is_string()) return fail(request, Fault::InvalidParams, "name must be a string");
  const auto& tool = name.get_ref<const std::string&>();
  if (!names_.contains(tool))
    return fail(request, Fault::InvalidParams, "no tool " + printable(tool, 64));
  const json::Value& given = member(request.params, "arguments");
  if (!given.is_null() && !given.is_object())
    return fail(request, Fault::InvalidParams, "arguments must be an object");

  Running call{request.id, nullptr, request.batch};
  const json::Value& meta = member(request.params, "_meta");
  if (meta.is_object() && is_token(member(meta, "progressToken")))
    call.progress_token = member(meta, "progressToken");
  if (call.batch) ++call.batch->open;
  running_.emplace(++last_number_, std::move(call));
  step.start.push_back({last_number_, tool, given.is_null() ? json::Value::object() : given});
}

void Protocol::finish(uint64_t number, const ToolResult& result) {
  const auto found = running_.find(number);
  MVM_ASSERT(found != running_.end());
  const Running call = std::move(found->second);
  running_.erase(found);
  if (!call.cancelled) {
    // The text is for clients that know no structure; the specification asks for it.
    json::Ordered body;
    body["content"] = json::Ordered::array(
        {json::Ordered{{"type", "text"}, {"text", json::dump(result.structured)}}});
    if (at_least(Revision::Jun2025)) body["structuredContent"] = result.structured;
    body["isError"] = result.is_error;
    json::Ordered message = envelope();
    message["id"] = call.id;
    message["result"] = std::move(body);
    answer(std::move(message), call.batch);
  }
  if (call.batch) close_one(call.batch);
}

void Protocol::progress(uint64_t number, double seconds) {
  const auto found = running_.find(number);
  if (found == running_.end() || found->second.cancelled || found->second.progress_token.is_null())
    return;
  json::Ordered message = envelope();
  message["method"] = "notifications/progress";
  message["params"] = {{"progressToken", json::Ordered(found->second.progress_token)},
                       {"progress", seconds}};
  if (at_least(Revision::Mar2025))
    message["params"]["message"] =
        "still running, seconds: " + std::to_string(std::lround(seconds));
  send(message);
}

// ---- answers --------------------------------------------------------------------------------

void Protocol::succeed(const Request& request, json::Ordered result) {
  json::Ordered message = envelope();
  message["id"] = request.id;
  message["result"] = std::move(result);
  answer(std::move(message), request.batch);
}

void Protocol::fail(const json::Value& id, Fault fault, std::string_view why,
                    const BatchPtr& batch) {
  json::Ordered message = envelope();
  message["id"] = id;
  message["error"] = {{"code", static_cast<int>(fault)}, {"message", why}};
  answer(std::move(message), batch);
}

void Protocol::answer(json::Ordered message, const BatchPtr& batch) {
  if (batch)
    batch->answers.push_back(std::move(message));
  else
    send(message);
}

void Protocol::close_one(const BatchPtr& batch) {
  if (--batch->open == 0 && !batch->answers.empty()) send(batch->answers);
}

void Protocol::send(const json::Ordered& message) { output_ += json::dump(message) + '\n'; }

}
