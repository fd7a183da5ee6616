#pragma once
// What people and shells are told about the command line, made from the command table.

#include <string>
#include <string_view>

#include "mvm/cli/command.h"

namespace mvm::cli {

std::string overview();                            // `mvm --help`
std::string command_help(const Command& command);  // `mvm exec --help`
std::string group_help(std::string_view group);    // `mvm image --help`
std::string usage_line(const Command& command);    // "mvm exec [FLAGS] NAME …"
std::string reference_markdown();                  // docs/cli.md

// For bash, zsh or fish; "" for any other shell.
std::string completion_script(std::string_view shell);

}
