// Tar archives against the importer. What is refused is refused with an mvm::Error; what is taken
// gives an image that an independent reader finds correct.

#include <cstdio>
#include <string>

#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/image/erofs.h"
#include "mvm/image/source.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "unit/image/erofs_reader.h"

using namespace mvm;
using namespace mvm::image;

// Most inputs would end at the first header's checksum, which says nothing about us: set it right.
static void correct_checksums(std::string& archive) {
  for (size_t at = 0; at + 512 <= archive.size(); at += 512) {
    if (archive.compare(at + 257, 5, "ustar") != 0) continue;
    archive.replace(at + 148, 8, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[at + i]);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    archive.replace(at + 148, 7, text, 7);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string archive(reinterpret_cast<const char*>(data), size);
  correct_checksums(archive);
  const sys::Fd input = sys::memory_file("tar", 0);
  sys::write_all(input.get(), as_bytes(archive));
  ::lseek(input.get(), 0, SEEK_SET);
  const sys::Fd output = sys::memory_file("image", 0);
  const sys::Fd scratch = sys::memory_file("scratch", 0);

  ImportOptions options;
  options.limits.content = 1 << 20;
  options.limits.entries = 1000;
  options.limits.metadata = 1 << 20;
  Tree tree;
  Notes notes;
  ErofsWriter writer(output.get(), scratch.get(), options.limits.content);
  try {
    read_tar(input.get(), "input", options, {}, tree, writer, notes);
  } catch (const Error&) {
    return 0;
  }
  const ErofsSummary summary = writer.finish(tree);
  MVM_ASSERT(summary.size == sys::file_size(output.get()));
  // A sparse file may claim terabytes, which the reader would put into memory.
  if (summary.content_bytes > 16 << 20) return 0;
  const ErofsReader image("/proc/self/fd/" + std::to_string(output.get()));
  MVM_ASSERT(image.files.contains(""));
  return 0;
}
