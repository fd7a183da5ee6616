#pragma once
// Feeds an HTTP/1.1 parser and writes down what comes out, with body pieces joined, so that two
// ways of cutting the same bytes can be compared.

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "mvm/http/parser.h"

namespace mvm::fuzz {

inline void tell(std::string& out, const http::Headers& headers) {
  for (const http::Header& header : headers) out += header.name + ":" + header.value + "|";
}

// `on_head(parser, out)` is called for each head. `pieces`: seeds the cuts; 0 is all at once.
template <typename Parser, typename OnHead>
std::string run(Parser parser, ByteView data, unsigned pieces, const OnHead& on_head) {
  using http::EventKind;
  std::minstd_rand random(pieces);
  std::string out;
  while (true) {
    const size_t length = pieces == 0 ? data.size() : random() % 48 + 1;
    ByteView input = data.first(std::min(length, data.size()));
    data = data.subspan(input.size());
    for (http::Event event = parser.next(input); event.kind != EventKind::More;
         event = parser.next(input)) {
      if (event.kind == EventKind::Body) {
        out += as_text(event.body);
        continue;
      }
      out += "|" + std::to_string(static_cast<int>(event.kind)) + "/" +
             std::to_string(static_cast<int>(event.fault)) + "|";
      if (event.kind == EventKind::Bad) return out;
      if (event.kind == EventKind::End) tell(out, parser.trailers());
      if (event.kind == EventKind::Head) on_head(parser, out);
    }
    if (!input.empty()) std::abort();
    if (data.empty()) break;
  }
  return out + std::to_string(static_cast<int>(parser.end_of_input().kind));
}

template <typename Parser, typename OnHead>
void compare_cuts(const Parser& parser, ByteView data, unsigned seed, const OnHead& on_head) {
  const std::string whole = run(parser, data, 0, on_head);
  if (run(parser, data, seed + 1, on_head) != whole) std::abort();
}

}
