#include "mvm/proto/memory_use.h"

#include <array>

#include "messages.h"

namespace mvm::proto {

Bytes MemoryRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxMemoryVerb);
    if (balloon) map.unsigned_integer("balloon", *balloon);
  }
  return out;
}

std::optional<MemoryRequest> MemoryRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  MemoryRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("balloon")) {
      request.balloon = in.unsigned_integer();
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

namespace {

struct GuestField {
  std::string_view name;
  std::optional<uint64_t> MemoryUse::* member;
};
struct HostField {
  std::string_view name;
  uint64_t MemoryUse::* member;
};
constexpr std::array kGuestFields{GuestField{"guest_total", &MemoryUse::guest_total},
                                  GuestField{"guest_free", &MemoryUse::guest_free},
                                  GuestField{"guest_available", &MemoryUse::guest_available},
                                  GuestField{"guest_caches", &MemoryUse::guest_caches}};
constexpr std::array kHostFields{HostField{"balloon", &MemoryUse::balloon},
                                 HostField{"balloon_target", &MemoryUse::balloon_target},
                                 HostField{"released", &MemoryUse::released}};

bool read_field(CborReader& in, const Fields& field, MemoryUse& use) noexcept {
  for (const auto& each : kGuestFields) {
    if (!field.is(each.name)) continue;
    use.*each.member = in.unsigned_integer();
    return true;
  }
  for (const auto& each : kHostFields) {
    if (!field.is(each.name)) continue;
    use.*each.member = in.unsigned_integer();
    return true;
  }
  return false;
}

}

Bytes MemoryUse::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    for (const auto& each : kGuestFields)
      if (const auto& value = this->*each.member) map.unsigned_integer(each.name, *value);
    for (const auto& each : kHostFields) map.unsigned_integer(each.name, this->*each.member);
  }
  return out;
}

std::optional<MemoryUse> MemoryUse::decode(ByteView item) noexcept {
  CborReader in(item);
  MemoryUse use;
  for (Fields field(in); field.next();)
    if (!read_field(in, field, use)) field.skip();
  return finished(in, use);
}

}
