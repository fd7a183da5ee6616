// Encoded bodies from anybody: no crash, the same text however the data is cut, growth within its
// limit, and text that is encoded again reads as itself. The first byte picks the codings, the
// second seeds the cuts.

#include <cstdlib>
#include <string>

#include "mvm/http/coding.h"

using namespace mvm;
using namespace mvm::http;

namespace {

constexpr DecodeLimits kLimits{.allowance = 1 << 16, .ratio = 50};

std::string decoded(const std::vector<Coding>& codings, ByteView data, size_t step, size_t room) {
  Decoder decoder(codings, kLimits);
  Bytes out;
  for (size_t at = 0; at < data.size(); at += step) {
    ByteView input = data.subspan(at, std::min(step, data.size() - at));
    while (true) {
      const size_t before = out.size();
      const Decoder::Step result = decoder.next(input, out, room);
      if (out.size() - before > room) std::abort();
      if (result == Decoder::Step::More) break;
      // How far damaged data gets, and which damage is seen first, depends on the cuts.
      if (result == Decoder::Step::Bad)
        return decoder.problem().find("grows") == std::string_view::npos ? "bad" : "grows";
    }
    if (!input.empty()) std::abort();
  }
  if (out.size() > kLimits.allowance + kLimits.ratio * data.size()) std::abort();
  return (decoder.whole() ? "whole " : "cut ") + std::string(as_text(out));
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  std::vector<Coding> codings{static_cast<Coding>(data[0] & 3)};
  if ((data[0] & 16) != 0) codings.push_back(static_cast<Coding>(data[0] >> 2 & 3));
  const ByteView body = std::as_bytes(std::span(data + 2, size - 2));
  const std::string whole = decoded(codings, body, body.size() + 1, 4096);
  const std::string pieces = decoded(codings, body, data[1] % 31 + 1, data[1] + 1);
  // When growth is looked at depends on the cuts too.
  if (whole != pieces && whole != "grows" && pieces != "grows") std::abort();

  Encoder encoder(codings);
  Bytes wire;
  encoder.write(body, (data[1] & 1) != 0, wire);
  encoder.finish(wire);
  const std::string again = decoded(codings, wire, wire.size() + 1, 4096);
  if (again != "whole " + std::string(as_text(body))) std::abort();
  return 0;
}
