#pragma once
// Kernel images in miniature, so that a test shows the field it spoils and nothing else.

#include <cstdint>
#include <string_view>
#include <vector>

#include <elf.h>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::kvm {

inline constexpr uint64_t kLoadAddress = 0x10'0000;

inline sys::Fd file_with(ByteView bytes) {
  sys::Fd file = sys::memory_file("image", bytes.size());
  sys::pwrite_all(file.get(), bytes, 0);
  return file;
}
inline sys::Fd file_with(std::string_view text) { return file_with(as_bytes(text)); }

inline Bytes code_bytes(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

// An ELF program: header, program headers, then the bytes of the code and the note.
struct ElfImage {
  Elf64_Ehdr header{};
  std::vector<Elf64_Phdr> segments;
  Bytes note;
  Bytes code;

  // One segment at kLoadAddress, entered at its start; with the PVH note or by the 64-bit protocol.
  static ElfImage make(Bytes code, bool pvh) {
    ElfImage image;
    image.code = std::move(code);
    if (image.code.size() < 512) image.code.resize(512);  // as long as a boot sector at least
    const size_t count = pvh ? 2 : 1;
    const uint64_t code_at = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr);
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    load.p_offset = code_at;
    load.p_vaddr = load.p_paddr = kLoadAddress;
    load.p_filesz = load.p_memsz = image.code.size();
    image.segments.push_back(load);
    if (pvh) {
      Writer out(image.note);
      out.u32(4);
      out.u32(4);
      out.u32(18);  // XEN_ELFNOTE_PHYS32_ENTRY
      out.text(std::string_view("Xen\0", 4));
      out.u32(static_cast<uint32_t>(kLoadAddress));
      Elf64_Phdr note{};
      note.p_type = PT_NOTE;
      note.p_offset = code_at + image.code.size();
      note.p_filesz = note.p_memsz = image.note.size();
      image.segments.push_back(note);
    }
    auto& header = image.header;
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_EXEC;
    header.e_machine = EM_X86_64;
    header.e_entry = kLoadAddress;
    header.e_phoff = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<uint16_t>(count);
    return image;
  }

  Bytes bytes() const {
    Bytes out;
    Writer writer(out);
    writer.put(header);
    for (const auto& segment : segments) writer.put(segment);
    writer.bytes(code);
    writer.bytes(note);
    return out;
  }
};

// A bzImage of one setup sector and `code` behind it, protocol 2.15, with a 64-bit entry point.
struct BzImage {
  Bytes setup = Bytes(2 * 512);
  Bytes code;

  explicit BzImage(Bytes kernel) : code(std::move(kernel)) {
    code.resize((code.size() + 15) & ~size_t{15});
    set(0x1f1, uint8_t{1});
    set(0x1f4, static_cast<uint32_t>(code.size() / 16));
    set(0x1fe, uint16_t{0xaa55});
    set(0x200, uint16_t{0x6aeb});      // the jump, and so the end of the header: 0x26c
    set(0x202, uint32_t{0x53726448});  // "HdrS"
    set(0x206, uint16_t{0x020f});
    set(0x211, uint8_t{1});
    set(0x236, uint16_t{1});          // XLF_KERNEL_64
    set(0x258, uint64_t{0x20'0000});  // pref_address
    set(0x260, uint32_t{0x10'0000});  // init_size
  }
  template <typename T>
  BzImage& set(size_t offset, T value) {
    std::memcpy(setup.data() + offset, &value, sizeof value);
    return *this;
  }
  Bytes bytes() const {
    Bytes out = setup;
    out.insert(out.end(), code.begin(), code.end());
    return out;
  }
};

}
