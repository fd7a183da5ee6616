#pragma once
// HTTP messages as values, and their way onto the wire. RFC 9110, RFC 9112.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::http {

// Order and case are kept as they came.
struct Header {
  std::string name;
  std::string value;
  // Never to be in a table of HPACK's, neither ours nor that of who passes it on (RFC 7541 §7.1.3).
  bool sensitive = false;
  bool operator==(const Header& other) const { return name == other.name && value == other.value; }
};
using Headers = std::vector<Header>;

bool same_name(std::string_view a, std::string_view b) noexcept;  // ASCII case ignored
// The first field of that name; nullptr when there is none.
const std::string* find(const Headers& headers, std::string_view name) noexcept;
size_t count(const Headers& headers, std::string_view name) noexcept;
// One of the comma-separated tokens of the fields of that name.
bool has_token(const Headers& headers, std::string_view name, std::string_view token) noexcept;

// How the end of a body is told. UntilClose is for responses only.
enum class BodyKind { None, Length, Chunked, UntilClose };
struct Framing {
  BodyKind kind = BodyKind::None;
  uint64_t length = 0;
  bool operator==(const Framing&) const = default;
};

struct RequestHead {
  std::string method;
  std::string target;
  int minor = 1;  // HTTP/1.minor
  Headers headers;
  Framing framing;  // read from the headers by the parser, turned into headers by encode()
  bool target_sensitive = false;  // as Header::sensitive
  bool operator==(const RequestHead&) const = default;
};

struct ResponseHead {
  unsigned status = 0;
  std::string reason;
  int minor = 1;
  Headers headers;
  Framing framing;
  bool operator==(const ResponseHead&) const = default;
};

// Whether the connection may carry another message after this one (RFC 9112 section 9.3).
bool keeps_alive(int minor, const Headers& headers) noexcept;

std::string_view reason_phrase(unsigned status) noexcept;

// The head as bytes, with the framing's field added (the caller's headers must have none). A
// method, target, name or value that could not be read back as itself, such as one holding a line
// break, is Error{Invalid}: nothing can be injected through a value.
std::string encode(const RequestHead& head);
std::string encode(const ResponseHead& head);

// Chunked bodies: chunks are appended to `out`; an empty one is left out, since it would end the
// body.
void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Grammar of RFC 9110 section 5.6.2 and 5.5.
bool is_token(std::string_view text) noexcept;
bool is_field_value(std::string_view text) noexcept;
bool is_target(std::string_view text) noexcept;

}
