#pragma once

#include <utility>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"

namespace mvm::guest {

// A request of the host; Error{Invalid} when it does not decode.
template <typename Request>
Request decoded(ByteView payload) {
  auto request = Request::decode(payload);
  if (!request) throw Error(Kind::Invalid, "the request is malformed");
  return std::move(*request);
}

}
