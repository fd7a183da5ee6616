#include "mvm/http/forward.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "mvm/base/error.h"

#include "fields.h"

namespace mvm::http {

template <size_t size>
static bool is_one_of(std::string_view name,
                      const std::array<std::string_view, size>& names) noexcept {
  return std::ranges::any_of(names, [&](std::string_view one) { return same_name(name, one); });
}

// ---- heads

static constexpr std::string_view kLength = "content-length";
static constexpr std::string_view kCoding = "transfer-encoding";

static void append_fields(std::string& out, const Headers& headers, const Framing& framing) {
  bool written = false;
  for (const Header& header : headers) {
    const bool length = same_name(header.name, kLength);
    if (!length && !same_name(header.name, kCoding)) {
      append_field(out, header);
      continue;
    }
    if (written || framing.kind != (length ? BodyKind::Length : BodyKind::Chunked)) continue;
    append_field(out, {header.name, length ? std::to_string(framing.length) : "chunked"});
    written = true;
  }
  if (!written) append_framing(out, framing);
  out += "\r\n";
}

void append_forwarded(std::string& out, const RequestHead& head) {
  const size_t before = out.size();
  append_request_line(out, head);
  try {
    append_fields(out, head.headers, head.framing);
  } catch (const Error&) {
    out.resize(before);
    throw;
  }
}

void append_forwarded(std::string& out, const ResponseHead& head, std::string_view method) {
  const size_t before = out.size();
  append_status_line(out, head);
  try {
    if (method == "HEAD" || head.status == 304) {
      for (const Header& header : head.headers) append_field(out, header);
      out += "\r\n";
    } else {
      append_fields(out, head.headers, head.framing);
    }
  } catch (const Error&) {
    out.resize(before);
    throw;
  }
}

// ---- hops

static constexpr std::array<std::string_view, 9> kHopFields{"connection",
                                                            "keep-alive",
                                                            "proxy-connection",
                                                            "proxy-authenticate",
                                                            "proxy-authorization",
                                                            "te",
                                                            "upgrade",
                                                            "http2-settings",
                                                            "proxy-authentication-info"};
static constexpr std::array<std::string_view, 14> kNeverHopFields{
    "host",          "content-length",   "transfer-encoding", "authorization", "cookie",
    "set-cookie",    "content-type",     "content-encoding",  "content-range", "range",
    "cache-control", "www-authenticate", "location",          "expect"};

void strip_hop_by_hop(Headers& headers) {
  Headers kept;
  kept.reserve(headers.size());
  for (Header& header : headers) {
    const bool named =
        has_token(headers, "connection", header.name) && !is_one_of(header.name, kNeverHopFields);
    if (!named && !is_one_of(header.name, kHopFields)) kept.push_back(header);
  }
  headers = std::move(kept);
}

Expectation expectation(const RequestHead& head) noexcept {
  const std::string* expect = find(head.headers, "expect");
  // RFC 9110 §10.1.1: an HTTP/1.0 client cannot have meant it.
  if (expect == nullptr || head.minor == 0) return Expectation::None;
  return count(head.headers, "expect") == 1 && same_name(*expect, "100-continue")
             ? Expectation::Continue
             : Expectation::Unknown;
}

// ---- bodies

static constexpr std::array<std::string_view, 26> kNotInTrailers{"transfer-encoding",
                                                                 "content-length",
                                                                 "host",
                                                                 "connection",
                                                                 "trailer",
                                                                 "te",
                                                                 "upgrade",
                                                                 "keep-alive",
                                                                 "proxy-authorization",
                                                                 "authorization",
                                                                 "cookie",
                                                                 "set-cookie",
                                                                 "content-encoding",
                                                                 "content-type",
                                                                 "content-range",
                                                                 "expect",
                                                                 "max-forwards",
                                                                 "cache-control",
                                                                 "range",
                                                                 "age",
                                                                 "expires",
                                                                 "location",
                                                                 "retry-after",
                                                                 "vary",
                                                                 "www-authenticate",
                                                                 "proxy-authenticate"};

bool is_trailer_field(std::string_view name) noexcept { return !is_one_of(name, kNotInTrailers); }

Headers kept_trailers(const Headers& trailers) {
  Headers out;
  for (const Header& trailer : trailers)
    if (is_trailer_field(trailer.name)) out.push_back(trailer);
  return out;
}

void append_last_chunk(std::string& out, const Headers& trailers) {
  std::string text = "0\r\n";
  for (const Header& trailer : trailers) {
    if (!is_trailer_field(trailer.name))
      throw Error(Kind::Invalid, "field " + trailer.name + " cannot be a trailer");
    append_field(text, trailer);
  }
  out += text + "\r\n";
}

void append_chunk_size(std::string& out, uint64_t size) {
  MVM_ASSERT(size != 0);
  std::array<char, 16> digits{};  // 64 bits in hexadecimal
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16).ptr;
  out.append(digits.data(), end).append("\r\n");
}

}
