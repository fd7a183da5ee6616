#pragma once

#include "mvm/virtio/rng.h"

namespace mvm::monitor {

// The host kernel's generator, copied into guest memory by way of a buffer of our own: getrandom(2)
// would write straight into memory that the guest may be changing, which is harmless, but then a
// fault there would be ours.
class HostEntropy : public virtio::EntropySource {
 public:
  bool fill(std::span<std::byte> into) noexcept override;
};

}
