#include "mvm/kvm/loader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <elf.h>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/kvm/layout.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;

[[noreturn]] static void bad_image(const std::string& what) {
  throw Error(Kind::Invalid, "the kernel image is not usable: " + what);
}

// Bytes of the file, or a complaint that names them.
static Bytes read_range(int file, uint64_t file_size, uint64_t offset, uint64_t length,
                        const std::string& what) {
  if (!in_bounds(offset, length, file_size))
    bad_image(what + " lies outside the file (is it truncated?)");
  Bytes bytes(length);
  if (!sys::pread_exact(file, bytes, offset))
    bad_image("the file became shorter while it was read");
  return bytes;
}

template <typename T>
static T read_struct(int file, uint64_t file_size, uint64_t offset, const std::string& what) {
  const Bytes bytes = read_range(file, file_size, offset, sizeof(T), what);
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// From the file straight into guest memory.
static void load_range(const GuestMemory& memory, int file, uint64_t offset, uint64_t length,
                       uint64_t address, const std::string& what) {
  const auto to = memory.slice(GuestAddress{address}, length);
  if (!to)
    throw Error(Kind::Exhausted,
                what + " does not fit into " + format_size(memory.size()) + " of guest memory");
  if (!sys::pread_exact(file, *to, offset)) bad_image("the file became shorter while it was read");
}

// ---- ELF --------------------------------------------------------------------------------------

// The physical entry point in a PT_NOTE segment's bytes, if it holds the PVH note.
static std::optional<uint64_t> find_pvh_entry(ByteView notes) {
  constexpr uint32_t kPhys32Entry = 18;
  Reader in(notes);
  while (in.remaining() >= sizeof(Elf64_Nhdr)) {
    const uint32_t name_size = in.u32(), value_size = in.u32(), type = in.u32();
    const auto padded = [](uint32_t size) { return (uint64_t{size} + 3) & ~uint64_t{3}; };
    const ByteView name = in.bytes(padded(name_size));
    // The last value may lack its padding.
    const ByteView value = in.bytes(
        std::min<uint64_t>(padded(value_size), std::max<uint64_t>(value_size, in.remaining())));
    if (!in) return std::nullopt;
    if (type != kPhys32Entry || name_size != 4 ||
        as_text(name.first(4)) != std::string_view("Xen\0", 4))
      continue;
    Reader entry(value);
    if (value_size == 4) return entry.u32();
    if (value_size == 8) return entry.u64();
    return std::nullopt;
  }
  return std::nullopt;
}

static LoadedKernel load_elf(const GuestMemory& memory, int file, uint64_t file_size) {
  const auto header = read_struct<Elf64_Ehdr>(file, file_size, 0, "the ELF header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    bad_image("it is not a 64-bit little-endian ELF file");
  if (header.e_machine != EM_X86_64)
    bad_image("it is for another architecture (ELF machine " + std::to_string(header.e_machine) +
              ")");
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    bad_image("it is an ELF file, but not a program");
  if (header.e_phentsize != sizeof(Elf64_Phdr))
    bad_image("its program headers have an unknown size");
  if (header.e_phnum == 0) bad_image("it has no program headers");
  if (header.e_phnum > kMaxProgramHeaders)
    bad_image("it has " + std::to_string(header.e_phnum) + " program headers");

  LoadedKernel kernel;
  std::optional<uint64_t> pvh_entry;
  std::vector<layout::Area> loaded;
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    const std::string what = "program header " + std::to_string(i);
    const auto offset = checked_add<uint64_t>(header.e_phoff, uint64_t{i} * sizeof(Elf64_Phdr));
    if (!offset) bad_image(what + " lies outside the file");
    const auto segment = read_struct<Elf64_Phdr>(file, file_size, *offset, what);
    if (segment.p_type == PT_NOTE && !pvh_entry) {
      if (segment.p_filesz > kMaxNotes)
        bad_image("its notes are larger than " + format_size(kMaxNotes));
      pvh_entry = find_pvh_entry(
          read_range(file, file_size, segment.p_offset, segment.p_filesz, "the note of " + what));
    }
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    if (segment.p_filesz > segment.p_memsz)
      bad_image(what + " holds more in the file than in memory");
    if (!in_bounds(segment.p_offset, segment.p_filesz, file_size))
      bad_image("the segment of " + what + " lies outside the file (is it truncated?)");
    if (segment.p_paddr < layout::kHighMemoryStart)
      bad_image("the segment of " + what + " would be loaded below 1 MiB");
    if (!checked_add<uint64_t>(segment.p_paddr, segment.p_memsz))
      bad_image("the segment of " + what + " wraps around");
    const layout::Area area{segment.p_paddr, segment.p_memsz};
    for (const auto& other : loaded)
      if (area.start < other.end() && other.start < area.end())
        bad_image("the segment of " + what + " overlaps another");
    // Also what is only zeros must exist; it is zero already, the memory is new.
    if (!memory.slice(GuestAddress{area.start}, area.size))
      throw Error(Kind::Exhausted, "the kernel does not fit into " + format_size(memory.size()) +
                                       " of guest memory");
    load_range(memory, file, segment.p_offset, segment.p_filesz, area.start, "the kernel");
    loaded.push_back(area);
    kernel.end = std::max(kernel.end, area.end());
  }
  if (loaded.empty()) bad_image("it has nothing to load");
  kernel.protocol = pvh_entry ? BootProtocol::Pvh : BootProtocol::Linux64;
  kernel.entry = pvh_entry.value_or(header.e_entry);
  const bool inside = std::any_of(loaded.begin(), loaded.end(), [&](const auto& area) {
    return kernel.entry >= area.start && kernel.entry < area.end();
  });
  if (!inside) bad_image("its entry point lies outside of what it loads");
  return kernel;
}

// ---- bzImage ----------------------------------------------------------------------------------

static LoadedKernel load_bzimage(const GuestMemory& memory, int file, uint64_t file_size) {
  // Offsets in the file, which are those in the zero page (boot.rst, "The Real-Mode Kernel
  // Header").
  constexpr uint64_t kHeader = 0x1f1, kJump = 0x200, kMaxHeaderEnd = 0x280;
  constexpr uint16_t kNeedsVersion = 0x20c;  // xloadflags
  constexpr uint16_t kHas64BitEntry = 1;
  constexpr uint64_t k64BitEntry = 0x200;

  const Bytes start = read_range(file, file_size, 0, kMaxHeaderEnd, "the boot header");
  const auto field = [&start]<typename T>(uint64_t offset, T) {
    T value{};
    std::memcpy(&value, start.data() + offset, sizeof value);
    return value;
  };
  const uint16_t version = field(0x206, uint16_t{});
  if (version < kNeedsVersion) bad_image("its boot protocol is older than 2.12");
  if ((field(0x236, uint16_t{}) & kHas64BitEntry) == 0) bad_image("it has no 64-bit entry point");
  const uint64_t setup_sectors = field(0x1f1, uint8_t{}) == 0 ? 4 : field(0x1f1, uint8_t{});
  const uint64_t code = (setup_sectors + 1) * 512;
  if (code >= file_size) bad_image("it ends before its code (is it truncated?)");
  if (file_size - code <= k64BitEntry)
    bad_image("it ends before its entry point (is it truncated?)");
  const uint64_t stated = uint64_t{field(0x1f4, uint32_t{})} * 16;
  if (stated > file_size - code)
    bad_image("it is truncated: " + std::to_string(file_size - code) + " of " +
              std::to_string(stated) + " bytes of code are there");

  LoadedKernel kernel;
  kernel.protocol = BootProtocol::Linux64;
  const uint64_t preferred = field(0x258, uint64_t{});
  const uint64_t needed = field(0x260, uint32_t{});
  const uint64_t load = layout::kHighMemoryStart;
  load_range(memory, file, code, file_size - code, load, "the kernel");
  kernel.entry = load + k64BitEntry;
  // It unpacks itself to its preferred address, or above where it was loaded.
  const auto unpacked = checked_add<uint64_t>(std::max(preferred, load), needed);
  if (!unpacked || !memory.slice(GuestAddress{std::max(preferred, load)}, needed))
    throw Error(Kind::Exhausted, "the kernel needs " + format_size(needed) +
                                     " to unpack, more than the guest's memory has");
  kernel.end = std::max(*unpacked, load + (file_size - code));
  const uint64_t header_end =
      std::min<uint64_t>(kMaxHeaderEnd, kJump + 2 + field(0x201, uint8_t{}));
  kernel.setup_header.assign(start.begin() + kHeader,
                             start.begin() + static_cast<ptrdiff_t>(header_end));
  return kernel;
}

// ---- either -----------------------------------------------------------------------------------

LoadedKernel load_kernel(const GuestMemory& memory, int file) {
  const uint64_t size = sys::file_size(file);
  std::array<std::byte, 0x206> start{};
  if (size < start.size())
    bad_image(size == 0 ? "it is empty" : "it has only " + std::to_string(size) + " bytes");
  if (!sys::pread_exact(file, start, 0)) bad_image("the file became shorter while it was read");
  if (std::memcmp(start.data(), ELFMAG, SELFMAG) == 0) return load_elf(memory, file, size);
  if (as_text(ByteView(start).subspan(0x202, 4)) == "HdrS") return load_bzimage(memory, file, size);
  if (start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b})
    bad_image("it is a gzip file: unpack it first");
  if (as_text(ByteView(start).subspan(0x38, 4)) == "ARM\x64")
    bad_image("it is for another architecture (arm64)");
  bad_image("it is neither an ELF file (vmlinux) nor a bzImage");
}

LoadedInitrd load_initrd(const GuestMemory& memory, int file, uint64_t kernel_end) {
  const uint64_t size = sys::file_size(file);
  if (size > kMaxInitrd)
    throw Error(Kind::Invalid, "the initramfs is larger than " + format_size(kMaxInitrd));
  const uint64_t top = memory.regions().front().size;
  if (size > top)
    throw Error(Kind::Exhausted, "the initramfs does not fit into the guest's memory");
  const uint64_t address = (top - size) & ~(memory::kPageSize - 1);
  if (address < kernel_end)
    throw Error(Kind::Exhausted, "kernel and initramfs do not fit into " +
                                     format_size(memory.size()) + " of guest memory");
  load_range(memory, file, 0, size, address, "the initramfs");
  return {address, size};
}

}
