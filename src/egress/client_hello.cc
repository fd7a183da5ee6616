#include "mvm/egress/client_hello.h"

#include <algorithm>

#include "mvm/base/ip.h"

namespace mvm::egress {
namespace {

constexpr uint8_t kHandshakeRecord = 22;
constexpr uint8_t kTlsMajor = 3;
constexpr size_t kMaxRecord = 1 << 14;  // RFC 8446 §5.1
constexpr uint8_t kClientHello = 1;
constexpr size_t kMessageHeader = 4;

constexpr uint16_t kServerName = 0;
constexpr uint16_t kProtocols = 16;

// The handshake messages in the records that are there, without the records' headers.
HelloState unwrap(ByteView data, Bytes& messages) {
  Reader in(data);
  while (in.remaining() > 0) {
    if (in.u8() != kHandshakeRecord)
      return messages.empty() ? HelloState::NotTls : HelloState::Broken;
    if (in.remaining() == 0) return HelloState::More;
    if (in.u8() != kTlsMajor) return messages.empty() ? HelloState::NotTls : HelloState::Broken;
    in.skip(1);
    const uint16_t length = in.u16be();
    if (!in) return HelloState::More;
    if (length == 0 || length > kMaxRecord) return HelloState::Broken;
    const ByteView part = in.remaining() < length ? in.rest() : in.bytes(length);
    messages.insert(messages.end(), part.begin(), part.end());
    if (part.size() < length) return HelloState::More;
    // Records behind the first message's end are of no interest.
    if (messages.size() >= kMessageHeader) {
      Reader header(messages);
      const uint32_t size = header.u32be() & 0xff'ffff;
      if (messages.size() - kMessageHeader >= size) break;
    }
  }
  return HelloState::Whole;
}

std::optional<dns::Name> read_server_name(ByteView extension) {
  constexpr uint8_t kHostName = 0;
  Reader in(extension);
  const uint16_t list = in.u16be();
  const uint8_t type = in.u8();
  const std::string_view text = as_text(in.bytes(in.u16be()));
  // One name, as nobody knows what a second would mean.
  if (!in || in.remaining() != 0 || list != extension.size() - 2 || type != kHostName)
    return std::nullopt;
  // §3: no final dot, and no addresses.
  if (text.empty() || text.ends_with('.') || IpAddress::parse(text)) return std::nullopt;
  return dns::Name::parse(text);
}

std::optional<std::vector<std::string>> read_protocols(ByteView extension) {
  Reader in(extension);
  if (in.u16be() != in.remaining() || in.remaining() == 0) return std::nullopt;
  std::vector<std::string> protocols;
  while (in.remaining() > 0) {
    const std::string_view protocol = as_text(in.bytes(in.u8()));
    if (!in || protocol.empty()) return std::nullopt;
    protocols.emplace_back(protocol);
  }
  return protocols;
}

// False: malformed, or an extension is there twice (§4.2).
bool read_extensions(ByteView extensions, ClientHello& hello) {
  std::vector<uint16_t> seen;
  Reader in(extensions);
  while (in.remaining() > 0) {
    const uint16_t type = in.u16be();
    const ByteView body = in.bytes(in.u16be());
    if (!in || std::ranges::find(seen, type) != seen.end()) return false;
    seen.push_back(type);
    if (type == kServerName) {
      hello.server_name = read_server_name(body);
      if (!hello.server_name) return false;
    } else if (type == kProtocols) {
      auto protocols = read_protocols(body);
      if (!protocols) return false;
      hello.protocols = std::move(*protocols);
    }
  }
  return true;
}

bool read_hello(ByteView message, ClientHello& hello) {
  Reader in(message);
  in.skip(2 + 32);  // legacy version, random
  const uint8_t session = in.u8();
  in.skip(session);
  const uint16_t suites = in.u16be();
  in.skip(suites);
  const uint8_t compressions = in.u8();
  in.skip(compressions);
  if (!in || session > 32 || suites == 0 || suites % 2 != 0 || compressions == 0) return false;
  if (in.remaining() == 0) return true;  // TLS 1.2 knew hellos without extensions
  const uint16_t extensions = in.u16be();
  return in && extensions == in.remaining() && read_extensions(in.rest(), hello);
}

}

HelloResult read_client_hello(ByteView data) {
  HelloResult result;
  Bytes messages;
  result.state = unwrap(data, messages);
  if (result.state == HelloState::NotTls || result.state == HelloState::Broken) return result;
  const auto broken = [&] {
    result.state = HelloState::Broken;
    return result;
  };
  if (!messages.empty() && messages[0] != std::byte{kClientHello}) return broken();
  if (messages.size() < kMessageHeader) {
    result.state = HelloState::More;
    return result;
  }
  Reader in(messages);
  const uint32_t length = in.u32be() & 0xff'ffff;
  if (length > kMaxHello) return broken();
  if (in.remaining() < length) {
    result.state = HelloState::More;
    return result;
  }
  if (!read_hello(in.bytes(length), result.hello)) return broken();
  result.state = HelloState::Whole;
  return result;
}

}
