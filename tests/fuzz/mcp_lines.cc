// A client of the MCP server is a model's host, and says what a model made up. Whatever comes, in
// whatever pieces: what goes back is one JSON document a line, each call that starts is known to
// the protocol until it is finished, and none is finished twice.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/mcp/lines.h"
#include "mvm/mcp/protocol.h"
#include "mvm/mcp/tools.h"

#include "fuzz/input.h"

namespace mvm::mcp {
namespace {

// With few things to say, so that a turn costs little.
const json::Ordered& tools() {
  static const json::Ordered list = [] {
    json::Ordered all = tool_list();
    for (auto& tool : all) tool["outputSchema"] = nullptr;
    return all;
  }();
  return list;
}

void check_output(Protocol& protocol) {
  std::string_view out = protocol.output();
  while (!out.empty()) {
    const size_t end = out.find('\n');
    if (end == out.npos) std::abort();
    const json::Value message = json::parse(out.substr(0, end), "an answer");
    for (const auto& each : message.is_array() ? message : json::Value::array({message}))
      if (each.at("jsonrpc") != "2.0" ||
          each.contains("result") + each.contains("error") + each.contains("method") != 1)
        std::abort();
    out.remove_prefix(end + 1);
  }
  protocol.clear_output();
}

void finish(Protocol& protocol, std::vector<uint64_t>& running, size_t which) {
  const uint64_t number = running.at(which);
  running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
  protocol.finish(number, {{{"status", "ok"}}, false});
}

}
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mvm;
  using namespace mvm::mcp;
  if (size == 0) return 0;
  Protocol protocol(tools(), {"1", "x"});
  LineBuffer lines(4096);
  std::vector<uint64_t> running;
  // The first byte is the length of pieces; the rest is what a client says, as it is.
  const size_t piece = data[0] + 1U;
  std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  while (!text.empty()) {
    lines.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
    while (const auto line = lines.next()) {
      if (line->too_long) protocol.take_too_long();
      const Step step = protocol.take(line->text);
      for (const ToolCall& call : step.start) {
        try {
          static_cast<void>(parse_call(call.tool, call.arguments));
        } catch (const Error& error) {
          if (error.kind() != Kind::Invalid) std::abort();
        }
        running.push_back(call.number);
        if (call.number % 3 == 0) finish(protocol, running, running.size() - 1);
      }
      for (const uint64_t number : step.cancel) {
        if (std::ranges::find(running, number) == running.end()) std::abort();
        protocol.progress(number, 1);
      }
      if (protocol.running() != running.size()) std::abort();
      while (running.size() > 8) finish(protocol, running, 0);
      for (const uint64_t number : running) protocol.progress(number, 1);
      check_output(protocol);
    }
  }
  while (!running.empty()) finish(protocol, running, 0);
  if (protocol.running() != 0) std::abort();
  check_output(protocol);
  return 0;
}
