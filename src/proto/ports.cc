#include "mvm/proto/ports.h"

#include "mvm/base/text.h"
#include "mvm/proto/cbor.h"

#include "messages.h"

namespace mvm::proto {

bool PublishedPort::is_loopback() const noexcept {
  static const IpPrefix v4(IpAddress(IpAddress::V4{127, 0, 0, 0}), 8);
  static const IpAddress v6(IpAddress::V6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  return v4.contains(address) || address == v6;
}

std::string PublishedPort::place() const {
  const std::string text = address.text();
  return (address.is_v4() ? text : "[" + text + "]") + ":" + std::to_string(host);
}

std::string PublishedPort::text() const { return place() + ":" + std::to_string(guest); }

// ---- how people write them ------------------------------------------------------------------

static std::optional<uint16_t> port_number(std::string_view text) {
  const auto value = parse_u64(text);
  if (!value || *value > UINT16_MAX) return std::nullopt;
  return static_cast<uint16_t>(*value);
}

// "127.0.0.1:" or "[::1]:" at the beginning, taken off; nothing when there is something else.
static std::optional<IpAddress> take_address(std::string_view& text) {
  const bool bracketed = text.starts_with('[');
  const size_t end = text.find(bracketed ? "]:" : ":");
  if (end == text.npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(bracketed ? 1 : 0, end - (bracketed ? 1 : 0)));
  if (!address || address->is_v4() == bracketed) return std::nullopt;
  text.remove_prefix(end + (bracketed ? 2 : 1));
  return address;
}

std::optional<PublishedPort> parse_published_port(std::string_view text) {
  const auto port = parse_port_place(text);
  if (!port || port->guest == 0) return std::nullopt;
  return port;
}

std::optional<PublishedPort> parse_port_place(std::string_view text) {
  PublishedPort port;
  if (text.starts_with('[') || text.find('.') != text.npos) {
    const auto address = take_address(text);
    if (!address) return std::nullopt;
    port.address = *address;
  }
  const size_t colon = text.find(':');
  const auto host = port_number(text.substr(0, colon));
  if (!host) return std::nullopt;
  port.host = *host;
  if (colon == text.npos) return port;
  const auto guest = port_number(text.substr(colon + 1));
  if (!guest || *guest == 0) return std::nullopt;
  port.guest = *guest;
  return port;
}

std::optional<std::string> published_port_complaint(std::string_view text) {
  if (parse_published_port(text)) return std::nullopt;
  return "must be HOST:GUEST or ADDRESS:HOST:GUEST, ports of this host and of the sandbox such as "
         "\"8080:80\" or \"[::1]:8080:80\", not '" +
         printable(text, 40) + "'";
}

// ---- messages -------------------------------------------------------------------------------

static void write_port(Bytes& out, const PublishedPort& port) {
  MapWriter map(out);
  map.string("address", as_text(std::as_bytes(port.address.bytes())));
  map.unsigned_integer("host", port.host);
  map.unsigned_integer("guest", port.guest);
}

static IpAddress read_address(CborReader& in) noexcept {
  const std::string_view bytes = in.string(16);
  if (bytes.size() == 4) {
    IpAddress::V4 v4{};
    std::copy(bytes.begin(), bytes.end(), v4.begin());
    return IpAddress(v4);
  }
  if (bytes.size() != 16) in.fail();
  IpAddress::V6 v6{};
  std::copy(bytes.begin(), bytes.end(), v6.begin());
  return IpAddress(v6);
}

static PublishedPort read_port(CborReader& in) noexcept {
  PublishedPort port;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("address")) {
      port.address = read_address(in);
      complete = true;
    } else if (field.is("host")) {
      port.host = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("guest")) {
      port.guest = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else {
      field.skip();
    }
  }
  if (!complete) in.fail();
  return port;
}

static void write_ports(MapWriter& map, Bytes& out, const std::vector<PublishedPort>& ports) {
  map.field("ports").array(ports.size());
  for (const PublishedPort& port : ports) write_port(out, port);
}

template <typename Message>
static std::optional<Message> decode_ports(ByteView data) noexcept {
  CborReader in(data);
  Message message;
  for (Fields field(in); field.next();) {
    if (field.is("ports")) {
      const size_t count = in.array(kMaxPublishedPorts);
      for (size_t i = 0; i < count && in; ++i) message.ports.push_back(read_port(in));
    } else {
      field.skip();
    }
  }
  for (const PublishedPort& port : message.ports)
    if (port.guest == 0) in.fail();
  return finished(in, message);
}

Bytes PortList::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    write_ports(map, out, ports);
  }
  return out;
}

std::optional<PortList> PortList::decode(ByteView item) noexcept {
  return decode_ports<PortList>(item);
}

Bytes PublishRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxPublishVerb);
    write_ports(map, out, ports);
  }
  return out;
}

std::optional<PublishRequest> PublishRequest::decode(ByteView payload) noexcept {
  return decode_ports<PublishRequest>(payload);
}

Bytes UnpublishRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxUnpublishVerb);
    map.field("port");
    write_port(out, port);
  }
  return out;
}

std::optional<UnpublishRequest> UnpublishRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  UnpublishRequest request;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("port")) {
      request.port = read_port(in);
      complete = true;
    } else {
      field.skip();
    }
  }
  return finished(in, request, complete);
}

}
