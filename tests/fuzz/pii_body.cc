// Bodies of every form from anybody, in any pieces: no crash, the same outcome however they are
// cut, and without findings every byte as it was. The first byte picks the form, the second the
// cuts.

#include <array>
#include <cstdlib>
#include <string>

#include "mvm/protect/body.h"

using namespace mvm::protect;

namespace {

constexpr std::array<std::string_view, 8> kTypes = {
    "application/json",
    "application/x-www-form-urlencoded",
    "text/xml",
    "text/plain",
    "multipart/form-data; boundary=XX",
    "text/plain; charset=utf-16le",
    "application/json; charset=utf-16be",
    "",
};

std::string rewritten(std::string_view type, std::string_view text, size_t step,
                      const Replace& replace) {
  const BodyRules rules{ClassSet::all(), replace, [] { return true; }};
  const auto rewriter = body_rewriter(*parse_media_type(type), rules);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    if (!rewriter->feed(text.substr(at, step), out)) return "undecodable";
  return rewriter->finish(out) ? "fine " + out : "undecodable";
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::string_view type = kTypes.at(data[0] % kTypes.size());
  const Replace mark = [](const Finding& finding, std::string_view) {
    return std::optional("<" + std::string(class_name(finding.kind)) + ">");
  };
  const Replace keep = [](const Finding&, std::string_view) {
    return std::optional<std::string>();
  };
  const size_t step = data[1] % 29 + 1;
  if (rewritten(type, text, step, mark) != rewritten(type, text, text.size() + 1, mark))
    std::abort();
  const std::string kept = rewritten(type, text, step, keep);
  if (kept != "undecodable" && kept != "fine " + std::string(text)) std::abort();
  static_cast<void>(parse_media_type(text));
  return 0;
}
