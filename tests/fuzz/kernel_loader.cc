// A file that claims to be a kernel. Half of the inputs are taken as they are; the other half spoil
// single fields of an ELF file or a bzImage that is right in everything else, since random bytes
// hardly ever get past the first check. Whatever loads must lie where it says, and the rest of the
// boot must take it.

#include <cstdint>
#include <cstdlib>

#include "mvm/base/error.h"
#include "mvm/kvm/boot.h"
#include "mvm/kvm/loader.h"

#include "fuzz/input.h"
#include "unit/kvm/images.h"

using namespace mvm;

static void require(bool condition) {
  if (!condition) std::abort();
}

static void spoil(Bytes& image, fuzz::Input& input, uint32_t headers) {
  while (!input.empty()) {
    const uint32_t at = input.below(headers);
    const uint64_t value = input.u64();
    const size_t width = size_t{1} << input.below(4);
    for (size_t i = 0; i < width && at + i < image.size(); ++i)
      image[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

static Bytes make_image(fuzz::Input& input) {
  switch (input.below(4)) {
    case 0: {
      Bytes image = kvm::ElfImage::make({}, true).bytes();
      const auto size = static_cast<uint32_t>(image.size());
      spoil(image, input, size);
      return image;
    }
    case 1: {
      Bytes image = kvm::BzImage(Bytes(1024)).bytes();
      spoil(image, input, 0x280);
      return image;
    }
    default: {
      const auto raw = input.bytes(64 * 1024);
      const auto bytes = std::as_bytes(raw);
      return {bytes.begin(), bytes.end()};
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto memory = memory::GuestMemory::create(4 << 20);
  fuzz::Input input(data, size);
  const auto file = kvm::file_with(make_image(input));
  try {
    const auto kernel = kvm::load_kernel(memory, file.get());
    require(memory.slice(memory::GuestAddress{kernel.entry}, 1).has_value());
    require(kernel.entry < kernel.end && kernel.end <= memory.size());
    const auto initrd = kvm::load_initrd(memory, file.get(), kernel.end);
    require(initrd.address >= kernel.end && initrd.size == sys::file_size(file.get()));
    const auto entry = kvm::write_boot_data(memory, kernel, initrd, "quiet", 0xe'0000);
    require(entry.rip == kernel.entry);
  } catch (const Error& error) {
    // Whatever is wrong with the file is the file's fault, not ours.
    require(error.kind() == Kind::Invalid || error.kind() == Kind::Exhausted);
  }
  return 0;
}
