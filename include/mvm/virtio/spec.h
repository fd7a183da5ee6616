#pragma once
// Numbers and layouts of the virtio 1.2 specification that more than one file needs. Only split
// virtqueues and modern devices (VIRTIO_F_VERSION_1) exist here.

#include <cstdint>
#include <type_traits>

namespace mvm::virtio {

// §5: device types.
enum class DeviceId : uint32_t {
  Network = 1,
  Block = 2,
  Console = 3,
  Entropy = 4,
  Balloon = 5,
  Vsock = 19,
};

// §2.2: a set of feature bits.
class Features {
 public:
  constexpr Features() noexcept = default;
  constexpr explicit Features(uint64_t bits) noexcept : bits_(bits) {}
  constexpr uint64_t bits() const noexcept { return bits_; }
  constexpr bool has(unsigned bit) const noexcept { return (bits_ >> bit & 1) != 0; }
  constexpr Features with(unsigned bit) const noexcept {
    return Features(bits_ | uint64_t{1} << bit);
  }
  constexpr bool within(Features offered) const noexcept { return (bits_ & ~offered.bits_) == 0; }
  constexpr bool operator==(const Features&) const noexcept = default;

 private:
  uint64_t bits_ = 0;
};

// §6: features of every device here.
inline constexpr unsigned kFeatureIndirectDescriptors = 28;
inline constexpr unsigned kFeatureEventIndex = 29;
inline constexpr unsigned kFeatureVersion1 = 32;
inline constexpr Features kRingFeatures =
    Features().with(kFeatureIndirectDescriptors).with(kFeatureEventIndex).with(kFeatureVersion1);

// §2.1: device status bits.
inline constexpr uint8_t kStatusAcknowledge = 1;
inline constexpr uint8_t kStatusDriver = 2;
inline constexpr uint8_t kStatusDriverOk = 4;
inline constexpr uint8_t kStatusFeaturesOk = 8;
inline constexpr uint8_t kStatusNeedsReset = 64;
inline constexpr uint8_t kStatusFailed = 128;

// The largest queue offered, and so the longest descriptor chain (§2.7.5.3.1). 256 keeps a chain's
// host segments in a fixed 4 KiB and below IOV_MAX.
inline constexpr uint16_t kMaxQueueSize = 256;

// §2.7.5: the descriptor table's element.
struct Descriptor {
  uint64_t address;
  uint32_t length;
  uint16_t flags;
  uint16_t next;
};
static_assert(sizeof(Descriptor) == 16 && std::is_trivially_copyable_v<Descriptor>);
inline constexpr uint16_t kDescriptorNext = 1;
inline constexpr uint16_t kDescriptorWrite = 2;
inline constexpr uint16_t kDescriptorIndirect = 4;

// §2.7.6 and §2.7.8: flags of the rings.
inline constexpr uint16_t kAvailNoInterrupt = 1;
inline constexpr uint16_t kUsedNoNotify = 1;

}
