#include "mvm/kvm/acpi.h"

#include <string>

#include "mvm/base/error.h"
#include "mvm/kvm/layout.h"

#include "aml.h"

namespace mvm::kvm {

// What \_S5 tells the kernel to write, with SLP_EN (bit 5), into the sleep control register
// (§4.8.3.7).
static constexpr uint8_t kSleepTypeOff = 5;
static constexpr uint8_t kSleepOff = kSleepTypeOff << 2 | 1 << 5;
static constexpr uint8_t kResetValue = 0x42;

static uint8_t checksum(ByteView bytes) {
  uint8_t sum = 0;
  for (const std::byte byte : bytes)
    sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(byte));
  return static_cast<uint8_t>(-sum);
}

// The common header (§5.2.6) in front of `body`, with length and checksum right.
static Bytes table(std::string_view signature, uint8_t revision, const Bytes& body) {
  Bytes out;
  Writer writer(out);
  writer.text(signature);
  writer.u32(static_cast<uint32_t>(36 + body.size()));
  writer.u8(revision);
  writer.u8(0);  // checksum
  writer.text("MVM   ");
  writer.text("MVMTABLE");
  writer.u32(1);
  writer.text("MVM ");
  writer.u32(1);
  writer.bytes(body);
  out[9] = static_cast<std::byte>(checksum(out));
  return out;
}

static Bytes dsdt(const MachineDescription& machine) {
  Bytes devices;
  uint32_t number = 0;
  for (const auto& device : machine.devices) {
    MVM_ASSERT(device.gsi < layout::kIoApicPins);
    std::string segment = "VIO0";
    segment[2] = static_cast<char>('A' + number / 10);
    segment[3] = static_cast<char>('0' + number % 10);
    const Bytes node = aml::device(
        segment,
        {aml::name("_HID", aml::text("LNRO0005")), aml::name("_UID", aml::integer(number)),
         aml::name("_CCA", aml::integer(1)),
         aml::name("_CRS",
                   aml::resources({aml::memory32(static_cast<uint32_t>(device.address), 0x1000),
                                   aml::interrupt(device.gsi)}))});
    devices.insert(devices.end(), node.begin(), node.end());
    ++number;
  }
  // Tells us of a panic before the kernel reboots.
  const Bytes pvpanic = aml::device(
      "PEVT", {aml::name("_HID", aml::text("QEMU0001")),
               aml::name("_CRS", aml::resources({aml::io_ports(layout::kPvpanicPort, 1)}))});
  devices.insert(devices.end(), pvpanic.begin(), pvpanic.end());
  if (machine.serial) {
    const Bytes uart = aml::device(
        "COM1", {aml::name("_HID", aml::eisa_id("PNP0501")), aml::name("_UID", aml::integer(0)),
                 aml::name("_CRS", aml::resources({aml::io_ports(layout::kSerialPort, 8),
                                                   aml::interrupt(layout::kSerialGsi)}))});
    devices.insert(devices.end(), uart.begin(), uart.end());
  }
  Bytes body = aml::scope("\\_SB_", devices);
  const Bytes off = aml::name("\\_S5_", aml::package({aml::integer(kSleepTypeOff)}));
  body.insert(body.end(), off.begin(), off.end());
  return table("DSDT", 6, body);
}

static Bytes madt(uint32_t cpus) {
  MVM_ASSERT(cpus >= 1 && cpus <= layout::kMaxCpus);
  Bytes body;
  Writer writer(body);
  writer.u32(static_cast<uint32_t>(layout::kLocalApic));
  writer.u32(0);  // no 8259 pair
  for (uint32_t cpu = 0; cpu < cpus; ++cpu) {
    writer.u8(0);  // local APIC
    writer.u8(8);
    writer.u8(static_cast<uint8_t>(cpu));
    writer.u8(static_cast<uint8_t>(cpu));
    writer.u32(1);  // enabled
  }
  writer.u8(1);  // I/O APIC
  writer.u8(12);
  writer.u8(0);
  writer.u8(0);
  writer.u32(static_cast<uint32_t>(layout::kIoApic));
  writer.u32(0);
  return table("APIC", 5, body);
}

