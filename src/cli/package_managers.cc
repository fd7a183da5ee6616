#include "package_managers.h"

#include <algorithm>
#include <utility>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/policy.h"
#include "mvm/sys/file.h"

namespace mvm::cli {
namespace {

constexpr size_t kMaxFile = size_t{1} << 20;
constexpr size_t kMaxFiles = 256;  // of one directory
constexpr size_t kMaxHosts = 256;
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// "name = value" or "name: value" of a line; empty when it is none.
struct Setting {
  std::string_view name;
  std::string_view value;
};
Setting setting_of(std::string_view line, char separator) {
  const size_t at = line.find(separator);
  if (at == line.npos) return {};
  return {trimmed(line.substr(0, at)), trimmed(line.substr(at + 1))};
}

bool is_comment(std::string_view line) {
  const std::string_view text = trimmed(line);
  return text.empty() || text.front() == '#' || text.front() == ';';
}

std::string without_quotes(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front())
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

}

std::vector<std::string> apt_list_urls(std::string_view text) {
  std::vector<std::string> urls;
  for (const std::string_view line : split(text, '\n')) {
    auto parts = words(line.substr(0, line.find('#')));
    if (parts.empty() || (parts[0] != "deb" && parts[0] != "deb-src")) continue;
    // Options stand in brackets, with blanks between them.
    size_t at = 1;
    if (at < parts.size() && parts[at].starts_with('[')) {
      while (at < parts.size() && !parts[at].ends_with(']')) ++at;
      ++at;
    }
    if (at < parts.size()) urls.emplace_back(parts[at]);
  }
  return urls;
}

std::vector<std::string> apt_deb822_urls(std::string_view text) {
  std::vector<std::string> urls;
  std::vector<std::string> of_stanza;
  bool enabled = true;
  bool in_uris = false;
  const auto end_stanza = [&] {
    if (enabled) urls.insert(urls.end(), of_stanza.begin(), of_stanza.end());
    of_stanza.clear();
    enabled = true;
    in_uris = false;
  };
  for (const std::string_view line : split(text, '\n')) {
    if (trimmed(line).empty()) {
      end_stanza();
      continue;
    }
    if (line.front() == '#') continue;
    std::string_view uris;
    if (kBlanks.find(line.front()) != kBlanks.npos) {
      if (in_uris) uris = line;
    } else {
      const Setting setting = setting_of(line, ':');
      in_uris = lowered(setting.name) == "uris";
      if (in_uris) uris = setting.value;
      if (lowered(setting.name) == "enabled") enabled = lowered(setting.value) != "no";
    }
    for (const std::string_view uri : words(uris)) of_stanza.emplace_back(uri);
  }
  end_stanza();
  return urls;
}

std::vector<std::string> npmrc_urls(std::string_view text) {
  std::vector<std::string> urls;
  for (const std::string_view line : split(text, '\n')) {
    if (is_comment(line)) continue;
    const Setting setting = setting_of(line, '=');
    if (setting.name == "registry" || setting.name.ends_with(":registry"))
      urls.push_back(without_quotes(setting.value));
  }
  return urls;
}

std::vector<std::string> pip_conf_urls(std::string_view text) {
  std::vector<std::string> urls;
  bool listing = false;
  for (const std::string_view line : split(text, '\n')) {
    if (is_comment(line)) continue;
    std::string_view value;
    if (kBlanks.find(line.front()) != kBlanks.npos) {
      if (listing) value = line;
    } else {
      const Setting setting = setting_of(line, '=');
      std::string name = lowered(setting.name);
      std::ranges::replace(name, '_', '-');
      listing = name == "index-url" || name == "extra-index-url";
      if (listing) value = setting.value;
    }
    for (const std::string_view url : words(value)) urls.emplace_back(url);
  }
  return urls;
}

std::vector<std::string> cargo_config_urls(std::string_view text) {
  std::vector<std::string> urls;
  for (const std::string_view line : split(text, '\n')) {
    if (is_comment(line)) continue;
    const Setting setting = setting_of(line, '=');
    if (setting.name != "registry" && setting.name != "index") continue;
    std::string url = without_quotes(trimmed(setting.value.substr(0, setting.value.find(" #"))));
    if (url.starts_with("sparse+")) url.erase(0, 7);
    urls.push_back(std::move(url));
  }
  return urls;
}

std::vector<std::string> go_proxy_urls(std::string_view value) {
  std::vector<std::string> urls;
  for (const std::string_view part : split(value, ','))
    for (const std::string_view url : split(part, '|'))
      if (url.find("://") != url.npos) urls.emplace_back(trimmed(url));
  return urls;
}

std::optional<std::string> rule_for_url(std::string_view url) {
  for (const std::string_view prefix : {"mirror+", "sparse+"})
    if (url.starts_with(prefix)) url.remove_prefix(prefix.size());
  const bool https = url.starts_with("https://");
  if (!https && !url.starts_with("http://")) return std::nullopt;
  url.remove_prefix(https ? 8 : 7);
  std::string_view host = url.substr(0, url.find_first_of("/?#"));
  if (const size_t at = host.rfind('@'); at != host.npos) host.remove_prefix(at + 1);
  // A pattern in such a file would be a slip, not a rule.
  if (host.find('*') != host.npos || !policy::parse_host_rule(host)) return std::nullopt;
  return std::string(host);
}

namespace {

class Collector {
 public:
  Collector(std::string root, const Variable& variable)
      : root_(std::move(root)), variable_(variable) {}

