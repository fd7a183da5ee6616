#include "mvm/proto/forward.h"

#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

Bytes TcpRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kTcpVerb);
    map.unsigned_integer("port", port);
  }
  return out;
}

std::optional<TcpRequest> TcpRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  TcpRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("port")) {
      request.port = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else {
      field.skip();
    }
  }
  const bool complete = request.port != 0;
  return finished(in, request, complete);
}

Bytes encode_event(std::string_view name) {
  Bytes out;
  MapWriter(out).string("event", name);
  return out;
}

}
