#include "http2_fields.h"

#include <cstdlib>

#include "mvm/http/forward.h"

namespace mvm::egress {

using http::BodyKind;

http::RequestHead as_request(const http::H2Head& head) {
  http::RequestHead out;
  out.method = head.method;
  out.headers = {{"Host", head.authority}};
  if (head.method == "CONNECT")
    out.target = head.authority;
  else
    out.target = head.scheme + "://" + head.authority + (head.path == "*" ? "" : head.path);
  return out;
}

http::Framing framing_of(const http::Headers& headers, bool whole) {
  if (whole) return {};
  const std::string* const length = http::find(headers, "content-length");
  // nghttp2 has seen that it is one number, and holds the body against it.
  return length == nullptr
             ? http::Framing{BodyKind::Chunked, 0}
             : http::Framing{BodyKind::Length, std::strtoull(length->c_str(), nullptr, 10)};
}

http::Headers without_hop_fields(const http::Headers& headers) {
  http::Headers out = headers;
  http::strip_hop_by_hop(out);
  if (const std::string* const te = http::find(headers, "te")) out.push_back({"te", *te});
  return out;
}

http::Headers as_fields(http::Headers headers, const http::Framing& framing) {
  http::Headers out;
  out.reserve(headers.size());
  for (http::Header& header : headers) {
    for (char& c : header.name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const std::string& name = header.name;
    if (name == "host" || name == "connection" || name == "keep-alive" || name == "upgrade" ||
        name == "proxy-connection" || name == "transfer-encoding")
      continue;
    if (name == "content-length" && framing.kind == BodyKind::Chunked) continue;
    if (name == "content-length" && framing.kind == BodyKind::Length)
      header.value = std::to_string(framing.length);
    out.push_back(std::move(header));
  }
  return out;
}

}
