// A hostile response in any pieces, with tokens of the flow put in: no crash, the same output
// however it was cut, and a value appears at most as often as its token stood there. Bytes 0x80 and
// 0x81 stand for two tokens.

#include <cstdlib>
#include <string>

#include "mvm/protect/restore.h"

using namespace mvm::protect;

namespace {

constexpr std::string_view kValues[] = {"<VALUE ONE>", "<VALUE TWO>"};

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string restore(Vault& vault, Escaping escaping, std::string_view text, size_t step) {
  std::string out;
  Restorer restorer(vault, escaping, OnMismatch::Keep);
  for (size_t at = 0; at < text.size(); at += step) restorer.feed(text.substr(at, step), {}, out);
  restorer.finish({}, out);
  return out;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Vault vault({});
  const std::string mail = *vault.token(PiiClass::Email, kValues[0], {});
  const std::string key = *vault.token(PiiClass::ApiKey, kValues[1], {});
  std::string text;
  for (size_t i = 1; i < size; ++i) {
    if (data[i] == 0x80)
      text += mail;
    else if (data[i] == 0x81)
      text += key;
    else
      text += static_cast<char>(data[i]);
  }
  const Escaping escaping = (data[0] & 0x80) == 0 ? Escaping::Plain : Escaping::JsonString;
  const std::string whole = restore(vault, escaping, text, text.size() + 1);
  if (restore(vault, escaping, text, data[0] % 13 + 1) != whole) std::abort();
  if (count(whole, kValues[0]) > count(text, mail) + count(text, kValues[0])) std::abort();
  if (count(whole, kValues[1]) > count(text, key) + count(text, kValues[1])) std::abort();
  return 0;
}
