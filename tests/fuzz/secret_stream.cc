// A hostile body in any pieces, with values and placeholders put in: no crash, the same output
// however it was cut, what is held back has a bound, and no value comes out. Bytes 0x80 to 0x84
// stand for a value as it is, in base64, percent-encoded, escaped for JSON, and for a placeholder;
// 0x85 and 0x86 for a value in UTF-16.

#include <cstdlib>
#include <string>

#include "mvm/secret/secrets.h"
#include "mvm/secret/stream.h"
#include "mvm/secret/text.h"

using namespace mvm;
using namespace mvm::secret;

namespace {

constexpr std::string_view kValue = "sk-T0p/Secret+\"Value\"%&<end>";

const Finder& finder() {
  static const Finder made = [] {
    Finder out;
    out.add(kValue, 0, Finder::Written::Twice);
    out.add("sk-T0p/S", 1, Finder::Written::Once);  // a beginning of the other
    out.add("mvm-secret-abcdefgh", Secrets::kPlaceholder, Finder::Written::Never);
    return out;
  }();
  return made;
}

std::string mask(std::string_view text, size_t step) {
  Bytes out;
  Stream stream(finder(), [](const Finder::Hit& hit, std::string_view, Bytes& to) {
    for (const char c : in_units((hit.id & Secrets::kPlaceholder) != 0 ? "#" : "*", hit.units))
      to.push_back(static_cast<std::byte>(c));
    return true;
  });
  for (size_t at = 0; at < text.size(); at += step) {
    stream.feed(text.substr(at, step), false, out);
    if (stream.held() > 16 * kValue.size() + text.size() / 2 && stream.held() > text.size())
      std::abort();
  }
  stream.feed({}, true, out);
  return std::string(as_text(out));
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string text;
  for (size_t i = 1; i < size; ++i) {
    switch (data[i]) {
      case 0x80:
        text += kValue;
        break;
      case 0x81:
        text += base64(kValue);
        break;
      case 0x82:
        text += written(kValue, Writing::Percent);
        break;
      case 0x83:
        text += written(kValue, Writing::Json);
        break;
      case 0x84:
        text += "mvm-secret-abcdefgh";
        break;
      case 0x85:
        text += in_units(kValue, Units::Little);
        break;
      case 0x86:
        text += in_units(kValue, Units::Big);
        break;
      default:
        text += static_cast<char>(data[i]);
    }
  }
  const std::string whole = mask(text, text.size() + 1);
  if (mask(text, data[0] % 13 + 1) != whole) std::abort();
  for (const Units units : {Units::Bytes, Units::Little, Units::Big})
    if (whole.find(in_units(kValue, units)) != std::string::npos) std::abort();
  return 0;
}
