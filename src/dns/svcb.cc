// Service parameters (RFC 9460): kept as they are, but for those that name a way around the proxy.
#include <algorithm>

#include "mvm/dns/message.h"

namespace mvm::dns {
namespace {

enum Key : uint16_t {
  kMandatory = 0,
  kAlpn = 1,
  kNoDefaultAlpn = 2,
  kIpv4Hint = 4,
  kEch = 5,
  kIpv6Hint = 6,
};

bool leads_past_us(uint16_t key) noexcept {
  return key == kIpv4Hint || key == kEch || key == kIpv6Hint;
}

// The protocols that we speak; nothing when the list is malformed.
std::optional<Bytes> without_http3(ByteView list) {
  Bytes kept;
  Writer out(kept);
  Reader in(list);
  while (in.remaining() > 0) {
    const uint8_t length = in.u8();
    const ByteView protocol = in.bytes(length);
    if (!in || length == 0) return std::nullopt;
    if (as_text(protocol).starts_with("h3")) continue;  // and its drafts, h3-29
    out.u8(length);
    out.bytes(protocol);
  }
  return kept;
}

// Whether what a client must understand is still there.
bool still_usable(ByteView mandatory, bool has_alpn) {
  Reader in(mandatory);
  while (in.remaining() > 0) {
    const uint16_t key = in.u16be();
    if (!in || leads_past_us(key) || (key == kAlpn && !has_alpn)) return false;
  }
  return true;
}

void write_parameter(Writer& out, uint16_t key, ByteView value) {
  out.u16be(key);
  out.u16be(static_cast<uint16_t>(value.size()));
  out.bytes(value);
}

}

std::optional<Bytes> without_shortcuts(ByteView svcb) {
  Reader in(svcb);
  Bytes kept;
  Writer out(kept);
  out.u16be(in.u16be());  // priority
  // Never compressed (§2.2), so a pointer in it is an error: there is nothing before it to point to
  // but the priority, which is refused below by its length.
  const size_t begin = in.remaining();
  const Name target = Name::read(svcb, in);
  if (!in || begin - in.remaining() != target.wire().size()) return std::nullopt;
  out.bytes(target.wire());

  std::optional<uint16_t> last;
  ByteView mandatory;
  bool has_alpn = false;
  bool no_default = false;
  while (in.remaining() > 0) {
    const uint16_t key = in.u16be();
    const ByteView value = in.bytes(in.u16be());
    if (!in || (last && key <= *last)) return std::nullopt;  // §2.2: strictly increasing
    last = key;
    if (leads_past_us(key)) continue;
    if (key == kMandatory) mandatory = value;
    if (key == kNoDefaultAlpn) no_default = true;
    if (key != kAlpn) {
      write_parameter(out, key, value);
      continue;
    }
    const auto protocols = without_http3(value);
    if (!protocols) return std::nullopt;
    has_alpn = !protocols->empty();
    if (has_alpn) write_parameter(out, key, *protocols);
  }
  if (!still_usable(mandatory, has_alpn) || (no_default && !has_alpn)) return std::nullopt;
  return kept;
}

}