  using Format = std::vector<std::string> (*)(std::string_view);
  void file(const std::string& path, Format format) {
    if (path.empty()) return;
    try {
      add(format(sys::read_text_file(root_ + path, kMaxFile)));
    } catch (const Error&) {
      // Not there, not for us to read, or far too large: the manager could not use it either.
    }
  }
  void directory(const std::string& path, std::string_view ending, Format format) {
    std::vector<std::string> names;
    try {
      names = sys::list_directory(root_ + path);
    } catch (const Error&) {
      return;
    }
    names.resize(std::min(names.size(), kMaxFiles));
    for (const std::string& name : names)
      if (name.ends_with(ending)) file(path + "/" + name, format);
  }
  void variable(std::string_view name, Format format) {
    if (const auto value = variable_(name)) add(format(*value));
  }
  std::string home(std::string_view below) const {
    const auto home = variable_("HOME");
    return home && home->starts_with('/') ? *home + std::string(below) : "";
  }
  // Whether anything was said since this was asked last.
  bool said_something() { return std::exchange(said_, false); }
  std::vector<std::string> take() { return std::move(hosts_); }

  void add(const std::vector<std::string>& urls) {
    said_ = said_ || !urls.empty();
    for (const std::string& url : urls) {
      auto rule = rule_for_url(url);
      if (!rule || hosts_.size() == kMaxHosts) continue;
      if (std::ranges::find(hosts_, *rule) == hosts_.end()) hosts_.push_back(std::move(*rule));
    }
  }

 private:
  bool said_ = false;
  std::string root_;
  const Variable& variable_;
  std::vector<std::string> hosts_;
};

std::vector<std::string> one_url(std::string_view value) {
  std::vector<std::string> urls;
  for (const std::string_view url : words(value)) urls.emplace_back(url);
  return urls;
}

// go env -w writes NAME=value lines.
std::vector<std::string> go_env_urls(std::string_view text) {
  std::vector<std::string> proxies;
  std::vector<std::string> sums;
  for (const std::string_view line : split(text, '\n')) {
    const Setting setting = setting_of(line, '=');
    if (setting.name == "GOPROXY") proxies = go_proxy_urls(setting.value);
    if (setting.name == "GOSUMDB") sums = go_sum_urls(setting.value);
  }
  proxies.insert(proxies.end(), sums.begin(), sums.end());
  return proxies;
}

}

std::vector<std::string> package_hosts(const std::string& root, const std::string& directory,
                                       const Variable& variable, const AskTools& ask) {
  Collector all(root, variable);
  std::vector<Manager> silent;
  const auto end_of = [&](Manager manager) {
    if (!all.said_something()) silent.push_back(manager);
  };
  all.file("/etc/apt/sources.list", apt_list_urls);
  all.directory("/etc/apt/sources.list.d", ".list", apt_list_urls);
  all.directory("/etc/apt/sources.list.d", ".sources", apt_deb822_urls);
  all.said_something();
  for (const std::string& path :
       {std::string("/etc/npmrc"), all.home("/.npmrc"),
        variable("NPM_CONFIG_USERCONFIG").value_or(""), directory + "/.npmrc"})
    all.file(path, npmrc_urls);
  all.variable("NPM_CONFIG_REGISTRY", one_url);
  end_of(Manager::Npm);
  for (const std::string& path :
       {std::string("/etc/pip.conf"), all.home("/.config/pip/pip.conf"), all.home("/.pip/pip.conf"),
        variable("PIP_CONFIG_FILE").value_or("")})
    all.file(path, pip_conf_urls);
  all.variable("PIP_INDEX_URL", one_url);
  all.variable("PIP_EXTRA_INDEX_URL", one_url);
  end_of(Manager::Pip);
  const std::string cargo = variable("CARGO_HOME").value_or(all.home("/.cargo"));
  for (const std::string& path :
       {cargo + "/config.toml", cargo + "/config", directory + "/.cargo/config.toml"})
    all.file(path, cargo_config_urls);
  end_of(Manager::Cargo);
  all.variable("GOPROXY", go_proxy_urls);
  all.variable("GOSUMDB", go_sum_urls);
  all.file(variable("GOENV").value_or(all.home("/.config/go/env")), go_env_urls);
  end_of(Manager::Go);
  if (!silent.empty()) all.add(ask(silent));
  return all.take();
}

}
