#include "mvm/proto/machine_base.h"

#include "mvm/proto/cbor.h"

namespace mvm::proto {

static constexpr uint64_t kLeastMemory = uint64_t{1} << 20;

Bytes MachineBase::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("memory", memory);
    map.boolean("huge_pages", huge_pages);
    map.boolean("spare", spare);
  }
  return out;
}

std::optional<MachineBase> MachineBase::decode(ByteView data) {
  MachineBase base;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("memory")) {
      base.memory = in.unsigned_integer();
    } else if (field.is("huge_pages")) {
      base.huge_pages = in.boolean();
    } else if (field.is("spare")) {
      base.spare = in.boolean();
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || base.memory < kLeastMemory) return std::nullopt;
  return base;
}

}