static void io_register(Writer& writer, uint16_t port) {
  writer.u8(1);  // system I/O
  writer.u8(8);  // bits
  writer.u8(0);
  writer.u8(1);  // byte access
  writer.u64(port);
}

static Bytes fadt(uint64_t dsdt_address) {
  constexpr uint16_t kNoVga = 1 << 2,
                     kNoCmosRtc = 1 << 5;  // and bit 1 clear: no keyboard controller to wait for
  constexpr uint32_t kWriteBackInvalidate = 1 << 0, kNoPowerButton = 1 << 4,
                     kNoSleepButton = 1 << 5;
  constexpr uint32_t kHasResetRegister = 1 << 10, kHardwareReduced = 1 << 20;
  // Offsets are those of §5.2.9, less the header's 36.
  Bytes body(276 - 36);
  const auto set = [&body]<typename T>(size_t offset, T value) {
    std::memcpy(body.data() + offset - 36, &value, sizeof value);
  };
  set(109, static_cast<uint16_t>(kNoVga | kNoCmosRtc));
  set(112, kWriteBackInvalidate | kNoPowerButton | kNoSleepButton | kHasResetRegister |
               kHardwareReduced);
  Bytes address;
  Writer writer(address);
  const auto place = [&](size_t offset) {
    std::copy(address.begin(), address.end(), body.begin() + static_cast<ptrdiff_t>(offset - 36));
    address.clear();
  };
  io_register(writer, layout::kResetPort);
  place(116);
  set(128, kResetValue);
  set(131, uint8_t{5});  // minor revision
  set(140, dsdt_address);
  io_register(writer, layout::kSleepPort);
  place(244);
  io_register(writer, layout::kSleepStatusPort);
  place(256);
  return table("FACP", 6, body);
}

uint64_t write_acpi_tables(const memory::GuestMemory& memory, const MachineDescription& machine) {
  uint64_t next = layout::kAcpi.start + 64;  // behind the RSDP
  const auto place = [&](const Bytes& bytes) {
    const uint64_t at = next;
    MVM_ASSERT(at + bytes.size() <= layout::kAcpi.end());
    MVM_ASSERT(memory.write(memory::GuestAddress{at}, bytes));
    next = (at + bytes.size() + 15) & ~uint64_t{15};
    return at;
  };
  const uint64_t dsdt_at = place(dsdt(machine));
  const uint64_t fadt_at = place(fadt(dsdt_at));
  const uint64_t madt_at = place(madt(machine.cpus));
  Bytes pointers;
  Writer writer(pointers);
  writer.u64(fadt_at);
  writer.u64(madt_at);
  const uint64_t xsdt_at = place(table("XSDT", 1, pointers));

  Bytes rsdp;  // §5.2.5.3
  Writer out(rsdp);
  out.text("RSD PTR ");
  out.u8(0);
  out.text("MVM   ");
  out.u8(2);
  out.u32(0);  // no RSDT
  out.u32(36);
  out.u64(xsdt_at);
  out.u8(0);
  out.zeros(3);
  rsdp[8] = static_cast<std::byte>(checksum(ByteView(rsdp).first(20)));
  rsdp[32] = static_cast<std::byte>(checksum(rsdp));
  MVM_ASSERT(memory.write(memory::GuestAddress{layout::kAcpi.start}, rsdp));
  return layout::kAcpi.start;
}

std::optional<PowerEvent> power_event(uint16_t port, uint8_t value) noexcept {
  constexpr uint8_t kPulseReset = 0xfe;
  if (port == layout::kSleepPort && value == kSleepOff) return PowerEvent::PowerOff;
  if (port == layout::kResetPort && value == kResetValue) return PowerEvent::Reboot;
  if (port == layout::kI8042CommandPort && value == kPulseReset) return PowerEvent::Reboot;
  return std::nullopt;
}

}
