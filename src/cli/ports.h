#pragma once
// Published ports as text.

#include <string>

#include "mvm/api/types.h"
#include "mvm/cli/context.h"

namespace mvm::cli {

// "127.0.0.1:8080->80, …" for a row of `mvm ps`.
std::string ports_text(const std::vector<proto::PublishedPort>& ports);
// A line for each that other machines reach.
void warn_of_open_ports(Context& context, const std::string& sandbox,
                        const std::vector<proto::PublishedPort>& ports);

}
