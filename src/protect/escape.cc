#include <algorithm>

#include "mvm/protect/restore.h"

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr std::string_view kHex = "0123456789ABCDEF";

void append_json(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<uint8_t>(c);
  if (byte >= 0x20) {
    out += c;
    return;
  }
  out += "\\u00";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

void append_url(std::string& out, char c) {
  if (is(c, kAlnum) || c == '-' || c == '_' || c == '.' || c == '~') {
    out += c;
    return;
  }
  const auto byte = static_cast<uint8_t>(c);
  out += '%';
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

void append_html(std::string& out, char c) {
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      out += c;
  }
}

}

// Whether it is written as it is.
static bool stays(char c, Escaping escaping) {
  if (escaping == Escaping::JsonString)
    return c != '"' && c != '\\' && static_cast<uint8_t>(c) >= 0x20;
  return escaping == Escaping::Plain || is(c, kAlnum);
}

std::string escaped(std::string_view text, Escaping escaping) {
  std::string out;
  if (std::ranges::all_of(text, [escaping](char c) { return stays(c, escaping); }))
    return std::string(text);
  out.reserve(text.size());
  for (const char c : text) {
    switch (escaping) {
      case Escaping::Plain:
        out += c;
        break;
      case Escaping::JsonString:
        append_json(out, c);
        break;
      case Escaping::Url:
        append_url(out, c);
        break;
      case Escaping::Html:
        append_html(out, c);
        break;
    }
  }
  return out;
}

}
