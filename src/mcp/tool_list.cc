// What a model reads of the tools. Schemas are JSON Schema 2020-12, and say what parse_call
// enforces.

#include "mvm/mcp/tools.h"

namespace mvm::mcp {
namespace {

using Json = json::Ordered;

Json text(const char* what) { return {{"type", "string"}, {"description", what}}; }
Json flag(const char* what) { return {{"type", "boolean"}, {"description", what}}; }
Json count(const char* what) { return {{"type", "integer"}, {"description", what}}; }
Json number(const char* what, uint64_t least, uint64_t most) {
  return {{"type", "integer"}, {"description", what}, {"minimum", least}, {"maximum", most}};
}
Json number(const char* what, uint64_t least, uint64_t most, uint64_t otherwise) {
  Json out = number(what, least, most);
  out["default"] = otherwise;
  return out;
}
Json choice(const char* what, Json values) {
  return {{"type", "string"}, {"description", what}, {"enum", std::move(values)}};
}
Json list(const char* what, Json items) {
  return {{"type", "array"}, {"description", what}, {"items", std::move(items)}};
}

Json input(Json properties, Json required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// Of each tool's results, good or bad.
Json output(const Json& own) {
  Json properties = {{"status", choice("What became of the call.",
                                       Json::array({"ok", "command_failed", "timed_out",
                                                    "policy_denied", "invalid", "file_error",
                                                    "limit", "busy", "transport", "internal"}))},
                     {"message", text("Why, where it is not ok.")},
                     {"sandbox", text("The sandbox's name.")},
                     {"sandbox_id", text("The sandbox's id, as in its audit log.")},
                     {"redacted", flag("Personal data and keys were replaced by [redacted].")}};
  properties.update(own);
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", Json::array({"status", "sandbox"})}};
}

// Hints for clients (2025-03-26); none of the tools reaches outside of the sandbox by itself, but a
// command may, as far as the sandbox's network policy lets it.
Json hints(bool read_only, bool destructive, bool idempotent, bool open_world) {
  return {{"readOnlyHint", read_only},
          {"destructiveHint", destructive},
          {"idempotentHint", idempotent},
          {"openWorldHint", open_world}};
}

Json run_tool() {
  return {
      {"name", "run"},
      {"title", "Run a command"},
      {"description",
       "Runs a program in the sandbox and waits for its end. No shell takes part: for pipes and "
       "globs use argv [\"sh\", \"-c\", \"…\"]. A non-zero exit code is a result (status "
       "command_failed), not an error. The time-out ends the command with all that it started. "
       "Background processes outlive the call. Of long output the beginning and the end are kept; "
       "write what you need whole to a file and read that. What the network refused: "
       "network_refusals."},
      {"inputSchema",
       input({{"argv",
               {{"type", "array"},
                {"description", "The program, found by PATH, and its arguments."},
                {"items", {{"type", "string"}}},
                {"minItems", 1},
                {"maxItems", proto::kMaxArguments}}},
              {"cwd", text("Absolute path to run in. Default: the sandbox's own.")},
              {"env",
               {{"type", "object"},
                {"description", "Variables besides the sandbox's own."},
                {"additionalProperties", {{"type", "string"}}}}},
              {"stdin", text("Text for its standard input. Default: none, /dev/null.")},
              {"timeout_seconds",
               number("Seconds that it may take.", 1, kMaxTimeout, kDefaultTimeout)},
              {"max_output_bytes",
               number("Bytes kept of stdout, and of stderr.", 1, kMaxOutput, kDefaultOutput)}},
             Json::array({"argv"}))},
      {"outputSchema",
       output({{"run_id", text("The command's run in the audit log.")},
               {"exit_code", count("Where it ended by itself; 127: not found, 126: cannot run.")},
               {"signal", count("The signal that ended it.")},
               {"timed_out", flag("Its time was over, and it was ended.")},
               {"out_of_memory", flag("Processes of it were ended for want of memory.")},
               {"duration_ms", count("From the request to the end.")},
               {"stdout", text("What it printed.")},
               {"stdout_bytes", count("Bytes that it printed, kept or not.")},
               {"stdout_truncated", flag("Bytes are left out, where the text says so.")},
               {"stdout_lossy", flag("Bytes that are no UTF-8 became U+FFFD.")},
               {"stderr", text("What it printed as errors.")},
               {"stderr_bytes", count("As stdout_bytes.")},
               {"stderr_truncated", flag("As stdout_truncated.")},
               {"stderr_lossy", flag("As stdout_lossy.")}})},
      {"annotations", hints(false, true, false, true)}};
}

Json read_tool() {
  return {
      {"name", "read_file"},
      {"title", "Read a file"},
      {"description",
       "Reads a part of a regular file of the sandbox. Where there is more, next_offset says "
       "where to go on. Content that is no UTF-8 comes as base64."},
      {"inputSchema",
       input({{"path", text("Absolute path.")},
              {"offset", number("Byte to start at.", 0, kMaxOffset, 0)},
              {"limit", number("Bytes to read at most.", 1, kMaxRead, kDefaultRead)}},
             Json::array({"path"}))},
      {"outputSchema",
       output({{"path", text("As asked for.")},
               {"content", text("What is there.")},
               {"encoding", choice("How content is written.", Json::array({"utf-8", "base64"}))},
               {"offset", count("Where it starts.")},
               {"bytes", count("Bytes of content.")},
               {"size", count("Bytes of the file.")},
               {"truncated", flag("There is more.")},
               {"next_offset", count("Where it goes on, if there is more.")}})},
      {"annotations", hints(true, false, true, false)}};
}

Json write_tool() {
  return {
      {"name", "write_file"},
      {"title", "Write a file"},
      {"description",
       "Replaces a file of the sandbox as a whole, or makes it; whoever reads it sees the old "
       "content or the new. The folder must be there. Mode and owner of an existing file stay; a "
       "new one is root's."},
      {"inputSchema", input({{"path", text("Absolute path.")},
                             {"content", text("What is to be in it; at most 4 MiB.")},
                             {"encoding", choice("How content is written. Default: utf-8.",
                                                 Json::array({"utf-8", "base64"}))},
                             {"mode",
                              {{"type", "string"},
                               {"description", "Permissions, octal. Default: 0644 for a new file."},
                               {"pattern", "^[0-7]{3,4}$"}}}},
                            Json::array({"path", "content"}))},
      {"outputSchema",
       output({{"path", text("As asked for.")}, {"bytes", count("Bytes written.")}})},
      {"annotations", hints(false, true, true, false)}};
}

Json list_tool() {
  return {{"name", "list_files"},
          {"title", "List a folder"},
          {"description",
           "Lists a folder of the sandbox, in the file system's order; folders below it are not "
           "entered."},
          {"inputSchema",
           input({{"path", text("Absolute path.")},
                  {"limit", number("Entries at most.", 1, kMaxEntries, kDefaultEntries)}},
                 Json::array({"path"}))},
          {"outputSchema",
           output({{"path", text("As asked for.")},
                   {"entries",
                    list("What is in it.",
                         {{"type", "object"},
                          {"properties",
                           {{"name", text("Its name.")},
                            {"lossy", flag("Bytes of its name that are no UTF-8 became U+FFFD.")},
                            {"type", text("file, directory, symlink, pipe, socket, …")},
                            {"size", count("Bytes.")},
                            {"mode", text("Permissions, octal.")},
                            {"mtime", count("When it was changed, seconds since 1970.")},
                            {"target", text("Where a symlink leads.")}}},
                          {"required", Json::array({"name", "type"})}})},
                   {"truncated", flag("There are more.")}})},
          {"annotations", hints(true, false, true, false)}};
}

Json refusals_tool() {
  return {
      {"name", "network_refusals"},
      {"title", "What the network refused"},
      {"description",
       "What the sandbox's network policy refused, and the flag by which the operator could allow "
       "each. You cannot allow it yourself: tell the user what you need and why."},
      {"inputSchema", input({{"run_id", text("Of a result of run: only what was refused while "
                                             "that ran. Default: all of it.")}},
                            Json::array())},
      {"outputSchema",
       output({{"refusals",
                list("Each once, in the order of coming.",
                     {{"type", "object"},
                      {"properties",
                       {{"what", text("Host and port, or the request.")},
                        {"reason", text("Why, in a word.")},
                        {"allow", text("The operator's flag that would allow exactly this; none: "
                                       "nothing does.")},
                        {"let_through", flag("Policy is in audit mode: it was not refused, but "
                                             "would be.")}}},
                      {"required", Json::array({"what", "reason"})}})},
               {"more", count("Refusals that are not shown.")}})},
      {"annotations", hints(true, false, true, false)}};
}

}

json::Ordered tool_list() {
  return Json::array({run_tool(), read_tool(), write_tool(), list_tool(), refusals_tool()});
}

}
