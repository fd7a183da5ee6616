// The ACPI tables, followed from the root as a kernel does, and by the reference disassembler where
// it is installed.
#include "mvm/kvm/acpi.h"

#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fcntl.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/bytes.h"
#include "mvm/kvm/layout.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;
using testing::HasSubstr;
using testing::Not;

static constexpr auto kDevices = std::to_array<MmioDevice>({{0xd000'0000, 5}, {0xd000'1000, 6}});

static unsigned sum(ByteView bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0U,
                         [](unsigned total, std::byte byte) {
                           return total + std::to_integer<unsigned>(byte);
                         }) &
         0xff;
}

static Bytes copy(const GuestMemory& memory, uint64_t address, size_t length) {
  Bytes out(length);
  EXPECT_TRUE(memory.read(GuestAddress{address}, out));
  return out;
}

template <typename T>
static T field(ByteView table, size_t offset) {
  Reader in(table);
  in.skip(offset);
  const T value = in.read<T>();
  EXPECT_TRUE(in) << offset;
  return value;
}

static Bytes table_at(const GuestMemory& memory, uint64_t address) {
  const auto length = field<uint32_t>(copy(memory, address, 8), 4);
  EXPECT_LE(address + length, layout::kAcpi.end());
  const Bytes table = copy(memory, address, length);
  EXPECT_EQ(sum(table), 0U) << as_text(table).substr(0, 4);
  return table;
}

// Every table that the root leads to, by signature.
static std::map<std::string, Bytes> tables(const MachineDescription& machine,
                                           uint64_t size = 1 << 20) {
  const auto memory = GuestMemory::create(size);
  const uint64_t root = write_acpi_tables(memory, machine);
  EXPECT_EQ(root % 16, 0U);  // where a kernel looks for it
  const Bytes rsdp = copy(memory, root, 36);
  EXPECT_EQ(as_text(rsdp).substr(0, 8), "RSD PTR ");
  EXPECT_EQ(sum(ByteView(rsdp).first(20)), 0U);
  EXPECT_EQ(sum(rsdp), 0U);
  std::map<std::string, Bytes> all;
  const Bytes xsdt = table_at(memory, field<uint64_t>(rsdp, 24));
  all["XSDT"] = xsdt;
  for (size_t at = 36; at < xsdt.size(); at += 8) {
    const Bytes table = table_at(memory, field<uint64_t>(xsdt, at));
    all[std::string(as_text(table).substr(0, 4))] = table;
  }
  const Bytes dsdt = table_at(memory, field<uint64_t>(all.at("FACP"), 140));
  all[std::string(as_text(dsdt).substr(0, 4))] = dsdt;
  return all;
}

TEST(Acpi, TablesAreReachedFromTheRoot) {
  const auto all = tables({.cpus = 2, .devices = kDevices, .serial = true});
  for (const char* signature : {"XSDT", "FACP", "APIC", "DSDT"})
    EXPECT_TRUE(all.contains(signature)) << signature;
}

TEST(Acpi, DescribesAMachineWithoutLegacyHardware) {
  const Bytes fadt = tables({}).at("FACP");
  const auto flags = field<uint32_t>(fadt, 112);
  EXPECT_NE(flags & 1U << 20, 0U);  // hardware-reduced
  EXPECT_NE(flags & 1U << 10, 0U);  // has a reset register
  const auto boot = field<uint16_t>(fadt, 109);
  EXPECT_NE(boot & 1U << 5, 0U);  // no CMOS clock: its probe costs seconds
  EXPECT_NE(boot & 1U << 2, 0U);  // no VGA
  EXPECT_EQ(boot & 1U << 1, 0U);  // no keyboard controller
}

TEST(Acpi, PowerOffAndRebootReachTheMonitorAsTheTablesSay) {
  const auto all = tables({});
  const Bytes& fadt = all.at("FACP");
  ASSERT_EQ(field<uint8_t>(fadt, 116), 1);  // system I/O
  const auto reset_port = static_cast<uint16_t>(field<uint64_t>(fadt, 120));
  EXPECT_EQ(power_event(reset_port, field<uint8_t>(fadt, 128)), PowerEvent::Reboot);
  ASSERT_EQ(field<uint8_t>(fadt, 244), 1);
  const auto sleep_port = static_cast<uint16_t>(field<uint64_t>(fadt, 248));
  // What a kernel writes for \_S5 (ACPI 4.8.3.7): SLP_TYP in bits 2 to 4, SLP_EN in bit 5.
  EXPECT_EQ(power_event(sleep_port, 5 << 2 | 1 << 5), PowerEvent::PowerOff);
  EXPECT_NE(field<uint64_t>(fadt, 260), 0U);  // without a status register there is no sleeping
  const std::string aml(as_text(all.at("DSDT")));
  EXPECT_NE(aml.find(std::string("\\_S5_\x12\x04\x01\x0a\x05", 10)), std::string::npos);
}

