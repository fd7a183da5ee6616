#pragma once
// Bytes that mean nothing, sent and received as fast as a stream takes them.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"

namespace mvm {

// Size: of one write, and at the most of one read.
template <size_t Size>
class Bulk {
 public:
  static std::span<std::byte> buffer() {
    static std::vector<std::byte> bytes(Size, std::byte{0x5a});
    return bytes;
  }

  static void send(int fd, uint64_t bytes) {
    while (bytes > 0) {
      const auto piece = buffer().first(std::min<uint64_t>(bytes, Size));
      sys::write_all(fd, piece);
      bytes -= piece.size();
    }
  }

  static void receive(int fd, uint64_t bytes) {
    while (bytes > 0) {
      const auto got = sys::read_some(fd, buffer().first(std::min<uint64_t>(bytes, Size)));
      if (!got || *got == 0) throw Error(Kind::Unavailable, "the stream ended early");
      bytes -= *got;
    }
  }
};

}
