#pragma once
// A head that is passed on, and what belongs to one connection only. RFC 9110 §7.6, §10.1.1.

#include <string>
#include <string_view>

#include "mvm/http/message.h"

namespace mvm::http {

// Appends a parsed head as it came: order, case, and every field where it stood. The framing fields
// always say what head.framing says: one that differs is rewritten in its place, left out, or added
// at the end; so a proxy that changes a body sets the framing and nothing else. Throws as encode()
// does.
void append_forwarded(std::string& out, const RequestHead& head);
// `method` is that of the request: the answer to HEAD, and 304, describe a body that does not come,
// and keep their framing fields as they are.
void append_forwarded(std::string& out, const ResponseHead& head, std::string_view method);

// Removes what is for this hop alone: Connection and the fields it names, Keep-Alive,
// Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE, Upgrade, HTTP2-Settings. Fields
// that change what a message means (Host, Content-Length, Transfer-Encoding, Authorization, Cookie,
// …) are kept even if Connection names them: removing those behind the sender's back is an attack.
void strip_hop_by_hop(Headers& headers);

enum class Expectation { None, Continue, Unknown };  // Unknown: answer 417
Expectation expectation(const RequestHead& head) noexcept;
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// A trailer field that may be passed on: not one that frames, routes, authenticates or describes
// the message (RFC 9110 §6.5.1).
bool is_trailer_field(std::string_view name) noexcept;
// Those of them that may be.
Headers kept_trailers(const Headers& trailers);
// Last chunk, trailers and end of a chunked body. Throws as encode() does, and for a field that
// is_trailer_field() refuses.
void append_last_chunk(std::string& out, const Headers& trailers);
// The line in front of a chunk's `size` bytes, which the caller sends behind it with kChunkEnd; for
// bodies that are not to be copied. `size` is not 0.
void append_chunk_size(std::string& out, uint64_t size);
inline constexpr std::string_view kChunkEnd = "\r\n";

}
