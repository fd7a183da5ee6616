#include "mvm/proto/console.h"

#include "messages.h"

namespace mvm::proto {

Bytes ConsoleRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxConsoleVerb);
    map.unsigned_integer("rows", size.rows);
    map.unsigned_integer("columns", size.columns);
  }
  return out;
}

std::optional<ConsoleRequest> ConsoleRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  ConsoleRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("rows")) {
      request.size.rows = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("columns")) {
      request.size.columns = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

}
