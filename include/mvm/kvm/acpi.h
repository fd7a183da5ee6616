#pragma once
// The ACPI tables by which an unmodified kernel finds its CPUs, its interrupt controller, its
// devices and the way to power off (ACPI 6.5; the hardware-reduced model of §4.1, so no timer, no
// SCI and no fixed buttons to emulate).

#include <cstdint>
#include <optional>
#include <span>

#include "mvm/memory/guest_memory.h"

namespace mvm::kvm {

struct MmioDevice {
  uint64_t address = 0;  // of a 4 KiB window
  uint32_t gsi = 0;      // edge-triggered, active high
};

struct MachineDescription {
  uint32_t cpus = 1;
  std::span<const MmioDevice> devices;
  bool serial = false;  // a UART at layout::kSerialPort
};

// Writes the tables to layout::kAcpi; returns the address of the RSDP.
uint64_t write_acpi_tables(const memory::GuestMemory& memory, const MachineDescription& machine);

enum class PowerEvent { PowerOff, Reboot };
// What a write to the ports named in the tables, or to the keyboard controller's reset line, asks
// for.
std::optional<PowerEvent> power_event(uint16_t port, uint8_t value) noexcept;

}
