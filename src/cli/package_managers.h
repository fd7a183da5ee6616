#pragma once
// Which hosts this machine's package managers are set up to fetch from, read from their own
// configuration: apt, npm, pip, cargo, Go. Where a manager is not configured nothing is known of
// it, and nothing is assumed.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/cli/options.h"

#include "package_tools.h"

namespace mvm::cli {

// Rules for allow_hosts, "mirror.example" or "mirror.example:8081", each once, in no order that
// means anything. `root` goes in front of absolute paths, `directory` is where a project's own
// files are. Files that cannot be read, and addresses that are no host names, are passed over.
// `ask` is called once, with the managers of which no file and no variable says anything.
using AskTools = std::function<std::vector<std::string>(const std::vector<Manager>&)>;
std::vector<std::string> package_hosts(const std::string& root, const std::string& directory,
                                       const Variable& variable, const AskTools& ask);

// ---- the formats, each to the URLs in it
// ---------------------------------------------------------
std::vector<std::string> apt_list_urls(std::string_view text);    // sources.list(5), one line each
std::vector<std::string> apt_deb822_urls(std::string_view text);  // the same, as stanzas
std::vector<std::string> npmrc_urls(std::string_view text);       // registry=, @scope:registry=
std::vector<std::string> pip_conf_urls(std::string_view text);    // index-url, extra-index-url
std::vector<std::string> cargo_config_urls(std::string_view text);  // registry = "…", index = "…"
std::vector<std::string> go_proxy_urls(std::string_view value);     // GOPROXY's value

// "https://user@mirror.example:8081/path" to the rule that admits it; nothing for other schemes.
std::optional<std::string> rule_for_url(std::string_view url);

}
