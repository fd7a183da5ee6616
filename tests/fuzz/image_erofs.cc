// Images as damage leaves them, against what writes them out: refused with an mvm::Error, or
// written to the end.

#include <cstring>
#include <string>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/image/export.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

using namespace mvm;

// Most inputs would end at the superblock's checksum, which says nothing about us: set it right.
static void correct_checksum(std::string& image) {
  if (image.size() < 4096) return;
  std::memcpy(&image[1024], "\xe2\xe1\xf5\xe0\0\0\0\0", 8);
  uint32_t crc = 0xffffffff;
  for (size_t at = 1024; at < 4096; ++at) {
    crc ^= static_cast<unsigned char>(image[at]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82f63b78U & (0 - (crc & 1U)));
  }
  std::memcpy(&image[1028], &crc, sizeof crc);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sys::TempDir scratch;
  static const sys::Fd nowhere = sys::open_file("/dev/null", O_WRONLY);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  correct_checksum(bytes);
  store::Image image;
  image.digest = std::string(64, 'a');
  image.root = scratch.path() + "/root.erofs";
  {
    const sys::Fd file = sys::open_file(image.root, O_WRONLY | O_CREAT | O_TRUNC);
    sys::write_all(file.get(), as_bytes(bytes));
  }
  uint64_t steps = 0;
  try {
    // What an inode claims may be the whole image again and again.
    image::export_tar(image, nowhere.get(), {},
                      [&](uint64_t, std::optional<uint64_t>, image::Phase) {
                        if (++steps > 1000) throw Error(Kind::Exhausted, "enough");
                      });
  } catch (const Error&) {
  }
  return 0;
}
