// Kernel images: what boots, and a table of what must not.
#include "mvm/kvm/loader.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/kvm/layout.h"

#include "images.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::HasSubstr;

static constexpr uint64_t kGuest = 4 << 20;
static const Bytes kCode = code_bytes({0xf4, 0xeb, 0xfd});

// The complaint about an image, or "loaded".
static std::string outcome(ByteView image, uint64_t guest = kGuest) {
  const auto memory = GuestMemory::create(guest);
  const auto file = file_with(image);
  try {
    load_kernel(memory, file.get());
    return "loaded";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(Loader, LoadsAnElfKernelByItsPvhNote) {
  const auto memory = GuestMemory::create(kGuest);
  auto image = ElfImage::make(kCode, true);
  image.segments[0].p_memsz = 8192;  // 512 in the file, the rest zeros
  const auto file = file_with(image.bytes());
  const auto kernel = load_kernel(memory, file.get());
  EXPECT_EQ(kernel.protocol, BootProtocol::Pvh);
  EXPECT_EQ(kernel.entry, kLoadAddress);
  EXPECT_EQ(kernel.end, kLoadAddress + 8192);
  EXPECT_EQ(memory.read_value<uint8_t>(GuestAddress{kLoadAddress}), 0xf4);
  EXPECT_EQ(memory.read_value<uint8_t>(GuestAddress{kLoadAddress + 1}), 0xeb);
}

TEST(Loader, LoadsAnElfKernelWithoutANoteByThe64BitProtocol) {
  const auto memory = GuestMemory::create(kGuest);
  auto image = ElfImage::make(kCode, false);
  image.header.e_entry = kLoadAddress + 1;
  const auto file = file_with(image.bytes());
  const auto kernel = load_kernel(memory, file.get());
  EXPECT_EQ(kernel.protocol, BootProtocol::Linux64);
  EXPECT_EQ(kernel.entry, kLoadAddress + 1);
  EXPECT_TRUE(kernel.setup_header.empty());
}

TEST(Loader, FindsThePvhNoteBehindOthers) {
  auto image = ElfImage::make(kCode, true);
  Bytes notes;
  Writer out(notes);
  out.u32(4);
  out.u32(5);  // padded to 8
  out.u32(3);
  out.text(std::string_view("GNU\0", 4));
  out.zeros(8);
  out.bytes(image.note);
  image.note = notes;
  image.segments[1].p_filesz = notes.size();
  const auto memory = GuestMemory::create(kGuest);
  const auto file = file_with(image.bytes());
  EXPECT_EQ(load_kernel(memory, file.get()).protocol, BootProtocol::Pvh);
}

TEST(Loader, LoadsABzImageAtItsDefaultAddress) {
  const auto memory = GuestMemory::create(kGuest);
  Bytes code = kCode;
  code.resize(1024);
  const auto file = file_with(BzImage(code).bytes());
  const auto kernel = load_kernel(memory, file.get());
  EXPECT_EQ(kernel.protocol, BootProtocol::Linux64);
  EXPECT_EQ(kernel.entry, 0x10'0200U);
  EXPECT_EQ(kernel.end, 0x30'0000U);  // where it unpacks to, and all it needs there
  EXPECT_EQ(kernel.setup_header.size(), 0x26cU - 0x1f1U);
  EXPECT_EQ(memory.read_value<uint8_t>(GuestAddress{0x10'0000}), 0xf4);
}

struct HostileElf {
  const char* complaint;
  std::function<void(ElfImage&)> spoil;
};

TEST(Loader, RefusesHostileElfFiles) {
  const std::vector<HostileElf> table = {
      {"not a 64-bit little-endian", [](auto& i) { i.header.e_ident[EI_CLASS] = ELFCLASS32; }},
      {"not a 64-bit little-endian", [](auto& i) { i.header.e_ident[EI_DATA] = ELFDATA2MSB; }},
      {"another architecture (ELF machine 183)", [](auto& i) { i.header.e_machine = EM_AARCH64; }},
      {"not a program", [](auto& i) { i.header.e_type = ET_REL; }},
      {"not a program", [](auto& i) { i.header.e_type = ET_CORE; }},
      {"unknown size", [](auto& i) { i.header.e_phentsize = 0; }},
      {"unknown size", [](auto& i) { i.header.e_phentsize = 55; }},
      {"no program headers", [](auto& i) { i.header.e_phnum = 0; }},
      {"65535 program headers", [](auto& i) { i.header.e_phnum = 0xffff; }},
      {"65 program headers", [](auto& i) { i.header.e_phnum = kMaxProgramHeaders + 1; }},
      {"lies outside the file", [](auto& i) { i.header.e_phnum = kMaxProgramHeaders; }},
      {"program header 0 lies outside", [](auto& i) { i.header.e_phoff = 1 << 20; }},
      {"program header 0 lies outside", [](auto& i) { i.header.e_phoff = ~uint64_t{0}; }},
      {"program header 0 lies outside", [](auto& i) { i.header.e_phoff = ~uint64_t{0} - 55; }},
      {"program header 0 holds more", [](auto& i) { i.segments[0].p_memsz = 511; }},
      {"program header 0 lies outside", [](auto& i) { i.segments[0].p_offset = 1 << 20; }},
      {"program header 0 lies outside", [](auto& i) { i.segments[0].p_offset = ~uint64_t{0}; }},
      {"program header 0 lies outside",
       [](auto& i) { i.segments[0].p_filesz = i.segments[0].p_memsz = uint64_t{1} << 40; }},
      {"below 1 MiB", [](auto& i) { i.segments[0].p_paddr = 0; }},
      {"below 1 MiB", [](auto& i) { i.segments[0].p_paddr = kLoadAddress - 1; }},
      {"does not fit", [](auto& i) { i.segments[0].p_paddr = kGuest; }},
      {"does not fit", [](auto& i) { i.segments[0].p_paddr = kGuest - 511; }},
      {"does not fit", [](auto& i) { i.segments[0].p_paddr = memory::kMmioGapStart; }},
      {"does not fit", [](auto& i) { i.segments[0].p_memsz = kGuest - kLoadAddress + 1; }},
      {"wraps around", [](auto& i) { i.segments[0].p_paddr = ~uint64_t{0} - 510; }},
      {"wraps around", [](auto& i) { i.segments[0].p_memsz = ~uint64_t{0}; }},
      {"nothing to load", [](auto& i) { i.segments[0].p_type = PT_NULL; }},
      {"nothing to load", [](auto& i) { i.segments[0].p_filesz = i.segments[0].p_memsz = 0; }},
      {"overlaps another",
       [](auto& i) {
         i.segments[1] = i.segments[0];
         i.segments[1].p_paddr += 511;
         i.segments[1].p_filesz = 1;
       }},
      {"overlaps another",
       [](auto& i) {
         i.segments[1] = i.segments[0];
         i.segments[1].p_memsz = 4096;
       }},
      {"notes are larger than 64 KiB", [](auto& i) { i.segments[1].p_filesz = kMaxNotes + 1; }},
      {"note of program header 1 lies outside", [](auto& i) { i.segments[1].p_filesz += 1; }},
      {"note of program header 1 lies outside",
       [](auto& i) { i.segments[1].p_offset = ~uint64_t{0}; }},
      {"entry point lies outside",
       [](auto& i) { i.note[16] = std::byte{0xff}, i.note[19] = std::byte{0xff}; }},
      {"entry point lies outside", [](auto& i) { i.note[18] = std::byte{0}; }},
  };
  for (size_t row = 0; row < table.size(); ++row) {
    auto image = ElfImage::make(kCode, true);
    table[row].spoil(image);
    EXPECT_THAT(outcome(image.bytes()), HasSubstr(table[row].complaint)) << "row " << row;
  }
}

TEST(Loader, LoadsUpToTheLastByteOfMemory) {
  auto image = ElfImage::make(kCode, true);
  image.segments[0].p_memsz = kGuest - kLoadAddress;
  EXPECT_EQ(outcome(image.bytes()), "loaded");
}

TEST(Loader, TakesAsManyProgramHeadersAsItSays) {
  auto image = ElfImage::make(kCode, false);
  image.segments.resize(kMaxProgramHeaders);  // the others are PT_NULL
  image.header.e_phnum = kMaxProgramHeaders;
  image.segments[0].p_offset = sizeof(Elf64_Ehdr) + kMaxProgramHeaders * sizeof(Elf64_Phdr);
  EXPECT_EQ(outcome(image.bytes()), "loaded");
}

TEST(Loader, ANoteThatIsNoPvhEntryIsNotOne) {
  const std::vector<std::function<void(Bytes&)>> table = {
      [](Bytes& note) { note[0] = std::byte{0xff}; },              // name runs past the end
      [](Bytes& note) { note[3] = std::byte{0xff}; },              // far past
      [](Bytes& note) { note[4] = std::byte{0xff}; },              // value runs past the end
      [](Bytes& note) { note[7] = std::byte{0xff}; },              // far past
      [](Bytes& note) { note[4] = std::byte{2}; },                 // no address has 2 bytes
      [](Bytes& note) { note[8] = std::byte{17}; },                // another type
      [](Bytes& note) { note[12] = std::byte{'x'}; },              // another owner
      [](Bytes& note) { note.assign(note.size(), std::byte{}); },  // nothing at all
  };
  for (size_t row = 0; row < table.size(); ++row) {
    auto image = ElfImage::make(kCode, true);
    table[row](image.note);
    const auto memory = GuestMemory::create(kGuest);
    const auto file = file_with(image.bytes());
    EXPECT_EQ(load_kernel(memory, file.get()).protocol, BootProtocol::Linux64) << "row " << row;
  }
}

TEST(Loader, RefusesEveryTruncationOfAnElfFile) {
  const Bytes whole = ElfImage::make(kCode, true).bytes();
  for (size_t length = 0; length < whole.size(); ++length)
    ASSERT_NE(outcome(ByteView(whole).first(length)), "loaded") << length;
  EXPECT_EQ(outcome(whole), "loaded");
}

struct HostileBzImage {
  const char* complaint;
  std::function<void(BzImage&)> spoil;
};

TEST(Loader, RefusesHostileBzImages) {
  const std::vector<HostileBzImage> table = {
      {"older than 2.12", [](auto& i) { i.set(0x206, uint16_t{0x020b}); }},
      {"no 64-bit entry", [](auto& i) { i.set(0x236, uint16_t{0xfffe}); }},
      {"ends before its code", [](auto& i) { i.set(0x1f1, uint8_t{255}); }},
      {"ends before its code", [](auto& i) { i.set(0x1f1, uint8_t{0}); }},  // means 4
      {"ends before its code", [](auto& i) { i.code.clear(); }},
      {"truncated", [](auto& i) { i.code.pop_back(); }},
      {"truncated", [](auto& i) { i.set(0x1f4, uint32_t{0xffff'ffff}); }},
      {"needs 3.9 GiB to unpack", [](auto& i) { i.set(0x260, uint32_t{0xffff'ffff}); }},
      {"to unpack", [](auto& i) { i.set(0x258, ~uint64_t{0}); }},
      {"to unpack", [](auto& i) { i.set(0x258, uint64_t{kGuest - 0x10'0000 + 1}); }},
      {"to unpack", [](auto& i) { i.set(0x258, uint64_t{memory::kMmioGapStart}); }},
      {"does not fit", [](auto& i) { i.code.resize(kGuest - kLoadAddress + 1); }},
  };
  for (size_t row = 0; row < table.size(); ++row) {
    BzImage image(Bytes(1024));
    table[row].spoil(image);
    EXPECT_THAT(outcome(image.bytes()), HasSubstr(table[row].complaint)) << "row " << row;
  }
  BzImage last(Bytes(1024));
  EXPECT_EQ(outcome(last.set(0x258, uint64_t{kGuest - 0x10'0000}).bytes()), "loaded");
}

TEST(Loader, ABzImageHasRoomForItsEntryPoint) {
  // The entry point is 512 bytes into the code; an image that ends before has none.
  EXPECT_THAT(outcome(BzImage(Bytes(512)).bytes()), HasSubstr("ends before its entry point"));
  EXPECT_EQ(outcome(BzImage(Bytes(528)).bytes()), "loaded");
}

TEST(Loader, NamesWhatIsNotAKernel) {
  EXPECT_THAT(outcome({}), HasSubstr("it is empty"));
  EXPECT_THAT(outcome(as_bytes("short")), HasSubstr("it has only 5 bytes"));
  std::string other(4096, 'x');
  EXPECT_THAT(outcome(as_bytes(other)), HasSubstr("neither an ELF file (vmlinux) nor a bzImage"));
  other.replace(0, 8, "\x89PNG\r\n\x1a\n");
  EXPECT_THAT(outcome(as_bytes(other)), HasSubstr("neither an ELF file (vmlinux) nor a bzImage"));
  other.replace(0, 2, "\x1f\x8b");
  EXPECT_THAT(outcome(as_bytes(other)), HasSubstr("gzip file: unpack it first"));
  other.replace(0, 2, "MZ");
  other.replace(0x38, 4, "ARM\x64");
  EXPECT_THAT(outcome(as_bytes(other)), HasSubstr("another architecture (arm64)"));
}

TEST(Loader, RefusesAFileThatCannotBeMeasured) {
  sys::TempDir directory;
  const auto memory = GuestMemory::create(kGuest);
  const auto folder = sys::open_file(directory.path(), 0);
  EXPECT_THROW(load_kernel(memory, folder.get()), Error);
}

TEST(Initrd, LiesAsHighAsItGoes) {
  const auto memory = GuestMemory::create(kGuest);
  const auto file = file_with("initramfs");
  const auto initrd = load_initrd(memory, file.get(), 0x20'0000);
  EXPECT_EQ(initrd.address, kGuest - memory::kPageSize);
  EXPECT_EQ(initrd.size, 9U);
  EXPECT_EQ(memory.read_value<uint8_t>(GuestAddress{initrd.address}), 'i');
}

TEST(Initrd, StaysBelowTheGap) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kGuest);
  const auto file = file_with(std::string(4097, 'i'));
  EXPECT_EQ(load_initrd(memory, file.get(), 0x20'0000).address,
            memory::kMmioGapStart - 2 * memory::kPageSize);
}

TEST(Initrd, MayTouchTheKernelButNotOverlapIt) {
  const auto memory = GuestMemory::create(kGuest);
  const auto file = file_with(std::string(4096, 'i'));
  const uint64_t last_page = kGuest - memory::kPageSize;
  EXPECT_EQ(load_initrd(memory, file.get(), last_page).address, last_page);
  EXPECT_THROW(load_initrd(memory, file.get(), last_page + 1), Error);
}

TEST(Initrd, RefusesWhatIsLargerThanTheGuest) {
  const auto memory = GuestMemory::create(kGuest);
  const auto file = sys::memory_file("image", kGuest + 1);
  try {
    load_initrd(memory, file.get(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Exhausted);
  }
}

TEST(Initrd, RefusesWhatIsLargerThanTheLimit) {
  const auto memory = GuestMemory::create(kGuest);
  const auto file = sys::memory_file("image", kMaxInitrd + 1);
  try {
    load_initrd(memory, file.get(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
  }
}

}
