// A hostile stream of events in any pieces, with tokens of the flow put in: no crash, the same
// output however it was cut, a value appears at most as often as its token can have stood there,
// and without one every byte is as it was. Bytes 0x80 and 0x81 stand for a token and for its first
// half; 0x82 for what goes between two events' strings.

#include <cstdlib>
#include <string>

#include "mvm/protect/events.h"

using namespace mvm::protect;

namespace {

constexpr std::string_view kValue = "<THE VALUE>";

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string restore(Vault& vault, EventRestorer::Kind kind, std::string_view text, size_t step) {
  std::string out;
  EventRestorer restorer(vault, kind, OnMismatch::Keep);
  for (size_t at = 0; at < text.size(); at += step) restorer.feed(text.substr(at, step), {}, out);
  restorer.finish({}, out);
  return out;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Vault vault({});
  const std::string token = *vault.token(PiiClass::Email, kValue, {});
  const auto kind =
      (data[0] & 1) == 0 ? EventRestorer::Kind::ServerSent : EventRestorer::Kind::Lines;
  const std::string between =
      kind == EventRestorer::Kind::Lines ? "\"}\n{\"t\":\"" : "\"}\n\ndata: {\"t\":\"";
  std::string text;
  size_t pieces = 0;
  for (size_t i = 2; i < size; ++i) {
    if (data[i] == 0x80 || data[i] == 0x81) {
      ++pieces;
      text += data[i] == 0x80 ? token : token.substr(0, token.size() / 2);
    } else if (data[i] == 0x82) {
      text += between;
    } else {
      text += static_cast<char>(data[i]);
    }
  }
  const std::string whole = restore(vault, kind, text, text.size() + 1);
  if (restore(vault, kind, text, data[1] % 13 + 1) != whole) std::abort();
  if (count(whole, kValue) > pieces + count(text, kValue)) std::abort();
  if (pieces == 0 && whole != text) std::abort();
  return 0;
}
