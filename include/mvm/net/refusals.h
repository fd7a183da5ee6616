#pragma once
// What the namespace's rules refused, as the kernel tells it (nflog): one report for each
// connection attempt and datagram.

#include <cstdint>
#include <optional>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"
#include "mvm/sys/fd.h"

namespace mvm::net {

enum class Transport : uint8_t { Tcp, Udp };

struct Refusal {
  Transport transport = Transport::Tcp;
  IpAddress to;
  uint16_t port = 0;
  bool operator==(const Refusal&) const = default;
};

class Refusals {
 public:
  // `socket` is GuestNetwork::refused. Throws when the kernel has no nflog.
  explicit Refusals(sys::Fd socket);

  int fd() const noexcept { return socket_.get(); }  // readable when there is a report
  // The reports that have come; empty when there are none. Those that the kernel had to drop, as
  // they came faster than they were read, are counted in lost(): one at once, and how many it were
  // in truth when the next report comes, which has its number.
  std::vector<Refusal> take();
  uint64_t lost() const noexcept { return lost_; }

 private:
  void count(uint32_t number) noexcept;

  sys::Fd socket_;
  uint32_t next_ = 0;     // the number of the next report
  uint32_t unnamed_ = 0;  // lost ones since the last report
  uint64_t lost_ = 0;
};

// The destination of an IP packet's first bytes; nothing for what is neither TCP nor UDP.
std::optional<Refusal> parse_refused(ByteView packet);

}
