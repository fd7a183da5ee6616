#include "mvm/http/target.h"

#include <algorithm>

#include "mvm/base/ip.h"
#include "mvm/dns/name.h"

namespace mvm::http {

static bool all_digits(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// No leading zero, sign or emptiness: one number has one spelling.
static std::optional<uint16_t> parse_port(std::string_view text) noexcept {
  if (!all_digits(text) || text.size() > 5 || text.front() == '0') return std::nullopt;
  unsigned value = 0;
  for (const char c : text) value = value * 10 + static_cast<unsigned>(c - '0');
  if (value > UINT16_MAX) return std::nullopt;
  return static_cast<uint16_t>(value);
}

// Browsers and many libraries take "127.1", "0x7f000001" and "2130706433" for addresses.
static bool may_be_an_address(std::string_view name) noexcept {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return all_digits(last) || last.starts_with("0x");
}

static std::optional<std::string> parse_host(std::string_view text) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return std::nullopt;
    const auto address = IpAddress::parse(text.substr(1, text.size() - 2));
    if (!address || address->is_v4()) return std::nullopt;
    return address->text();
  }
  if (const auto address = IpAddress::parse(text))
    return address->is_v4() ? std::optional(address->text()) : std::nullopt;
  const auto name = dns::Name::parse(text);
  if (!name || text == ".") return std::nullopt;
  std::string host = name->text();
  if (may_be_an_address(host)) return std::nullopt;
  return host;
}

std::optional<Authority> parse_authority(std::string_view text) {
  Authority out;
  const size_t colon = text.rfind(':');
  const size_t bracket = text.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || bracket < colon)) {
    out.port = parse_port(text.substr(colon + 1));
    if (!out.port) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (text.size() > kMaxAuthorityHost + 2) return std::nullopt;
  auto host = parse_host(text);
  if (!host) return std::nullopt;
  out.host = std::move(*host);
  return out;
}

// ---- forms

// RFC 9112 §3.2.2; "*" for OPTIONS of a server as a whole (§3.2.4).
static bool read_absolute(const RequestHead& head, RequestTarget& target) {
  const std::string_view text = head.target;
  for (const std::string_view scheme : {"http", "https"}) {
    if (text.size() < scheme.size() + 3 || !same_name(text.substr(0, scheme.size()), scheme) ||
        text.substr(scheme.size(), 3) != "://")
      continue;
    const std::string_view rest = text.substr(scheme.size() + 3);
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    target.form = TargetForm::Absolute;
    target.scheme = scheme;
    target.authority = parse_authority(rest.substr(0, end));
    target.origin = rest.substr(end);
    if (target.origin.empty() && head.method == "OPTIONS")
      target.origin = "*";
    else if (!target.origin.starts_with('/'))
      target.origin.insert(0, "/");
    return target.authority.has_value();
  }
  return false;
}

static bool read_form(const RequestHead& head, RequestTarget& target) {
  if (head.method == "CONNECT") {
    target.form = TargetForm::Authority;
    target.authority = parse_authority(head.target);
    return target.authority && target.authority->port;
  }
  if (head.target.starts_with('/')) {
    target.origin = head.target;
    return true;
  }
  if (head.target == "*" && head.method == "OPTIONS") {
    target.form = TargetForm::Asterisk;
    target.origin = "*";
    return true;
  }
  return read_absolute(head, target);
}

// A port that is not written is the scheme's. Of CONNECT the target alone counts: nothing of its
// head goes on to anybody, and clients that people use (Node's, undici's ProxyAgent) put the
// proxy's own name into Host.
static bool agrees(const RequestTarget& target, const Authority& host) {
  if (target.form == TargetForm::Authority) return true;
  if (host.host != target.authority->host) return false;
  const uint16_t usual = target.scheme == "https" ? 443 : 80;
  return host.port.value_or(usual) == target.authority->port.value_or(usual);
}

TargetFault read_target(const RequestHead& head, RequestTarget& target) {
  target = {};
  if (!read_form(head, target)) return TargetFault::BadTarget;
  const size_t hosts = count(head.headers, "host");
  if (hosts > 1) return TargetFault::BadHost;
  if (hosts == 0) return head.minor == 0 ? TargetFault::None : TargetFault::BadHost;
  const auto host = parse_authority(*find(head.headers, "host"));
  if (!host) return TargetFault::BadHost;
  if (!target.authority)
    target.authority = host;
  else if (!agrees(target, *host))
    return TargetFault::HostMismatch;
  return TargetFault::None;
}

}
