#pragma once
// The tools: what each takes, in words and schemas for the model, and as values once judged. Here
// are the bounds of what one call may ask for and may be answered.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "mvm/json/json.h"
#include "mvm/proto/exec.h"

namespace mvm::mcp {

inline constexpr uint64_t kDefaultTimeout = 120;  // seconds
inline constexpr uint64_t kMaxTimeout = 3600;
inline constexpr size_t kMaxInput = size_t{1} << 20;        // bytes of a command's stdin
inline constexpr size_t kDefaultOutput = size_t{64} << 10;  // bytes kept of each stream
inline constexpr size_t kMaxOutput = size_t{256} << 10;
inline constexpr size_t kDefaultRead = size_t{64} << 10;  // bytes
inline constexpr size_t kMaxRead = size_t{256} << 10;
inline constexpr size_t kMaxContent = size_t{4} << 20;     // bytes of a file that is written
inline constexpr uint64_t kMaxOffset = uint64_t{1} << 44;  // as proto::kMaxFileSize
inline constexpr size_t kDefaultEntries = 500;
inline constexpr size_t kMaxEntries = 2000;
inline constexpr size_t kMaxRefusals = 100;

struct RunCall {
  proto::ExecRequest request;  // without an id of the run
  std::string input;
  size_t keep = kDefaultOutput;
};
struct ReadCall {
  std::string path;
  uint64_t offset = 0;
  uint64_t limit = kDefaultRead;
};
struct WriteCall {
  std::string path;
  std::string content;
  std::optional<uint32_t> mode;
};
struct ListCall {
  std::string path;
  uint64_t limit = kDefaultEntries;
};
struct RefusalsCall {
  std::string run;  // empty: all
};
using Call = std::variant<RunCall, ReadCall, WriteCall, ListCall, RefusalsCall>;

// A call of one of tool_list(). Error{Invalid} tells the model what is wrong with its arguments.
Call parse_call(std::string_view tool, const json::Value& arguments);

// As tools/list shows them, in full.
json::Ordered tool_list();

}
