// Responses from a server that is anybody: no crash, the same outcome however the bytes are cut,
// and what is passed on is read again as it was. The first byte picks the request's method, the
// second seeds the cuts.

#include <array>

#include "mvm/http/forward.h"
#include "mvm/http/upgrade.h"

#include "http1.h"

using namespace mvm;
using namespace mvm::http;

static constexpr uint64_t kBodyLimit = 4096;
static constexpr std::array<std::string_view, 4> kMethods{"POST", "GET", "CONNECT", "HEAD"};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view method = kMethods[data[0] % kMethods.size()];
  ResponseParser parser(kBodyLimit);
  parser.expect(method);
  const auto on_head = [&](const ResponseParser& read, std::string& out) {
    const ResponseHead& head = read.head();
    out += std::to_string(head.status) + head.reason;
    fuzz::tell(out, head.headers);
    accepts_websocket(RequestHead{}, head);
    std::string wire;
    append_forwarded(wire, head, method);
    ResponseParser next;
    next.expect(method);
    ByteView input = as_bytes(wire);
    const EventKind kind = next.next(input).kind;
    if (kind != EventKind::Head || next.head().status != head.status ||
        !(next.head().framing == head.framing))
      std::abort();
  };
  fuzz::compare_cuts(parser, std::as_bytes(std::span(data + 2, size - 2)), data[1], on_head);
  return 0;
}
