#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/http/message.h"
#include "mvm/registry/transport.h"

namespace mvm::registry {

Url parse_url(std::string_view text) {
  const auto refuse = [&](const char* why) {
    throw Error(Kind::Invalid, "URL \"" + printable(text, 120) + "\": " + why);
  };
  Url url;
  std::string_view rest = text;
  if (text.size() > kMaxUrl) refuse("it is too long");
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    url.tls = false;
    rest.remove_prefix(7);
  } else {
    refuse("it must start with https:// (or http:// for this host)");
  }
  rest = rest.substr(0, rest.find('#'));
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  url.host = rest.substr(0, end);
  url.target = rest.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  if (url.host.find('@') != std::string::npos) refuse("a password has no place in it");
  std::string_view name = url.host;
  url.port = url.tls ? "443" : "80";
  if (const size_t colon = name.rfind(':'); colon != name.npos && !name.ends_with(']')) {
    url.port = name.substr(colon + 1);
    name = name.substr(0, colon);
    const auto number = parse_u64(url.port);
    if (!number || *number == 0 || *number > 65535) refuse("its port is none");
  }
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
  if (!good) refuse("its host is none");
  url.name = name;
  if (!http::is_target(url.target)) refuse("it has characters that must be escaped");
  return url;
}

Url resolve_url(const Url& base, std::string_view location) {
  if (location.starts_with("//"))
    return parse_url((base.tls ? "https:" : "http:") + std::string(location));
  if (location.starts_with('/')) return parse_url(base.origin() + std::string(location));
  if (location.find("://") != location.npos) return parse_url(location);
  const std::string path = base.target.substr(0, base.target.find('?'));
  return parse_url(base.origin() + path.substr(0, path.rfind('/') + 1) + std::string(location));
}

}
