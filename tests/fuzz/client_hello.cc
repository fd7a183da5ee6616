// A client that is anybody: no crash, and what has been read whole reads the same with more behind
// it, while no beginning of it is read as something else.

#include "mvm/egress/client_hello.h"

#include <cstdlib>

using namespace mvm;
using namespace mvm::egress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView all = std::as_bytes(std::span(data, size));
  const HelloResult whole = read_client_hello(all);
  if (whole.state != HelloState::Whole) return 0;
  for (size_t length = size; length > 0; --length) {
    const HelloResult part = read_client_hello(all.first(length));
    if (part.state == HelloState::More) break;
    if (part.state != HelloState::Whole || part.hello.server_name != whole.hello.server_name ||
        part.hello.protocols != whole.hello.protocols)
      std::abort();
  }
  return 0;
}
