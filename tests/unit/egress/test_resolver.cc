#include "test_resolver.h"

#include <array>

#include <netinet/in.h>
#include <sys/socket.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "../../../src/egress/sockets.h"

namespace mvm::egress {
namespace {

constexpr uint16_t kPort = 53;

Bytes data_of(const IpAddress& address) {
  const auto bytes = std::as_bytes(address.bytes());
  return {bytes.begin(), bytes.end()};
}

// The SOA record of the zone as its authority, in front of the OPT record.
void add_negative(Bytes& reply, bool has_opt, uint32_t ttl) {
  constexpr ptrdiff_t kOpt = 11;
  Bytes record;
  Writer out(record);
  out.u8(0);  // the root's
  out.u16be(static_cast<uint16_t>(dns::RecordType::Soa));
  out.u16be(1);
  out.u32be(ttl);
  out.u16be(22);
  out.zeros(2 + 4 * 4);  // two names; serial, refresh, retry, expire
  out.u32be(ttl);
  reply.insert(reply.end() - (has_opt ? kOpt : 0), record.begin(), record.end());
  reply[9] = std::byte{1};  // NSCOUNT
}

std::string type_name(dns::RecordType type) {
  switch (type) {
    case dns::RecordType::A:
      return "A";
    case dns::RecordType::Aaaa:
      return "AAAA";
    case dns::RecordType::Https:
      return "HTTPS";
    default:
      return std::to_string(static_cast<int>(type));
  }
}

}

void TestResolver::listen(const std::string& address) {
  const Endpoint at{IpAddress::parse(address).value(), kPort};
  const SocketAddress name(at);
  udp_ = open_socket(at.address, SOCK_DGRAM).value();
  tcp_ = open_socket(at.address, SOCK_STREAM).value();
  sys::check(::bind(udp_.get(), name.get(), name.length), "binding the resolver");
  sys::check(::bind(tcp_.get(), name.get(), name.length), "binding the resolver");
  sys::check(::listen(tcp_.get(), 8), "listening");
  udp_watch_ = loop_.watch(udp_.get(), EPOLLIN, [this](uint32_t) { receive(); });
  tcp_watch_ = loop_.watch(tcp_.get(), EPOLLIN, [this](uint32_t) { accept(); });
}

void TestResolver::add(const std::string& host, const std::string& address, uint32_t ttl) {
  const IpAddress value = IpAddress::parse(address).value();
  add_record(host, value.is_v4() ? dns::RecordType::A : dns::RecordType::Aaaa, data_of(value), ttl);
}
void TestResolver::add_alias(const std::string& host, const std::string& target, uint32_t ttl) {
  const dns::Name to = dns::Name::parse(target).value();
  add_record(host, dns::RecordType::Cname, {to.wire().begin(), to.wire().end()}, ttl);
}
void TestResolver::add_record(const std::string& host, dns::RecordType type, Bytes data,
                              uint32_t ttl) {
  records_.emplace(host, dns::Record{dns::Name::parse(host).value(), type, ttl, std::move(data)});
}

std::vector<Bytes> TestResolver::answers(ByteView message, bool udp) {
  const auto query = dns::parse_query(message);
  if (!query) return {};
  asked.push_back((udp ? "udp " : "tcp ") + query->name.text() + ' ' + type_name(query->type));
  if (ignore > 0) {
    --ignore;
    return {};
  }
  std::vector<dns::Record> records;
  std::string at = query->name.text();
  bool known = false;
  for (int hops = 0; hops < 8; ++hops) {
    std::optional<std::string> next;
    const auto [begin, end] = records_.equal_range(at);
    for (auto found = begin; found != end; ++found) {
      known = true;
      const dns::Record& record = found->second;
      if (record.type == dns::RecordType::Cname) next = record.target()->text();
      if (record.type == query->type || record.type == dns::RecordType::Cname)
        records.push_back(record);
    }
    if (!next) break;
    at = *next;
  }
  const auto code = rcode != dns::Rcode::NoError ? rcode
                    : known                      ? dns::Rcode::NoError
                                                 : dns::Rcode::NxDomain;
  if (code != dns::Rcode::NoError) records.clear();
  std::vector<Bytes> out;
  if (lie_first) {
    dns::Query other = *query;
    other.id ^= 1;
    const std::vector<dns::Record> lie{
        {query->name, dns::RecordType::A, 60, data_of(IpAddress::parse("6.6.6.6").value())}};
    out.push_back(dns::encode_reply(other, dns::Rcode::NoError, lie, 1232));
  }
  out.push_back(dns::encode_reply(*query, code, records, udp && truncate ? 0 : 65535));
  if (code == dns::Rcode::NxDomain && negative_ttl)
    add_negative(out.back(), query->edns_size.has_value(), *negative_ttl);
  if (change_case)
    for (size_t i = 13; i < 12 + query->name.wire().size(); ++i) {
      std::byte& letter = out.back()[i];
      if ((letter | std::byte{0x20}) >= std::byte{'a'}) letter ^= std::byte{0x20};
    }
  return out;
}

void TestResolver::receive() {
  std::array<std::byte, 2048> buffer;
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  const ssize_t got = ::recvfrom(udp_.get(), buffer.data(), buffer.size(), 0,
                                 reinterpret_cast<sockaddr*>(&peer), &length);
  if (got < 0) return;
  for (const Bytes& answer : answers(ByteView(buffer).first(static_cast<size_t>(got)), true))
    ::sendto(udp_.get(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&peer),
             length);
}

void TestResolver::accept() {
  auto socket = sys::accept_connection(tcp_.get());
  if (!socket) return;
  sys::set_nonblocking(socket->get(), false);
  Client& client = *clients_.emplace_back(std::make_unique<Client>());
  client.socket = std::move(*socket);
  client.watch = loop_.watch(client.socket.get(), EPOLLIN,
                             [this, &client](uint32_t) { serve_client(client); });
}

// One query, small enough to come at once.
void TestResolver::serve_client(Client& client) {
  std::array<std::byte, 2048> buffer;
  const ssize_t got = ::recv(client.socket.get(), buffer.data(), buffer.size(), 0);
  if (got > 2)
    for (const Bytes& answer :
         answers(ByteView(buffer).first(static_cast<size_t>(got)).subspan(2), false)) {
      Bytes framed;
      Writer out(framed);
      out.u16be(static_cast<uint16_t>(answer.size()));
      out.bytes(answer);
      sys::write_all(client.socket.get(), framed);
    }
  client.watch.reset();
}

}