TEST(Acpi, OtherWritesAreNoPowerEvents) {
  EXPECT_EQ(power_event(layout::kSleepPort, 0), std::nullopt);
  EXPECT_EQ(power_event(layout::kSleepPort, 5 << 2), std::nullopt);  // SLP_EN is not set
  EXPECT_EQ(power_event(layout::kSleepStatusPort, 0x80), std::nullopt);
  EXPECT_EQ(power_event(layout::kResetPort, 0), std::nullopt);
  EXPECT_EQ(power_event(layout::kI8042CommandPort, 0xd1), std::nullopt);
  EXPECT_EQ(power_event(0x80, 0xfe), std::nullopt);
}

TEST(Acpi, KeyboardControllerResets) { EXPECT_EQ(power_event(0x64, 0xfe), PowerEvent::Reboot); }

TEST(Acpi, ListsEveryCpuAndTheInterruptController) {
  const Bytes madt = tables({.cpus = 3}).at("APIC");
  EXPECT_EQ(field<uint32_t>(madt, 36), 0xfee0'0000U);
  EXPECT_EQ(field<uint32_t>(madt, 40) & 1, 0U);  // no 8259s
  Reader in(madt);
  in.skip(44);
  std::vector<unsigned> cpus;
  unsigned controllers = 0;
  while (in.remaining() > 0) {
    const unsigned type = in.u8(), length = in.u8();
    ASSERT_GE(length, 8U);
    Reader entry(in.bytes(length - 2));
    if (type == 0) {
      entry.u8();
      cpus.push_back(entry.u8());
      EXPECT_EQ(entry.u32(), 1U);
    } else {
      ASSERT_EQ(type, 1U);
      ++controllers;
      entry.u16();
      EXPECT_EQ(entry.u32(), 0xfec0'0000U);
      EXPECT_EQ(entry.u32(), 0U);
    }
    ASSERT_TRUE(entry);
  }
  EXPECT_THAT(cpus, testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(controllers, 1U);
}

TEST(Acpi, HoldsAMachineOfTheLargestSize) {
  std::vector<MmioDevice> devices;
  for (uint32_t i = 0; i < 18; ++i) devices.push_back({0xd000'0000 + i * 0x1000, 5 + i});
  const auto all = tables({.cpus = 254, .devices = devices, .serial = true});
  EXPECT_EQ(all.at("APIC").size(), 44U + 254 * 8 + 12);
}

// The DSDT in ACPI's source language, or nothing when the disassembler is not installed.
static std::optional<std::string> disassembled(const Bytes& table) {
  if (!sys::exists("/usr/bin/iasl")) return std::nullopt;
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/table.dat", table);
  const auto quiet = sys::open_file("/dev/null", O_RDWR);
  auto child = sys::spawn({.argv = {"/usr/bin/iasl", "-d", directory.path() + "/table.dat"},
                           .env = {},
                           .fds = {{quiet.get(), 0}, {quiet.get(), 1}, {quiet.get(), 2}},
                           .directory = directory.path()});
  const auto status = child.wait(std::chrono::seconds(30));
  EXPECT_TRUE(status && *status == sys::ExitStatus{}) << (status ? status->text() : "no end");
  return sys::read_text_file(directory.path() + "/table.dsl", 1 << 20);
}

TEST(Acpi, TheReferenceDisassemblerReadsTheDevices) {
  const auto text =
      disassembled(tables({.cpus = 1, .devices = kDevices, .serial = true}).at("DSDT"));
  if (!text) GTEST_SKIP() << "iasl is not installed";
  EXPECT_THAT(*text, HasSubstr("Device (VIA0)"));
  EXPECT_THAT(*text, HasSubstr("Device (VIA1)"));
  EXPECT_THAT(*text, HasSubstr("Name (_HID, \"LNRO0005\")"));
  EXPECT_THAT(*text, HasSubstr("0xD0001000,         // Address Base"));
  EXPECT_THAT(*text, HasSubstr("Interrupt (ResourceConsumer, Edge, ActiveHigh, Exclusive"));
  EXPECT_THAT(*text, HasSubstr("0x00000006,"));
  EXPECT_THAT(*text, HasSubstr("Name (_HID, \"QEMU0001\")"));
  EXPECT_THAT(*text, HasSubstr("0x0505,             // Range Minimum"));
  EXPECT_THAT(*text, HasSubstr("EisaId (\"PNP0501\")"));
  EXPECT_THAT(*text, HasSubstr("0x03F8,             // Range Minimum"));
  EXPECT_THAT(*text, HasSubstr("Name (\\_S5, Package (0x01)"));
}

TEST(Acpi, TheReferenceDisassemblerReadsTheFixedTables) {
  const auto all = tables({.cpus = 2, .devices = kDevices});
  const auto fadt = disassembled(all.at("FACP"));
  if (!fadt) GTEST_SKIP() << "iasl is not installed";
  EXPECT_THAT(*fadt, HasSubstr("Hardware Reduced (V5) : 1"));
  EXPECT_THAT(*fadt, HasSubstr("CMOS RTC Not Present (V5) : 1"));
  EXPECT_THAT(*fadt, HasSubstr("Reset Register Supported (V2) : 1"));
  EXPECT_THAT(*fadt, Not(HasSubstr("Invalid")));
  const auto madt = disassembled(all.at("APIC"));
  EXPECT_THAT(*madt, HasSubstr("I/O APIC"));
  EXPECT_THAT(*madt, Not(HasSubstr("Invalid")));
}

// Disassembles the table, compiles what came out, and returns what the compiler said of it.
static std::optional<std::string> recompiled(const Bytes& table) {
  if (!sys::exists("/usr/bin/iasl")) return std::nullopt;
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/table.dat", table);
  const auto input = sys::open_file("/dev/null", O_RDWR);
  const auto output = sys::open_file(directory.path() + "/words", O_RDWR | O_CREAT);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-d", "table.dat"}, std::vector<std::string>{"table.dsl"}}) {
    std::vector<std::string> argv{"/usr/bin/iasl"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    auto child = sys::spawn({.argv = argv,
                             .env = {},
                             .fds = {{input.get(), 0}, {output.get(), 1}, {output.get(), 2}},
                             .directory = directory.path()});
    const auto status = child.wait(std::chrono::seconds(60));
    if (!status || *status != sys::ExitStatus{}) break;
  }
  return sys::read_text_file(directory.path() + "/words", 1 << 20);
}

TEST(Acpi, EveryTableOfEveryShapeOfMachineCompilesAgain) {
  std::vector<MmioDevice> many;
  for (uint32_t i = 0; i < 18; ++i)
    many.push_back({0xd000'0000 + i * 0x1000, 5 + i + (i >= 4 ? 1 : 0)});
  const auto shapes = std::to_array<MachineDescription>({
      {.cpus = 1, .devices = {}, .serial = false},
      {.cpus = 1, .devices = kDevices, .serial = true},
      {.cpus = 32, .devices = kDevices, .serial = false},
      {.cpus = 32, .devices = many, .serial = true},
  });
  for (const MachineDescription& shape : shapes) {
    // The last of them with memory on both sides of the gap, of which nothing is touched but this.
    const uint64_t size = shape.cpus == 1 ? uint64_t{2} << 20 : uint64_t{5} << 30;
    for (const auto& [name, table] : tables(shape, size)) {
      const auto words = recompiled(table);
      if (!words) GTEST_SKIP() << "iasl is not installed";
      const bool fine = words->find("Compilation successful. 0 Errors") != words->npos;
      EXPECT_TRUE(fine) << name << " of " << shape.cpus << " CPUs and " << shape.devices.size()
                        << " devices:\n"
                        << *words;
    }
  }
}

TEST(Acpi, NoSerialPortUnlessThereIsOne) {
  const std::string with(as_text(tables({.serial = true}).at("DSDT")));
  const std::string without(as_text(tables({.serial = false}).at("DSDT")));
  EXPECT_NE(with.find("COM1"), std::string::npos);
  EXPECT_EQ(without.find("COM1"), std::string::npos);
}

}
