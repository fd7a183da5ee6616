#pragma once
// Heads of HTTP/2 as the judge and the filters take them, and back.

#include "mvm/http/h2.h"
#include "mvm/http/message.h"

namespace mvm::egress {

// As judge_request() takes it: with what its pseudo-header fields say of scheme and authority.
http::RequestHead as_request(const http::H2Head& head);
// Of the body behind these fields; `whole`: there is none. Chunked: it ends when it does.
http::Framing framing_of(const http::Headers& headers, bool whole);
// "te: trailers" is for one hop by its name, but in HTTP/2 it says what the whole way has to carry
// (RFC 9113 §8.2.2); gRPC insists on it.
http::Headers without_hop_fields(const http::Headers& headers);
// A filter writes names as it likes, and knows nothing of what HTTP/2 has no fields for.
http::Headers as_fields(http::Headers headers, const http::Framing& framing);

}
