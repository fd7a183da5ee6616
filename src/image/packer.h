#pragma once
// Bytes in, the same packed, digested and counted, out to a descriptor.

#include <memory>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/image/export.h"
#include "mvm/oci/digest.h"

namespace mvm::image {

class Packer {
 public:
  Packer(int output, Packing packing);
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void put(ByteView bytes);
  // No more comes.
  struct Packed {
    oci::Digest plain;   // of what was put
    oci::Digest packed;  // of what was written
    uint64_t size = 0;   // of what was written
  };
  Packed finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
