#include "mvm/http/refusal.h"

namespace mvm::http {

// The length of the well-formed UTF-8 sequence at the front (RFC 3629 §4); 0 when there is none.
static size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const auto follows = [&](size_t at, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(at) >= low && byte(at) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool second = first == 0xe0   ? follows(1, 0xa0)
                        : first == 0xed ? follows(1, 0x80, 0x9f)
                                        : follows(1);
    return second && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool second = first == 0xf0   ? follows(1, 0x90)
                        : first == 0xf4 ? follows(1, 0x80, 0x8f)
                                        : follows(1);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string json_string(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (length == 1 && (c < 0x20 || c == 0x7f)) {
      out.append("\\u00").append({kDigits[c >> 4], kDigits[c & 15]});
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string refusal_body(const Refusal& refusal) {
  std::string out = "{";
  for (const auto& [name, value] : refusal.beside)
    out.append(json_string(name)).append(":").append(json_string(value)).append(",");
  out += "\"error\":{\"reason\":" + json_string(refusal.reason) +
         ",\"message\":" + json_string(refusal.message);
  if (refusal.code) out += ",\"code\":" + std::to_string(*refusal.code);
  for (const auto& [name, value] : refusal.details)
    out.append(",").append(json_string(name)).append(":").append(json_string(value));
  return out + "}}\n";
}

ResponseHead refusal_head(const Refusal& refusal, size_t body_length) {
  ResponseHead head;
  head.status = refusal.status;
  head.reason = reason_phrase(refusal.status);
  head.headers = {{"Content-Type", "application/json"},
                  {"Cache-Control", "no-store"},
                  {std::string(kReasonField), refusal.reason}};
  if (refusal.close) head.headers.push_back({"Connection", "close"});
  if (!refusal.passing) head.headers.push_back({"X-Should-Retry", "false"});
  head.framing = {BodyKind::Length, body_length};
  return head;
}

std::string encode_refusal(const Refusal& refusal, std::string_view method) {
  const std::string body = refusal_body(refusal);
  std::string out = encode(refusal_head(refusal, body.size()));
  if (method != "HEAD") out += body;
  return out;
}

}
