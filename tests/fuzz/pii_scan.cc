// Any bytes in any pieces: no crash, the stream comes out as it went in, and the findings are those
// of the whole text at once. The first byte chooses the cuts.

#include <cstdlib>
#include <string>
#include <vector>

#include "mvm/protect/scanner.h"

#include "fuzz/input.h"

using namespace mvm::protect;

namespace {

struct Record : ScanSink {
  std::string stream;
  std::vector<Finding> findings;
  void clean(std::string_view bytes) override { stream += bytes; }
  void found(const Finding& finding, std::string_view value) override {
    if (finding.offset != stream.size() || finding.length != value.size() || value.empty())
      std::abort();
    stream += value;
    findings.push_back(finding);
  }
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] % 17 + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<Finding> whole = scan(text);
  Record record;
  Scanner scanner;
  for (size_t at = 0; at < text.size(); at += step) {
    scanner.feed(text.substr(at, step), record);
    if (scanner.held() > kMaxHold) std::abort();
  }
  scanner.finish(record);
  if (record.stream != text || record.findings.size() != whole.size()) std::abort();
  for (size_t i = 0; i < whole.size(); ++i) {
    const Finding& a = whole[i];
    const Finding& b = record.findings[i];
    if (a.offset != b.offset || a.length != b.length || a.kind != b.kind) std::abort();
  }
  return 0;
}
