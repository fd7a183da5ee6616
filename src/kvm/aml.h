#pragma once
// As much of ACPI machine language (ACPI 6.5 §20) as a list of devices needs: a function makes the
// bytes of one term.

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::kvm::aml {

Bytes integer(uint64_t value);
Bytes text(std::string_view value);
// A compressed EISA id, "PNP0501".
Bytes eisa_id(std::string_view id);
Bytes package(std::initializer_list<Bytes> elements);
Bytes name(std::string_view path, const Bytes& value);
Bytes device(std::string_view segment, std::initializer_list<Bytes> body);
Bytes scope(std::string_view path, const Bytes& body);

// Resource descriptors (§6.4), joined in a template.
Bytes memory32(uint32_t start, uint32_t size);
Bytes interrupt(uint32_t gsi);
Bytes io_ports(uint16_t first, uint8_t count);
Bytes resources(std::initializer_list<Bytes> descriptors);

}
