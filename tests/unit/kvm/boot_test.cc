// What the kernel finds in memory, read back by the offsets of the protocols' documents.
#include "mvm/kvm/boot.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/kvm/layout.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;

static constexpr uint64_t kGuest = 4 << 20;

template <typename T>
static T at(const GuestMemory& memory, uint64_t address) {
  return memory.read_value<T>(GuestAddress{address}).value();
}

static std::string text_at(const GuestMemory& memory, uint64_t address) {
  std::string out;
  while (const char c = at<char>(memory, address + out.size())) out.push_back(c);
  return out;
}

TEST(Boot, DescribesTheMachineToAPvhKernel) {
  const auto memory = GuestMemory::create(kGuest);
  const LoadedKernel kernel{
      .protocol = BootProtocol::Pvh, .entry = 0x12'3456, .end = 0x20'0000, .setup_header = {}};
  const auto entry = write_boot_data(memory, kernel, {0x3f'f000, 9}, "quiet", 0xe'0000);
  EXPECT_EQ(entry.rip, 0x12'3456U);
  EXPECT_FALSE(entry.long_mode);
  const uint64_t info = entry.rbx;
  EXPECT_EQ(at<uint32_t>(memory, info), 0x336ec578U);
  EXPECT_EQ(at<uint32_t>(memory, info + 4), 1U);   // version
  EXPECT_EQ(at<uint32_t>(memory, info + 12), 1U);  // modules
  const auto module = at<uint64_t>(memory, info + 16);
  EXPECT_EQ(at<uint64_t>(memory, module), 0x3f'f000U);
  EXPECT_EQ(at<uint64_t>(memory, module + 8), 9U);
  EXPECT_EQ(text_at(memory, at<uint64_t>(memory, info + 24)), "quiet");
  EXPECT_EQ(at<uint64_t>(memory, info + 32), 0xe'0000U);
  const auto map = at<uint64_t>(memory, info + 40);
  ASSERT_EQ(at<uint32_t>(memory, info + 48), 3U);
  // Usable, the tables reserved, usable to the end.
  EXPECT_EQ(at<uint64_t>(memory, map), 0U);
  EXPECT_EQ(at<uint64_t>(memory, map + 8), 0x9fc00U);
  EXPECT_EQ(at<uint32_t>(memory, map + 16), 1U);
  EXPECT_EQ(at<uint64_t>(memory, map + 24), 0xe0000U);
  EXPECT_EQ(at<uint32_t>(memory, map + 40), 2U);
  EXPECT_EQ(at<uint64_t>(memory, map + 48), 0x10'0000U);
  EXPECT_EQ(at<uint64_t>(memory, map + 56), kGuest - 0x10'0000U);
  EXPECT_EQ(at<uint32_t>(memory, map + 64), 1U);
}

TEST(Boot, SaysThatThereIsNoModule) {
  const auto memory = GuestMemory::create(kGuest);
  const auto entry = write_boot_data(memory, {}, {}, "", 0);
  EXPECT_EQ(at<uint32_t>(memory, entry.rbx + 12), 0U);
}

TEST(Boot, DescribesMemoryBehindTheGap) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kGuest);
  const auto entry = write_boot_data(memory, {}, {}, "", 0);
  ASSERT_EQ(at<uint32_t>(memory, entry.rbx + 48), 4U);
  const auto map = at<uint64_t>(memory, entry.rbx + 40);
  EXPECT_EQ(at<uint64_t>(memory, map + 56), memory::kMmioGapStart - 0x10'0000);
  EXPECT_EQ(at<uint64_t>(memory, map + 72), memory::kMmioGapEnd);
  EXPECT_EQ(at<uint64_t>(memory, map + 80), kGuest);
}

TEST(Boot, FillsTheZeroPage) {
  const auto memory = GuestMemory::create(kGuest);
  LoadedKernel kernel{
      .protocol = BootProtocol::Linux64, .entry = 0x10'0200, .end = 0x20'0000, .setup_header = {}};
  kernel.setup_header.assign(0x26c - 0x1f1, std::byte{0xab});  // a header that lies everywhere
  const auto entry = write_boot_data(memory, kernel, {0x3f'f000, 9}, "quiet", 0xe'0000);
  EXPECT_EQ(entry.rip, 0x10'0200U);
  EXPECT_TRUE(entry.long_mode);
  const uint64_t page = entry.rsi;
  EXPECT_EQ(at<uint64_t>(memory, page + 0x70), 0xe'0000U);
  EXPECT_EQ(at<uint8_t>(memory, page + 0x1e8), 3U);
  EXPECT_EQ(at<uint16_t>(memory, page + 0x1fe), 0xaa55U);
  EXPECT_EQ(at<uint32_t>(memory, page + 0x202), 0x53726448U);
  EXPECT_EQ(at<uint8_t>(memory, page + 0x210), 0xff);
  EXPECT_EQ(at<uint8_t>(memory, page + 0x211) & 1, 1);
  EXPECT_EQ(at<uint32_t>(memory, page + 0x218), 0x3f'f000U);
  EXPECT_EQ(at<uint32_t>(memory, page + 0x21c), 9U);
  EXPECT_EQ(text_at(memory, at<uint32_t>(memory, page + 0x228)), "quiet");
  EXPECT_EQ(at<uint64_t>(memory, page + 0x2d0 + 40), 0x10'0000U);
  EXPECT_EQ(at<uint64_t>(memory, page + 0x2d0 + 48), kGuest - 0x10'0000U);
  // setup_data is a list the kernel follows; what the file says about it must not count.
  EXPECT_EQ(at<uint64_t>(memory, page + 0x250), 0U);
}

TEST(Boot, MapsFourGigabytesOneToOne) {
  const auto memory = GuestMemory::create(kGuest);
  const auto entry = write_boot_data(
      memory, {.protocol = BootProtocol::Linux64, .entry = 0, .end = 0, .setup_header = {}}, {}, "",
      0);
  constexpr uint64_t kAddress = ~uint64_t{0xfff};
  for (const uint64_t address :
       {uint64_t{0}, uint64_t{0x10'0000}, uint64_t{0xfee0'0000}, uint64_t{0xffff'ffff}}) {
    const auto pdpt = at<uint64_t>(memory, entry.page_table + 8 * (address >> 39));
    ASSERT_EQ(pdpt & 1, 1U);
    const auto directory = at<uint64_t>(memory, (pdpt & kAddress) + 8 * (address >> 30));
    ASSERT_EQ(directory & 1, 1U);
    const auto page = at<uint64_t>(memory, (directory & kAddress) + 8 * (address >> 21 & 511));
    EXPECT_EQ(page & 0x83, 0x83U);
    EXPECT_EQ(page & ~uint64_t{0x1f'ffff}, address & ~uint64_t{0x1f'ffff});
  }
}

TEST(Boot, RefusesACommandLineThatIsTooLong) {
  const auto memory = GuestMemory::create(kGuest);
  const std::string longest(layout::kCommandLine.size - 1, 'a');
  const auto entry = write_boot_data(memory, {}, {}, longest, 0);
  EXPECT_EQ(text_at(memory, at<uint64_t>(memory, entry.rbx + 24)), longest);
  try {
    write_boot_data(memory, {}, {}, longest + "a", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    EXPECT_STREQ(error.what(), "the kernel command line has 2048 characters; the most is 2047");
  }
}

}
