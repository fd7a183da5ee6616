#pragma once
// The Model Context Protocol as pure state: lines of a client in, lines for it out, and in between
// the calls of tools that are to be started and stopped. It knows no tool's meaning, no descriptor
// and no clock.
//
// JSON-RPC 2.0, one message a line. What is kept of a client is what runs: at most as many calls as
// it is let start (whoever starts them answers the others at once), and the answers that a batch
// waits for.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/json/json.h"

namespace mvm::mcp {

// By their dates, older first. 2025-03-26 alone has batches; structured results came with
// 2025-06-18.
enum class Revision { Nov2024, Mar2025, Jun2025, Nov2025 };
std::string_view revision_name(Revision revision);

inline constexpr size_t kMaxBatch = 32;
inline constexpr size_t kMaxToken = 256;  // bytes of an id, or of a progress token, that is text

// The error codes of JSON-RPC 2.0, section 5.1.
enum class Fault {
  Parse = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
};

struct ServerInfo {
  std::string version;
  std::string instructions;  // for the model
};

// A call of a tool that there is. Its arguments are an object, and nothing else is known of them.
struct ToolCall {
  uint64_t number = 0;  // ours, never used twice
  std::string tool;
  json::Value arguments;
};

struct ToolResult {
  json::Ordered structured;
  bool is_error = false;
};

// What a line asks for.
struct Step {
  std::vector<ToolCall> start;
  std::vector<uint64_t> cancel;
};

class Protocol {
 public:
  // `tools` as tools/list shows them to a client of the newest revision.
  Protocol(json::Ordered tools, ServerInfo info);

  // A line without its line feed.
  Step take(std::string_view line);
  void take_too_long();

  // The end of a call, also of one that was cancelled; that one's result is dropped.
  void finish(uint64_t number, const ToolResult& result);
  // That a call goes on, if its client wants to hear so. `seconds` grow from one time to the next.
  void progress(uint64_t number, double seconds);

  // Lines for the client, with their line feeds, until they are cleared.
  const std::string& output() const { return output_; }
  void clear_output() { output_.clear(); }
  size_t running() const { return running_.size(); }

 private:
  // Answers of messages that came in one array leave in one array.
  struct Batch {
    json::Ordered answers = json::Ordered::array();
    size_t open = 1;  // calls that run, and the reading of the batch itself
  };
  using BatchPtr = std::shared_ptr<Batch>;
  struct Running {
    json::Value id;
    json::Value progress_token;  // null: none
    BatchPtr batch;
    bool cancelled = false;
  };
  struct Request {
    const json::Value& id;
    const std::string& method;
    const json::Value& params;  // an object
    const BatchPtr& batch;
  };

  void take_batch(const json::Value& messages, Step& step);
  void take_message(const json::Value& message, const BatchPtr& batch, Step& step);
  void take_notification(const std::string& method, const json::Value& params, Step& step);
  void take_request(const Request& request, Step& step);
  void initialize(const Request& request);
  void list_tools(const Request& request);
  void call_tool(const Request& request, Step& step);

  void succeed(const Request& request, json::Ordered result);
  void fail(const json::Value& id, Fault fault, std::string_view message, const BatchPtr& batch);
  void fail(const Request& request, Fault fault, std::string_view message) {
    fail(request.id, fault, message, request.batch);
  }
  void answer(json::Ordered message, const BatchPtr& batch);
  void close_one(const BatchPtr& batch);
  void send(const json::Ordered& message);
  bool at_least(Revision revision) const { return revision_ && *revision_ >= revision; }

  json::Ordered tools_;
  std::set<std::string, std::less<>> names_;
  ServerInfo info_;
  std::optional<Revision> revision_;  // nothing before initialize
  std::map<uint64_t, Running> running_;
  uint64_t last_number_ = 0;
  std::string output_;
};

}
