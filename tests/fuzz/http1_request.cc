// Requests from a guest that is anybody: no crash, the same outcome however the bytes are cut, and
// what is passed on is read by the next parser as it was by ours. The first byte seeds the cuts.

#include "mvm/http/forward.h"
#include "mvm/http/upgrade.h"
#include "mvm/http/url.h"

#include "http1.h"

using namespace mvm;
using namespace mvm::http;

static constexpr uint64_t kBodyLimit = 4096;

// The framing fields' values are written anew ("chUnked", "007"); everything else is as it was.
static bool same(RequestHead a, const RequestHead& b) {
  if (a.headers.size() != b.headers.size() || !(a.framing == b.framing)) return false;
  for (size_t at = 0; at < a.headers.size(); ++at)
    if (same_name(a.headers[at].name, "content-length") ||
        same_name(a.headers[at].name, "transfer-encoding"))
      a.headers[at].value = b.headers[at].value;
  return a == b;
}

static void on_head(const RequestParser& parser, std::string& out) {
  const RequestHead& head = parser.head();
  out += head.method + " " + head.target;
  fuzz::tell(out, head.headers);
  parse_target(head.target);
  requested_upgrade(head);
  expectation(head);
  std::string wire;
  append_forwarded(wire, head);
  RequestParser next;
  ByteView input = as_bytes(wire);
  if (next.next(input).kind != EventKind::Head || !input.empty() || !same(next.head(), head) ||
      !(next.target() == parser.target()))
    std::abort();
  Headers stripped = head.headers;
  strip_hop_by_hop(stripped);
  if (count(stripped, "host") != count(head.headers, "host")) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView bytes = std::as_bytes(std::span(data + 1, size - 1));
  fuzz::compare_cuts(RequestParser(kBodyLimit), bytes, data[0], on_head);
  return 0;
}
