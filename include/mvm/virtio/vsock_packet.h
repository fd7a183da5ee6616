#pragma once
// The vsock packet on the ring (virtio 1.2 §5.10.6).

#include <cstdint>
#include <type_traits>

namespace mvm::virtio {

inline constexpr uint64_t kHostCid = 2;
inline constexpr uint16_t kVsockStream = 1;  // SOCK_STREAM, the only type here

enum class VsockOp : uint16_t {
  Request = 1,
  Response = 2,
  Reset = 3,
  Shutdown = 4,
  ReadWrite = 5,
  CreditUpdate = 6,
  CreditRequest = 7,
};

// Flags of Shutdown: what the sender of it will not do any more.
inline constexpr uint32_t kVsockNoReceive = 1;
inline constexpr uint32_t kVsockNoSend = 2;

// Packed, since 44 bytes are not a multiple of the 8 that its first field would align it to.
struct [[gnu::packed]] VsockHeader {
  uint64_t source_cid;
  uint64_t destination_cid;
  uint32_t source_port;
  uint32_t destination_port;
  uint32_t length;
  uint16_t type;
  uint16_t op;
  uint32_t flags;
  uint32_t buffer;     // buf_alloc: bytes the sender can hold for this stream
  uint32_t forwarded;  // fwd_cnt: bytes the sender's user has taken, modulo 2^32
};
static_assert(sizeof(VsockHeader) == 44 && std::is_trivially_copyable_v<VsockHeader>);

// §5.10.6.7: event queue.
inline constexpr uint32_t kVsockEventTransportReset = 0;

}
