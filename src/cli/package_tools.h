#pragma once
// What package managers say of their own settings, where the files that mvm reads do not say it: a
// default, or a file that only the tool finds. The tools are the user's, and run as the user; what
// they print is believed no more than a file.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/cli/options.h"

namespace mvm::cli {

enum class Manager : uint8_t { Npm, Pip, Cargo, Go };

struct ToolAnswer {
  std::vector<std::string> urls;  // "https://mirror.example:8081": the host of each, and no more
  bool whole = true;              // false: one was cut off, by time or by length
};

inline constexpr size_t kMaxToolOutput = 64 * 1024;

// Asks those that are on the PATH, all at once, and waits `patience` in all; what has not ended by
// then is killed. They run in the home directory: a project that somebody else wrote has no say in
// what they do. Parts of the PATH that are not absolute are passed over, for the same reason.
ToolAnswer ask_package_tools(const std::vector<Manager>& managers, const Variable& variable,
                             std::chrono::milliseconds patience);

// The same, remembered in `file` for as long as the tools are the same, a day at most; a few
// minutes where one was cut off. npm takes half a second to say a word.
std::vector<std::string> package_tool_urls(const std::vector<Manager>& managers,
                                           const Variable& variable,
                                           std::chrono::milliseconds patience,
                                           const std::string& file);

// ---- what they print, to the URLs in it
std::vector<std::string> pip_config_urls(std::string_view text);   // pip config list
std::vector<std::string> cargo_tool_urls(std::string_view text);   // cargo config get
std::vector<std::string> go_env_tool_urls(std::string_view text);  // go env GOPROXY GOSUMDB
std::vector<std::string> go_sum_urls(std::string_view value);      // GOSUMDB's value

}
