// Documents of images against their parsers. The first byte chooses which.

#include <string>

#include "mvm/base/error.h"
#include "mvm/oci/document.h"
#include "mvm/oci/reference.h"

using namespace mvm;
using namespace mvm::oci;

static void parse(unsigned char which, std::string_view text) {
  switch (which % 4) {
    case 0: {
      const auto document = parse_document(text, "");
      if (const auto* index = std::get_if<Index>(&document)) {
        MVM_ASSERT(index->manifests.size() <= kMaxIndexEntries);
        choose(*index, host_platform());
      } else {
        MVM_ASSERT(std::get<Manifest>(document).layers.size() <= kMaxLayers);
      }
      break;
    }
    case 1: {
      const Config config = parse_config(text);
      for (const std::string& entry : config.env) MVM_ASSERT(entry.find('=') != entry.npos);
      if (config.health) MVM_ASSERT(!config.health->complaint() && !config.health->command.empty());
      break;
    }
    case 2:
      for (const DockerImage& image : parse_docker_images(text)) MVM_ASSERT(!image.config.empty());
      break;
    default: {
      // What is printed is read back as the same.
      const Reference reference = parse_reference(text);
      MVM_ASSERT(parse_reference(reference.text()) == reference);
      is_loopback(reference.host);
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    parse(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const Error&) {
    return 0;
  }
  return 0;
}
