#include "mvm/http/upgrade.h"

#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/sha1.h"
#include "mvm/base/text.h"

#include "fields.h"

namespace mvm::http {

static constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// The values of all fields of a name as one list (RFC 9110 §5.6.1), empty elements left out.
static std::vector<std::string_view> list_of(const Headers& headers, std::string_view name) {
  std::vector<std::string_view> out;
  for (const Header& header : headers) {
    if (!same_name(header.name, name)) continue;
    for (const std::string_view element : split(header.value, ','))
      if (const std::string_view text = trimmed(element); !text.empty()) out.push_back(text);
  }
  return out;
}

static const std::string* only(const Headers& headers, std::string_view name) {
  return count(headers, name) == 1 ? find(headers, name) : nullptr;
}

// 16 bytes in base64: 22 digits and "==", the last digit having but two bits of its six.
static bool is_key(std::string_view text) noexcept {
  if (text.size() != 24 || !text.ends_with("==")) return false;
  for (const char c : text.substr(0, 22))
    if (kBase64.find(c) == std::string_view::npos) return false;
  return kBase64.find(text[21]) % 16 == 0;
}

static bool is_handshake(const RequestHead& head) {
  const std::string* upgrade = only(head.headers, "upgrade");
  const std::string* version = only(head.headers, "sec-websocket-version");
  const std::string* key = only(head.headers, "sec-websocket-key");
  return head.method == "GET" && head.minor == 1 && head.framing.kind == BodyKind::None &&
         upgrade != nullptr && same_name(*upgrade, "websocket") && version != nullptr &&
         *version == "13" && key != nullptr && is_key(*key);
}

Upgrade requested_upgrade(const RequestHead& head) noexcept {
  if (find(head.headers, "upgrade") == nullptr || !has_token(head.headers, "connection", "upgrade"))
    return Upgrade::None;
  if (!has_token(head.headers, "upgrade", "websocket")) return Upgrade::Other;
  return is_handshake(head) ? Upgrade::WebSocket : Upgrade::Malformed;
}

std::string websocket_accept(std::string_view key) {
  static constexpr std::string_view kMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const auto digest = sha1(as_bytes(std::string(key).append(kMagic)));
  // 20 bytes are six groups of three and one of two.
  std::string out;
  for (size_t at = 0; at < 21; at += 3) {
    const uint32_t group = static_cast<uint32_t>(digest[at]) << 16 |
                           static_cast<uint32_t>(digest[at + 1]) << 8 |
                           (at == 18 ? 0U : digest[at + 2]);
    for (const unsigned shift : {18U, 12U, 6U, 0U}) out += kBase64[(group >> shift) & 63U];
  }
  out.back() = '=';
  return out;
}

// "permessage-deflate; client_max_window_bits": the name is what counts.
static std::string_view extension_name(std::string_view text) noexcept {
  return trimmed(text.substr(0, text.find(';')));
}

static bool only_what_was_asked_for(const RequestHead& request, const ResponseHead& head) {
  const auto asked = list_of(request.headers, "sec-websocket-extensions");
  for (const std::string_view extension : list_of(head.headers, "sec-websocket-extensions")) {
    bool found = false;
    for (const std::string_view one : asked)
      found = found || extension_name(one) == extension_name(extension);
    if (!found) return false;
  }
  const auto chosen = list_of(head.headers, "sec-websocket-protocol");
  if (chosen.empty()) return true;
  if (chosen.size() > 1) return false;
  for (const std::string_view one : list_of(request.headers, "sec-websocket-protocol"))
    if (one == chosen.front()) return true;
  return false;
}

bool accepts_websocket(const RequestHead& request, const ResponseHead& head) {
  const std::string* upgrade = only(head.headers, "upgrade");
  const std::string* accept = only(head.headers, "sec-websocket-accept");
  const std::string* key = find(request.headers, "sec-websocket-key");
  return head.status == 101 && head.minor == 1 && upgrade != nullptr &&
         same_name(*upgrade, "websocket") && has_token(head.headers, "connection", "upgrade") &&
         accept != nullptr && key != nullptr && *accept == websocket_accept(*key) &&
         only_what_was_asked_for(request, head);
}

}
