#include "mvm/dns/message.h"

#include <algorithm>

namespace mvm::dns {
namespace {

constexpr size_t kHeader = 12;
constexpr uint16_t kResponse = 0x8000;
constexpr uint16_t kOpcode = 0x7800;
constexpr uint16_t kTruncated = 0x0200;
constexpr uint16_t kRecursionDesired = 0x0100;
constexpr uint16_t kRecursionAvailable = 0x0080;
constexpr uint16_t kRcode = 0x000f;
// Every owner we write is the question's name or follows it; that name is right behind the header.
constexpr uint16_t kPointerToQuestion = 0xc000 | kHeader;

struct Header {
  uint16_t id = 0;
  uint16_t flags = 0;
  uint16_t questions = 0;
  uint16_t answers = 0;
  uint16_t authorities = 0;
  uint16_t additionals = 0;
};

Header read_header(Reader& in) {
  Header header;
  header.id = in.u16be();
  header.flags = in.u16be();
  header.questions = in.u16be();
  header.answers = in.u16be();
  header.authorities = in.u16be();
  header.additionals = in.u16be();
  return header;
}

void write_header(Writer& out, const Header& header) {
  for (const uint16_t field : {header.id, header.flags, header.questions, header.answers,
                               header.authorities, header.additionals})
    out.u16be(field);
}

struct RawRecord {
  Name owner;
  uint16_t type = 0;
  uint16_t klass = 0;
  uint32_t ttl = 0;
  size_t data_at = 0;  // in the message, for the names in it
  ByteView data;
};

RawRecord read_record(ByteView message, Reader& in) {
  RawRecord record;
  record.owner = Name::read(message, in);
  record.type = in.u16be();
  record.klass = in.u16be();
  record.ttl = in.u32be();
  // RFC 2181 §8: a TTL with the highest bit set is zero.
  if (record.ttl > 0x7fff'ffff) record.ttl = 0;
  const uint16_t length = in.u16be();
  record.data_at = message.size() - in.remaining();
  record.data = in.bytes(length);
  return record;
}

void write_opt(Writer& out, const ExtendedError* why = nullptr) {
  out.u8(0);  // the root
  out.u16be(static_cast<uint16_t>(RecordType::Opt));
  out.u16be(kUdpSize);
  out.u32be(0);  // extended rcode, version 0, no flags
  if (why == nullptr) return out.u16be(0);
  constexpr uint16_t kExtendedError = 15;  // RFC 8914 §2
  const std::string_view text = std::string_view(why->text).substr(0, kMaxErrorText);
  const auto length = static_cast<uint16_t>(2 + text.size());
  out.u16be(static_cast<uint16_t>(4 + length));
  out.u16be(kExtendedError);
  out.u16be(length);
  out.u16be(why->code);
  out.text(text);
}

}

Expected<Query, QueryError> parse_query(ByteView message) {
  Reader in(message);
  const Header header = read_header(in);
  // Too short to have an id, or an answer: to answer either would make us part of somebody's loop.
  if (!in || (header.flags & kResponse) != 0) return Unexpected{QueryError{}};
  const auto wrong = [&](Rcode rcode) { return Unexpected{QueryError{header.id, rcode}}; };
  if ((header.flags & kOpcode) != 0) return wrong(Rcode::NotImp);
  if (header.questions != 1 || header.answers != 0 || header.authorities != 0 ||
      header.additionals > 1)
    return wrong(Rcode::FormErr);

  Query query;
  query.id = header.id;
  query.recursion_desired = (header.flags & kRecursionDesired) != 0;
  const size_t begin = message.size() - in.remaining();
  query.name = Name::read(message, in);
  query.type = static_cast<RecordType>(in.u16be());
  const uint16_t klass = in.u16be();
  const size_t length = message.size() - in.remaining() - begin;
  if (!in) return wrong(Rcode::FormErr);
  const ByteView question = message.subspan(begin, length);
  // A pointer has nothing to point to yet, so the question's name is as long as it is on the wire.
  if (length != query.name.wire().size() + 4) return wrong(Rcode::FormErr);
  query.question.assign(question.begin(), question.end());
  if (klass != kClassInternet) return wrong(Rcode::Refused);

  if (header.additionals == 1) {
    const RawRecord opt = read_record(message, in);
    // The version is in the TTL's second byte.
    if (!in || opt.type != static_cast<uint16_t>(RecordType::Opt) || opt.owner != Name())
      return wrong(Rcode::FormErr);
    if ((opt.ttl >> 16 & 0xff) != 0) return wrong(Rcode::BadVers);
    query.edns_size = std::max(opt.klass, kPlainUdpSize);
  }
  if (in.remaining() != 0) return wrong(Rcode::FormErr);
  return query;
}

Bytes encode_query(uint16_t id, const Name& name, RecordType type) {
  Bytes message;
  Writer out(message);
  write_header(out, {id, kRecursionDesired, 1, 0, 0, 1});
  out.bytes(name.wire());
  out.u16be(static_cast<uint16_t>(type));
  out.u16be(kClassInternet);
  write_opt(out);
  return message;
}

std::optional<IpAddress> Record::address() const {
  const auto make = [this](auto bytes) {
    std::memcpy(bytes.data(), data.data(), bytes.size());
    return IpAddress(bytes);
  };
  if (type == RecordType::A && data.size() == 4) return make(IpAddress::V4{});
  if (type == RecordType::Aaaa && data.size() == 16) return make(IpAddress::V6{});
  return std::nullopt;
}

std::optional<Name> Record::target() const {
  if (type != RecordType::Cname) return std::nullopt;
  Reader in(data);
  const Name name = Name::read(data, in);
  if (!in || in.remaining() != 0) return std::nullopt;
  return name;
}

// A record as mvm passes it on; nothing for a type that it does not, or for broken data.
static std::optional<Record> usable(ByteView message, const RawRecord& raw) {
  Record record{raw.owner, static_cast<RecordType>(raw.type), raw.ttl, {}};
  switch (record.type) {
    case RecordType::Cname: {
      // Up to the end of its data, so that the name cannot run on into what follows.
      Reader in(message.subspan(raw.data_at, raw.data.size()));
      const ByteView until = message.first(raw.data_at + raw.data.size());
      const Name target = Name::read(until, in);
      if (!in || in.remaining() != 0) return std::nullopt;
      record.data.assign(target.wire().begin(), target.wire().end());
      return record;
    }
    case RecordType::Https:
    case RecordType::Svcb: {
      auto data = without_shortcuts(raw.data);
      if (!data) return std::nullopt;
      record.data = std::move(*data);
      return record;
    }
    case RecordType::A:
    case RecordType::Aaaa:
      record.data.assign(raw.data.begin(), raw.data.end());
      if (!record.address()) return std::nullopt;
      return record;
    default:
      return std::nullopt;
  }
}

std::optional<Reply> parse_reply(ByteView message, uint16_t id, const Name& name, RecordType type) {
  Reader in(message);
  const Header header = read_header(in);
  if (!in || header.id != id || (header.flags & kResponse) == 0 || (header.flags & kOpcode) != 0 ||
      header.questions != 1)
    return std::nullopt;
  const Name asked = Name::read(message, in);
  const uint16_t asked_type = in.u16be();
  const uint16_t klass = in.u16be();
  if (!in || asked != name || asked_type != static_cast<uint16_t>(type) || klass != kClassInternet)
    return std::nullopt;

  Reply reply;
  reply.rcode = static_cast<Rcode>(header.flags & kRcode);
  reply.truncated = (header.flags & kTruncated) != 0;
  // What is cut off may be cut anywhere; nothing in it is used.
  if (reply.truncated) return reply;
  if (header.answers > kMaxAnswers || header.authorities > kMaxAnswers) return std::nullopt;
  for (unsigned i = 0; i < header.answers; ++i) {
    const RawRecord raw = read_record(message, in);
    if (!in) return std::nullopt;
    if (raw.klass != kClassInternet) continue;
    if (auto record = usable(message, raw)) reply.answers.push_back(std::move(*record));
  }
  for (unsigned i = 0; i < header.authorities; ++i) {
    const RawRecord raw = read_record(message, in);
    if (!in) return std::nullopt;
    // Its last field is the "minimum" (RFC 1035 §3.3.13).
    if (raw.type != static_cast<uint16_t>(RecordType::Soa) || raw.data.size() < 22) continue;
    reply.negative_ttl = std::min(raw.ttl, Reader(raw.data.last(4)).u32be());
  }
  return reply;
}

static Bytes start_reply(const Query& query, Rcode rcode, uint16_t more_flags, size_t answers) {
  Bytes message;
  Writer out(message);
  uint16_t flags = kResponse | kRecursionAvailable | static_cast<uint16_t>(rcode) | more_flags;
  if (query.recursion_desired) flags |= kRecursionDesired;
  write_header(out, {query.id, flags, 1, static_cast<uint16_t>(answers), 0,
                     static_cast<uint16_t>(query.edns_size ? 1 : 0)});
  out.bytes(query.question);
  return message;
}

Bytes encode_reply(const Query& query, Rcode rcode, std::span<const Record> answers, size_t limit,
                   const ExtendedError* why) {
  MVM_ASSERT(answers.size() <= 2 * kMaxAnswers);
  Bytes message = start_reply(query, rcode, 0, answers.size());
  Writer out(message);
  for (const Record& record : answers) {
    if (record.owner == query.name)
      out.u16be(kPointerToQuestion);
    else
      out.bytes(record.owner.wire());
    out.u16be(static_cast<uint16_t>(record.type));
    out.u16be(kClassInternet);
    out.u32be(record.ttl);
    out.u16be(static_cast<uint16_t>(record.data.size()));
    out.bytes(record.data);
  }
  if (query.edns_size) write_opt(out, why);
  if (message.size() <= limit) return message;
  message = start_reply(query, rcode, kTruncated, 0);
  Writer again(message);
  if (query.edns_size) write_opt(again);
  return message;
}

Bytes encode_error(uint16_t id, Rcode rcode) {
  Bytes message;
  Writer out(message);
  // BadVers does not fit into four bits: its upper part is in the OPT record.
  const bool extended = static_cast<uint8_t>(rcode) > kRcode;
  write_header(out, {id,
                     static_cast<uint16_t>(kResponse | kRecursionAvailable |
                                           (static_cast<uint16_t>(rcode) & kRcode)),
                     0, 0, 0, static_cast<uint16_t>(extended ? 1 : 0)});
  if (extended) {
    out.u8(0);
    out.u16be(static_cast<uint16_t>(RecordType::Opt));
    out.u16be(kUdpSize);
    out.u32be(static_cast<uint32_t>(static_cast<uint8_t>(rcode) >> 4) << 24);
    out.u16be(0);
  }
  return message;
}

}
