// Any bytes as CBOR: stepping over an item takes exactly that item, and reading is bounded by the
// input whatever counts it claims.

#include <algorithm>
#include <cstdlib>

#include "mvm/proto/cbor.h"
#include "mvm/proto/control.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mvm;
  using namespace mvm::proto;
  const ByteView input = std::as_bytes(std::span(data, size));

  CborReader in(input);
  size_t taken = 0;
  while (in && !in.at_end()) {
    const ByteView item = in.skip();
    if (!in) break;
    if (item.empty()) std::abort();
    taken += item.size();
    CborReader alone(item);
    if (alone.skip().size() != item.size() || !alone.at_end()) std::abort();
    // Cut anywhere, it is no item.
    CborReader cut(item.first(item.size() - 1));
    cut.skip();
    if (cut) std::abort();
  }
  if (taken > size) std::abort();

  CborReader typed(input);
  size_t fields = 0;
  for (Fields field(typed); field.next();) {
    if (++fields > kMaxMapFields) std::abort();
    if (field.is("n")) {
      typed.integer();
    } else if (field.is("s")) {
      if (typed.string(16).size() > 16) std::abort();
    } else if (field.is("a")) {
      for (size_t left = typed.array(100); left > 0 && typed; --left) typed.boolean();
    } else {
      field.skip();
    }
  }
  request_verb(input);
  event_name(input);
  return 0;
}
