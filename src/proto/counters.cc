#include "mvm/proto/counters.h"

#include "messages.h"

namespace mvm::proto {

Bytes EgressCounters::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    for (const auto& field : kEgressCounterFields)
      map.unsigned_integer(field.name, this->*field.member);
  }
  return out;
}

std::optional<EgressCounters> EgressCounters::decode(ByteView item) noexcept {
  CborReader in(item);
  EgressCounters counters;
  for (Fields field(in); field.next();) {
    bool known = false;
    for (const auto& each : kEgressCounterFields) {
      if (!field.is(each.name)) continue;
      counters.*each.member = in.unsigned_integer();
      known = true;
    }
    if (!known) field.skip();
  }
  return finished(in, counters);
}

}
