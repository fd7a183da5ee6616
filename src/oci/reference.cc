#include "mvm/oci/reference.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::oci {
namespace {

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(Kind::Invalid, "image reference \"" + printable(text, 80) + "\": " + why);
}

// [a-z0-9]+ joined by ".", "_", "__" or any number of "-".
bool is_component(std::string_view text) {
  if (text.empty() || !is_lower_alnum(text.front()) || !is_lower_alnum(text.back())) return false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (is_lower_alnum(text[at])) continue;
    const size_t start = at;
    while (!is_lower_alnum(text[at])) ++at;  // ends: the last one is
    const std::string_view separator = text.substr(start, at - start);
    const bool dashes = separator.find_first_not_of('-') == separator.npos;
    if (!dashes && separator != "." && separator != "_" && separator != "__") return false;
  }
  return true;
}

bool is_tag(std::string_view text) {
  if (text.empty() || text.size() > kMaxTag) return false;
  if (!is_alnum(text.front()) && text.front() != '_') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

// A host name or address ("[::1]"), with a port or without.
bool is_host(std::string_view text) {
  std::string_view name = text;
  if (const size_t colon = text.rfind(':'); colon != text.npos && !text.ends_with(']')) {
    const std::string_view port = text.substr(colon + 1);
    const auto number = parse_u64(port);
    if (!number || *number == 0 || *number > 65535 || port.size() > 5) return false;
    name = text.substr(0, colon);
  }
  if (name.starts_with('[') && name.ends_with(']'))
    return name.size() > 2 &&
           name.substr(1, name.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") ==
               name.npos;
  if (name.empty() || !is_alnum(name.front()) || !is_alnum(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_alnum(c) || c == '.' || c == '-'; });
}

bool looks_like_host(std::string_view first) {
  return first == "localhost" || first.find_first_of(".:[") != first.npos;
}

}

std::string Reference::text() const {
  return repository() + (tag.empty() ? "" : ":" + tag) + (digest ? "@" + digest->text() : "");
}

Reference parse_reference(std::string_view text) {
  Reference reference;
  std::string_view rest = text;
  if (const size_t at = rest.find('@'); at != rest.npos) {
    reference.digest = while_doing("image reference \"" + printable(text, 80) + "\"",
                                   [&] { return Digest::parse(rest.substr(at + 1)); });
    rest = rest.substr(0, at);
  }
  if (const size_t slash = rest.find('/');
      slash != rest.npos && looks_like_host(rest.substr(0, slash))) {
    reference.host = rest.substr(0, slash);
    if (!is_host(reference.host)) refuse(text, "its host is none");
    std::transform(reference.host.begin(), reference.host.end(), reference.host.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    rest = rest.substr(slash + 1);
  } else {
    reference.host = kDefaultHost;
  }
  if (reference.host == "index.docker.io") reference.host = kDefaultHost;
  if (const size_t colon = rest.find(':'); colon != rest.npos) {
    reference.tag = rest.substr(colon + 1);
    if (!is_tag(reference.tag))
      refuse(text, "its tag may have letters, digits, '_', '.' and '-', at most " +
                       std::to_string(kMaxTag));
    rest = rest.substr(0, colon);
  } else if (!reference.digest) {
    reference.tag = kDefaultTag;
  }
  const auto components = split(rest, '/');
  if (!std::all_of(components.begin(), components.end(), is_component))
    refuse(text,
           "each part of its path has lower case letters and digits, with '.', '_' or '-' between");
  reference.path = reference.host == kDefaultHost && components.size() == 1
                       ? "library/" + std::string(rest)
                       : std::string(rest);
  if (reference.host.size() + 1 + reference.path.size() > kMaxRepository)
    refuse(text, "it is longer than " + std::to_string(kMaxRepository) + " characters");
  return reference;
}

bool names_registry(std::string_view text) {
  return text.find('/') != text.npos || text.find('@') != text.npos;
}

bool is_loopback(std::string_view host) {
  if (!host.starts_with('['))
    host = host.substr(0, host.find(':'));
  else
    host = host.substr(0, host.find(']') + 1);
  if (host == "localhost" || host == "[::1]") return true;
  const auto parts = split(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    const auto number = parse_u64(part);
    return part.size() <= 3 && number && *number <= 255;
  });
}

}
