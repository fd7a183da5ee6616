#include "mvm/kvm/boot.h"

#include <array>
#include <string>

#include "mvm/base/error.h"
#include "mvm/kvm/layout.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;

struct MemoryRange {
  uint64_t start;
  uint64_t size;
  uint32_t type;
};

static std::vector<MemoryRange> memory_map(const GuestMemory& memory) {
  constexpr uint32_t kRam = 1, kReserved = 2;
  std::vector<MemoryRange> map;
  map.push_back({0, layout::kLowMemoryEnd, kRam});
  map.push_back({layout::kAcpi.start, layout::kAcpi.size, kReserved});
  const auto& low = memory.regions().front();
  map.push_back({layout::kHighMemoryStart, low.size - layout::kHighMemoryStart, kRam});
  for (const auto& region : memory.regions().subspan(1))
    map.push_back({region.start.value, region.size, kRam});
  return map;
}

// Below 1 MiB everything exists: the smallest guest has more.
static void put(const GuestMemory& memory, uint64_t address, ByteView data) {
  MVM_ASSERT(memory.write(GuestAddress{address}, data));
}

static void write_command_line(const GuestMemory& memory, std::string_view line) {
  if (line.size() >= layout::kCommandLine.size)
    throw Error(Kind::Invalid, "the kernel command line has " + std::to_string(line.size()) +
                                   " characters; the most is " +
                                   std::to_string(layout::kCommandLine.size - 1));
  std::string terminated(line);
  terminated.push_back('\0');
  put(memory, layout::kCommandLine.start, as_bytes(terminated));
}

static void write_gdt(const GuestMemory& memory, bool long_mode) {
  constexpr uint64_t kCode32 = 0x00cf'9b00'0000'ffff, kCode64 = 0x00af'9b00'0000'ffff,
                     kData = 0x00cf'9300'0000'ffff;
  // A 64-bit TSS descriptor takes two slots.
  constexpr uint64_t kTss = 0x0000'8b00'0000'0067;
  const std::array<uint64_t, 5> gdt = {0, long_mode ? kCode64 : kCode32, kData, kTss, 0};
  put(memory, layout::kGdt.start, std::as_bytes(std::span(gdt)));
}

// The first 4 GiB, identity mapped by 2 MiB pages.
static uint64_t write_page_tables(const GuestMemory& memory) {
  constexpr uint64_t kPresentWritable = 3, kLargePage = 1 << 7, kEntries = 512, kTable = 4096;
  Bytes tables;
  Writer out(tables);
  const uint64_t base = layout::kPageTables.start;
  out.u64((base + kTable) | kPresentWritable);
  out.zeros(kTable - 8);
  for (uint64_t i = 0; i < 4; ++i) out.u64((base + (2 + i) * kTable) | kPresentWritable);
  out.zeros(kTable - 4 * 8);
  for (uint64_t i = 0; i < 4 * kEntries; ++i) out.u64((i << 21) | kPresentWritable | kLargePage);
  MVM_ASSERT(tables.size() == layout::kPageTables.size);
  put(memory, base, tables);
  return base;
}

static Vcpu::Entry write_pvh(const GuestMemory& memory, const LoadedKernel& kernel,
                             LoadedInitrd initrd, uint64_t rsdp) {
  constexpr uint32_t kMagic = 0x336e'c578, kVersion = 1;
  constexpr uint64_t kModules = layout::kStartInfo.start + 0x40,
                     kMap = layout::kStartInfo.start + 0x80;
  const auto map = memory_map(memory);
  Bytes bytes;
  Writer out(bytes);
  // struct hvm_start_info
  out.u32(kMagic);
  out.u32(kVersion);
  out.u32(0);
  out.u32(initrd.size > 0 ? 1 : 0);
  out.u64(kModules);
  out.u64(layout::kCommandLine.start);
  out.u64(rsdp);
  out.u64(kMap);
  out.u32(static_cast<uint32_t>(map.size()));
  out.u32(0);
  out.zeros(kModules - layout::kStartInfo.start - out.size());
  // struct hvm_modlist_entry
  out.u64(initrd.address);
  out.u64(initrd.size);
  out.zeros(kMap - layout::kStartInfo.start - out.size());
  // struct hvm_memmap_table_entry
  for (const auto& range : map) {
    out.u64(range.start);
    out.u64(range.size);
    out.u32(range.type);
    out.u32(0);
  }
  MVM_ASSERT(bytes.size() <= layout::kStartInfo.size);
  put(memory, layout::kStartInfo.start, bytes);
  write_gdt(memory, false);
  return {.rip = kernel.entry, .rbx = layout::kStartInfo.start, .gdt = layout::kGdt.start};
}

static Vcpu::Entry write_linux64(const GuestMemory& memory, const LoadedKernel& kernel,
                                 LoadedInitrd initrd, uint64_t rsdp) {
  Bytes page(layout::kZeroPage.size);
  const auto set = [&page]<typename T>(size_t offset, T value) {
    std::memcpy(page.data() + offset, &value, sizeof value);
  };
  // What the kernel's own header says comes first, so that what a boot loader decides wins.
  std::copy(kernel.setup_header.begin(), kernel.setup_header.end(), page.begin() + 0x1f1);
  set(0x070, rsdp);
  set(0x1fe, uint16_t{0xaa55});
  set(0x202, uint32_t{0x5372'6448});  // "HdrS"
  set(0x210, uint8_t{0xff});          // an unregistered boot loader
  set(0x211, static_cast<uint8_t>(std::to_integer<uint8_t>(page[0x211]) | 1U));  // loaded high
  set(0x218, static_cast<uint32_t>(initrd.address));
  set(0x21c, static_cast<uint32_t>(initrd.size));
  set(0x228, static_cast<uint32_t>(layout::kCommandLine.start));
  set(0x250, uint64_t{0});  // setup_data: a list that the kernel would follow
  if (kernel.setup_header.empty()) set(0x230, uint32_t{0x0100'0000});  // kernel_alignment
  const auto map = memory_map(memory);
  set(0x1e8, static_cast<uint8_t>(map.size()));
  for (size_t i = 0; i < map.size(); ++i) {
    const size_t at = 0x2d0 + i * 20;
    set(at, map[i].start);
    set(at + 8, map[i].size);
    set(at + 16, map[i].type);
  }
  put(memory, layout::kZeroPage.start, page);
  write_gdt(memory, true);
  return {.rip = kernel.entry,
          .rsi = layout::kZeroPage.start,
          .long_mode = true,
          .page_table = write_page_tables(memory),
          .gdt = layout::kGdt.start};
}

Vcpu::Entry write_boot_data(const GuestMemory& memory, const LoadedKernel& kernel,
                            LoadedInitrd initrd, std::string_view command_line, uint64_t rsdp) {
  write_command_line(memory, command_line);
  return kernel.protocol == BootProtocol::Pvh ? write_pvh(memory, kernel, initrd, rsdp)
                                              : write_linux64(memory, kernel, initrd, rsdp);
}

}
