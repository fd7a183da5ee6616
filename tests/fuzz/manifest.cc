// mvm.toml comes with somebody's repository. Whatever is in it: no crash, and what is accepted
// means the same when it is shown and read again.

#include "mvm/config/manifest.h"

#include <cstdlib>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mvm::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Parsed parsed = parse_manifest(text);
  for (const Complaint& complaint : parsed.complaints)
    if (complaint.message.find('\x1b') != std::string::npos) std::abort();
  if (!parsed.complaints.empty()) return 0;
  const std::vector<Layer> layers = {{"fuzz", parsed.settings}};
  const Parsed again = parse_manifest(show(resolve(layers)));
  if (!again.complaints.empty() || again.settings != parsed.settings) std::abort();
  return 0;
}
