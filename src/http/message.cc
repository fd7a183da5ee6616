#include "mvm/http/message.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/http/forward.h"

#include "fields.h"

namespace mvm::http {

static char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* find(const Headers& headers, std::string_view name) noexcept {
  for (const Header& header : headers)
    if (same_name(header.name, name)) return &header.value;
  return nullptr;
}

size_t count(const Headers& headers, std::string_view name) noexcept {
  return static_cast<size_t>(
      std::count_if(headers.begin(), headers.end(),
                    [&](const Header& header) { return same_name(header.name, name); }));
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool has_token(const Headers& headers, std::string_view name, std::string_view token) noexcept {
  for (const Header& header : headers) {
    if (!same_name(header.name, name)) continue;
    std::string_view rest = header.value;
    while (true) {
      const size_t comma = rest.find(',');
      if (same_name(trimmed(rest.substr(0, comma)), token)) return true;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

bool keeps_alive(int minor, const Headers& headers) noexcept {
  if (has_token(headers, "connection", "close")) return false;
  return minor >= 1 || has_token(headers, "connection", "keep-alive");
}

static constexpr auto kTokenBytes = [] {
  std::array<bool, 256> table{};
  for (unsigned c = '0'; c <= '9'; ++c) table[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (unsigned c = 'A'; c <= 'Z'; ++c) table[c] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}();

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return kTokenBytes[static_cast<unsigned char>(c)];
  });
}

bool is_field_value(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

// RFC 3986 has no place in a URI for any of '"', '<', '>', '\', '^', '`', '{', '|', '}', but real
// clients send them: Node's fetch all but the first three (the WHATWG's URLs), curl whatever it is
// given. Where no reader takes them for something else they pass: in a query any, in a path those
// that are not a second spelling of a slash or the end of a link.
bool is_target(std::string_view text) noexcept {
  const auto passes = [](std::string_view part, std::string_view but) {
    return std::all_of(part.begin(), part.end(), [but](char c) {
      return c > 0x20 && c < 0x7f && but.find(c) == std::string_view::npos;
    });
  };
  const size_t query = std::min(text.find('?'), text.size());
  return !text.empty() && passes(text.substr(0, query), "\"#<>\\`") &&
         passes(text.substr(query), "#");
}

std::string_view reason_phrase(unsigned status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "";
  }
}

void append_request_line(std::string& out, const RequestHead& head) {
  if (!is_token(head.method)) throw Error(Kind::Invalid, "the request method is not a token");
  if (!is_target(head.target))
    throw Error(Kind::Invalid, "the request target has characters that a URI cannot hold");
  MVM_ASSERT(head.framing.kind != BodyKind::UntilClose);
  out.append(head.method).append(" ").append(head.target);
  out.append(head.minor == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
}

void append_status_line(std::string& out, const ResponseHead& head) {
  MVM_ASSERT(head.status >= 100 && head.status <= 599);
  if (!is_field_value(head.reason))
    throw Error(Kind::Invalid, "the reason phrase has control characters");
  out.append(head.minor == 0 ? "HTTP/1.0 " : "HTTP/1.1 ").append(std::to_string(head.status));
  out.append(" ").append(head.reason).append("\r\n");
}

void append_field(std::string& out, const Header& header) {
  if (!is_token(header.name)) throw Error(Kind::Invalid, "a header name is not a token");
  if (!is_field_value(header.value) || trimmed(header.value).size() != header.value.size())
    throw Error(Kind::Invalid, "the value of header " + header.name +
                                   " has control characters or white space around it");
  out.append(header.name).append(": ").append(header.value).append("\r\n");
}

void append_framing(std::string& out, const Framing& framing) {
  if (framing.kind == BodyKind::Length)
    out.append("Content-Length: ").append(std::to_string(framing.length)).append("\r\n");
  if (framing.kind == BodyKind::Chunked) out.append("Transfer-Encoding: chunked\r\n");
}

static void append_headers(std::string& out, const Headers& headers, const Framing& framing) {
  for (const Header& header : headers) {
    if (same_name(header.name, "content-length") || same_name(header.name, "transfer-encoding"))
      throw Error(Kind::Invalid, "header " + header.name + " is the framing's to write");
    append_field(out, header);
  }
  append_framing(out, framing);
  out.append("\r\n");
}

std::string encode(const RequestHead& head) {
  std::string out;
  append_request_line(out, head);
  append_headers(out, head.headers, head.framing);
  return out;
}

std::string encode(const ResponseHead& head) {
  std::string out;
  append_status_line(out, head);
  append_headers(out, head.headers, head.framing);
  return out;
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  append_chunk_size(out, data.size());
  out.append(data).append(kChunkEnd);
}

}
