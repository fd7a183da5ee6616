// Arguments of calls, judged. What a schema says and what is enforced here are tested against each
// other (tests/unit/mcp/tools_test.cc); a client need not have looked at the schema.

#include "mvm/mcp/tools.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/secret/text.h"

namespace mvm::mcp {
namespace {

[[noreturn]] void wrong(const std::string& complaint) { throw Error(Kind::Invalid, complaint); }

bool has_nul(std::string_view text) { return text.find('\0') != text.npos; }

// Reads the members of one object; names that are not asked for are errors, since what a model
// meant by them would be passed over in silence.
class Arguments {
 public:
  explicit Arguments(const json::Value& object) : object_(object) {}

  const json::Value* find(std::string_view name) {
    known_.push_back(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const json::Value& need(std::string_view name) {
    const json::Value* found = find(name);
    if (found == nullptr) wrong(std::string(name) + " is missing");
    return *found;
  }
  uint64_t number(std::string_view name, uint64_t least, uint64_t most, uint64_t otherwise) {
    const json::Value* found = find(name);
    if (found == nullptr) return otherwise;
    // 30.0 is an integer to JSON Schema.
    const double value = found->is_number() ? found->get<double>() : -1;
    if (value < static_cast<double>(least) || value > static_cast<double>(most) ||
        value != std::floor(value))
      wrong(std::string(name) + " must be a whole number from " + std::to_string(least) + " to " +
            std::to_string(most));
    return static_cast<uint64_t>(value);
  }
  std::string text(std::string_view name, const json::Value& value, size_t most) {
    if (!value.is_string()) wrong(std::string(name) + " must be a string");
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > most) wrong(std::string(name) + " is larger than " + format_size(most));
    return text;
  }
  // Of the sandbox; empty where it may be left out and is.
  std::string path(std::string_view name, bool needed = true) {
    const json::Value* found = needed ? &need(name) : find(name);
    if (found == nullptr) return "";
    std::string path = text(name, *found, proto::kMaxPath);
    if (!path.starts_with('/') || has_nul(path))
      wrong(std::string(name) + " must be an absolute path in the sandbox, as /work/a.txt");
    return path;
  }
  void expect_no_more() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::ranges::find(known_, name) != known_.end()) continue;
      const auto near = nearest(name, known_);
      wrong("there is no argument " + printable(name, 64) +
            (near ? "; do you mean " + *near + "?" : ""));
    }
  }

 private:
  const json::Value& object_;
  std::vector<std::string_view> known_;
};

std::vector<std::string> argv_of(const json::Value& value) {
  if (!value.is_array() || value.empty() || value.size() > proto::kMaxArguments)
    wrong("argv must be an array of 1 to " + std::to_string(proto::kMaxArguments) +
          R"( strings, as ["ls", "-l"]; for a shell, ["sh", "-c", "…"])");
  std::vector<std::string> argv;
  for (const json::Value& word : value) {
    if (!word.is_string() || has_nul(word.get_ref<const std::string&>()))
      wrong("argv must have strings alone, without NUL characters");
    argv.push_back(word.get<std::string>());
  }
  if (argv[0].empty()) wrong("argv must start with a program's name");
  return argv;
}

std::vector<std::pair<std::string, std::string>> environment_of(const json::Value& value) {
  if (!value.is_object() || value.size() > proto::kMaxEnvironment / 2)
    wrong("env must be an object of at most " + std::to_string(proto::kMaxEnvironment / 2) +
          " variables");
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, text] : value.items()) {
    if (name.empty() || name.find('=') != name.npos || has_nul(name))
      wrong("env has a name that is none: " + printable(name, 64));
    if (!text.is_string() || has_nul(text.get_ref<const std::string&>()))
      wrong("env." + printable(name, 64) + " must be a string without NUL characters");
    out.emplace_back(name, text.get<std::string>());
  }
  return out;
}

// Content as "encoding" says it is written.
std::string content_of(Arguments& arguments, std::string_view name, size_t most) {
  const json::Value& value = arguments.need(name);
  const json::Value* encoding = arguments.find("encoding");
  const bool coded = encoding != nullptr && *encoding == "base64";
  if (encoding != nullptr && !coded && *encoding != "utf-8")
    wrong("encoding must be utf-8 or base64");
  std::string text = arguments.text(name, value, coded ? most / 3 * 4 + 4 : most);
  if (!coded) return text;
  auto bytes = secret::base64_decode(text);
  if (!bytes) wrong(std::string(name) + " is not base64");
  if (bytes->size() > most) wrong(std::string(name) + " is larger than " + format_size(most));
  return std::move(*bytes);
}

RunCall run_call(Arguments& arguments) {
  RunCall call;
  call.request.argv = argv_of(arguments.need("argv"));
  call.request.cwd = arguments.path("cwd", false);
  if (const auto* env = arguments.find("env")) call.request.env = environment_of(*env);
  if (const auto* input = arguments.find("stdin"))
    call.input = arguments.text("stdin", *input, kMaxInput);
  call.request.stdin_open = !call.input.empty();
  call.request.timeout =
      std::chrono::seconds(arguments.number("timeout_seconds", 1, kMaxTimeout, kDefaultTimeout));
  call.keep = arguments.number("max_output_bytes", 1, kMaxOutput, kDefaultOutput);
  return call;
}

ReadCall read_call(Arguments& arguments) {
  ReadCall call;
  call.path = arguments.path("path");
  call.offset = arguments.number("offset", 0, kMaxOffset, 0);
  call.limit = arguments.number("limit", 1, kMaxRead, kDefaultRead);
  return call;
}

WriteCall write_call(Arguments& arguments) {
  WriteCall call;
  call.path = arguments.path("path");
  call.content = content_of(arguments, "content", kMaxContent);
  if (const auto* value = arguments.find("mode")) {
    const std::string mode = arguments.text("mode", *value, 8);
    if (mode.size() < 3 || mode.size() > 4 || mode.find_first_not_of("01234567") != mode.npos)
      wrong("mode must be three or four octal digits, as \"0644\"");
    call.mode = static_cast<uint32_t>(std::stoul(mode, nullptr, 8));
  }
  return call;
}

ListCall list_call(Arguments& arguments) {
  ListCall call;
  call.path = arguments.path("path");
  call.limit = arguments.number("limit", 1, kMaxEntries, kDefaultEntries);
  return call;
}

RefusalsCall refusals_call(Arguments& arguments) {
  RefusalsCall call;
  if (const auto* run = arguments.find("run_id"))
    call.run = arguments.text("run_id", *run, proto::kMaxRunId);
  return call;
}

Call dispatch(std::string_view tool, Arguments& arguments) {
  if (tool == "run") return run_call(arguments);
  if (tool == "read_file") return read_call(arguments);
  if (tool == "write_file") return write_call(arguments);
  if (tool == "list_files") return list_call(arguments);
  MVM_ASSERT(tool == "network_refusals");
  return refusals_call(arguments);
}

}

Call parse_call(std::string_view tool, const json::Value& object) {
  Arguments arguments(object);
  Call call = dispatch(tool, arguments);
  arguments.expect_no_more();
  return call;
}

}
