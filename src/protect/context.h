#pragma once
// What the words before a value say it is. Only the same field counts: a line's end, a tab, a bar,
// the next form field or JSON member ends the search, and so does the distance of 64 bytes.

#include <cstdint>

#include "window.h"

namespace mvm::protect {

enum Context : uint32_t {
  kSaysPhone = 1U << 0,
  kSaysCard = 1U << 1,
  kSaysSsn = 1U << 2,
  kSaysNational = 1U << 3,
  kSaysHealth = 1U << 4,
  kSaysRouting = 1U << 5,
  kSaysBirth = 1U << 6,
  kSaysPassport = 1U << 7,
  kSaysLicence = 1U << 8,
  kSaysSecret = 1U << 9,
  kSaysVehicle = 1U << 10,
  kSaysPlace = 1U << 11,
  kSaysAddress = 1U << 12,  // of a network
  // The nearest word that says anything says that this is something else: an order, a version.
  kSaysOther = 1U << 31,
};

// Bits of Context for a value that starts at `start`.
uint32_t context_before(const Window& window, size_t start);

}
