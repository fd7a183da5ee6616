#pragma once
// Parsers fed whole and in every way of cutting the input: what comes out must not depend on it.

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/http/parser.h"

namespace mvm::http {

// What a sequence of events amounts to, with body pieces joined.
inline std::string told(const Event& event) {
  if (event.kind == EventKind::Bad) return "[bad: " + std::string(fault_text(event.fault)) + "]";
  if (event.kind == EventKind::End) return "[end]";
  if (event.kind == EventKind::Interim) return "[interim]";
  return "[head]";
}

inline std::string describe(const RequestHead& head) { return head.method + " " + head.target; }
inline std::string describe(const ResponseHead& head) { return std::to_string(head.status); }

template <typename Parser>
std::string run(Parser parser, const std::vector<std::string_view>& pieces) {
  std::string out;
  for (const std::string_view piece : pieces) {
    // A copy of just this piece, so that reading past it is seen by the sanitizer.
    const std::vector<char> copy(piece.begin(), piece.end());
    ByteView input = std::as_bytes(std::span(copy));
    while (true) {
      const Event event = parser.next(input);
      if (event.kind == EventKind::More) break;
      if (event.kind == EventKind::Body) {
        EXPECT_FALSE(event.body.empty());
        out += as_text(event.body);
        continue;
      }
      out += told(event);
      if (event.kind == EventKind::Bad) return out;
      if (event.kind == EventKind::Head) out += describe(parser.head());
    }
    EXPECT_TRUE(input.empty());
  }
  return out + " then " + told(parser.end_of_input());
}

template <typename Parser>
std::string run_all_ways(const Parser& parser, std::string_view text) {
  const std::string whole = run(parser, {text});
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) bytes.push_back(text.substr(at, 1));
  EXPECT_EQ(run(parser, bytes), whole) << text;
  for (size_t at = 1; at < std::min<size_t>(text.size(), 400); ++at)
    EXPECT_EQ(run(parser, {text.substr(0, at), text.substr(at)}), whole)
        << text << " cut at " << at;
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = std::min<size_t>(text.size() - at, random() % 9);
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    EXPECT_EQ(run(parser, pieces), whole) << text;
  }
  return whole;
}

inline std::string request(std::string_view text, uint64_t limit = kUnlimitedBody) {
  return run_all_ways(RequestParser(limit), text);
}
inline std::string response(std::string_view text, std::string_view method = "GET",
                            uint64_t limit = kUnlimitedBody) {
  ResponseParser parser(limit);
  parser.expect(method);
  return run_all_ways(parser, text);
}
inline std::string bad(Fault fault) { return "[bad: " + std::string(fault_text(fault)) + "]"; }

}
