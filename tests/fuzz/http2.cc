// HTTP/2 from a peer that is anybody: no crash, no more kept than the bounds say, and the same
// outcome however the bytes are cut. The first byte picks the side, the second seeds the cuts.

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "mvm/http/h2.h"

using namespace mvm;
using namespace mvm::http;

static constexpr H2Limits kLimits{
    .streams = 8, .stream_window = 4096, .connection_window = 65535, .header_list = 2048};

static void tell(std::string& out, H2Session& session, const H2Event& event, size_t& owed) {
  // A frame's body may come in pieces.
  if (event.kind == H2EventKind::Data)
    out += as_text(event.data);
  else
    out += "|" + std::to_string(static_cast<int>(event.kind)) + "/" + std::to_string(event.stream) +
           "/" + std::to_string(event.error) + "|";
  if (event.kind == H2EventKind::Head || event.kind == H2EventKind::Interim) {
    const H2Head& head = session.head();
    out += head.method + head.authority + head.path + std::to_string(head.status);
    if (head.headers.size() > kLimits.headers) std::abort();
    H2Head answer;
    answer.status = 200;
    if (event.kind == H2EventKind::Head && !head.method.empty())
      session.respond(event.stream, answer, event.stream % 4 == 1);
  }
  if (event.kind == H2EventKind::Data) {
    owed += event.data.size();
    if (owed > kLimits.connection_window) std::abort();
    // Every third byte's worth stays with a consumer that is slow.
    if (event.stream % 3 != 0) {
      session.consumed(event.stream, event.data.size());
      owed -= event.data.size();
    }
  }
}

static std::string run(H2Side side, ByteView data, unsigned pieces) {
  H2Session session(side, kLimits);
  if (side == H2Side::Client) {
    const H2Head head{"GET", "https", "a", "/", "", 0, {}};
    session.request(head, true);
    session.request(head, false);
  }
  std::minstd_rand random(pieces);
  std::string out;
  std::string written;
  size_t owed = 0;
  session.write(written, SIZE_MAX);
  while (!data.empty()) {
    const size_t length = pieces == 0 ? data.size() : random() % 48 + 1;
    ByteView input = data.first(std::min(length, data.size()));
    data = data.subspan(input.size());
    for (H2Event event = session.next(input);
         event.kind != H2EventKind::More && event.kind != H2EventKind::Bad;
         event = session.next(input))
      tell(out, session, event, owed);
    if (session.open_streams() > kLimits.streams + 8) std::abort();
    // Only when cut: what is written, and when, does change what nghttp2 takes for closed.
    if (pieces != 0 && pieces % 4 == 0) session.write(written, SIZE_MAX);
  }
  session.write(written, SIZE_MAX);
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const H2Side side = data[0] % 2 == 0 ? H2Side::Server : H2Side::Client;
  const ByteView bytes = std::as_bytes(std::span(data + 2, size - 2));
  const unsigned seed = data[1] + 1U;
  const std::string whole = run(side, bytes, 0);
  if (run(side, bytes, seed) != whole && seed % 4 != 0) std::abort();
  return 0;
}
