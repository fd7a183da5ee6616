#pragma once
// A layer's tar stream: read and inflated by a thread of its own, while the reader's thread hashes
// what it unpacked to and works on that. Of an import from a registry, the two take about equally
// long.

#include <memory>

#include "mvm/base/bytes.h"
#include "mvm/image/oci_source.h"

namespace mvm::image {

class LayerStream {
 public:
  // Starts reading. `limit` bounds the inflated bytes.
  LayerStream(Blob blob, const Layer& layer, uint64_t limit);
  ~LayerStream();  // ends the thread, wherever it is
  LayerStream(const LayerStream&) = delete;
  LayerStream& operator=(const LayerStream&) = delete;

  // The next piece, valid until the next call; empty at the end, which is reached only when size
  // and digests, of the blob and of what it unpacks to, are those that were promised. Throws Error
  // otherwise, also what went wrong in the thread.
  ByteView next();
  uint64_t consumed() const;  // bytes of the blob read so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
