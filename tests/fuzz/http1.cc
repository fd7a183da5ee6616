// HTTP/1.1 from a peer that is anybody: no crash, and the same outcome whether the bytes come at
// once or in pieces. The first byte picks the parser, the second how the pieces are cut.

#include <algorithm>
#include <cstdlib>
#include <string>

#include "mvm/http/parser.h"
#include "mvm/http/url.h"

using namespace mvm;
using namespace mvm::http;

static constexpr uint64_t kBodyLimit = 4096;

static void describe(std::string& out, const RequestHead& head) {
  out += head.method + " " + head.target;
  parse_target(head.target);
  // What was accepted can be sent on: no accepted head hides a line break or a space.
  RequestHead again = head;
  std::erase_if(again.headers, [](const Header& header) {
    return same_name(header.name, "content-length") || same_name(header.name, "transfer-encoding");
  });
  encode(again);
}
static void describe(std::string& out, const ResponseHead& head) {
  out += std::to_string(head.status) + head.reason;
}

template <typename Parser>
static std::string run(Parser parser, ByteView data, size_t piece) {
  std::string out;
  while (true) {
    ByteView input = data.first(std::min(piece, data.size()));
    data = data.subspan(input.size());
    for (Event event = parser.next(input); event.kind != EventKind::More;
         event = parser.next(input)) {
      if (event.kind == EventKind::Body) {
        out += as_text(event.body);
        continue;
      }
      out += "|" + std::to_string(static_cast<int>(event.kind)) + "/" +
             std::to_string(static_cast<int>(event.fault)) + "|";
      if (event.kind == EventKind::Bad) return out;
      if (event.kind == EventKind::Head) describe(out, parser.head());
    }
    if (data.empty()) break;
  }
  return out + std::to_string(static_cast<int>(parser.end_of_input().kind));
}

template <typename Parser>
static void check(const Parser& parser, ByteView data, size_t piece) {
  if (run(parser, data, data.size()) != run(parser, data, piece)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const ByteView bytes = std::as_bytes(std::span(data + 2, size - 2));
  const size_t piece = data[1] % 64 + 1U;
  if (data[0] % 2 == 0) {
    check(RequestParser(kBodyLimit), bytes, piece);
  } else {
    ResponseParser parser(kBodyLimit);
    parser.expect(data[0] % 4 == 1 ? "GET" : "HEAD");
    check(parser, bytes, piece);
  }
  return 0;
}
