#include "mvm/proto/metrics.h"

#include <limits>

#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

Bytes Metrics::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    visit_metrics(*this,
                  [&](const char* name, uint64_t value) { map.unsigned_integer(name, value); });
  }
  return out;
}

std::optional<Metrics> Metrics::decode(ByteView item) noexcept {
  CborReader in(item);
  Metrics metrics;
  for (Fields field(in); field.next();) {
    bool known = false;
    visit_metrics(metrics, [&]<typename T>(const char* name, T& value) {
      if (known || !field.is(name)) return;
      known = true;
      value = static_cast<T>(in.unsigned_integer(std::numeric_limits<T>::max()));
    });
    if (!known) field.skip();
  }
  return finished(in, metrics);
}

}
