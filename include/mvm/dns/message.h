#pragma once
// DNS messages (RFC 1035, EDNS of RFC 6891): the queries of a client we do not trust, the answers
// of a server we do not trust, and our own of both. Pure: bytes in, values out.
//
// A query is one question with at most an OPT record behind it. Everything else a message may hold
// is refused in queries and ignored in answers.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/expected.h"
#include "mvm/base/ip.h"
#include "mvm/dns/name.h"

namespace mvm::dns {

inline constexpr size_t kMaxAnswers = 256;       // records taken from one message
inline constexpr size_t kMaxTcpMessage = 65535;  // RFC 1035 §4.2.2
// What passes every path unfragmented (DNS Flag Day 2020), and what a client without EDNS takes.
inline constexpr uint16_t kUdpSize = 1232;
inline constexpr uint16_t kPlainUdpSize = 512;

// Others pass through as numbers.
enum class RecordType : uint16_t {
  A = 1,
  Cname = 5,
  Soa = 6,
  Aaaa = 28,
  Opt = 41,
  Svcb = 64,
  Https = 65,
};
inline constexpr uint16_t kClassInternet = 1;

enum class Rcode : uint8_t {
  NoError = 0,
  FormErr = 1,
  ServFail = 2,
  NxDomain = 3,
  NotImp = 4,
  Refused = 5,
  BadVers = 16,  // RFC 6891 §9
};

struct Query {
  uint16_t id = 0;
  bool recursion_desired = false;
  Name name;
  RecordType type = RecordType::A;
  Bytes question;                     // as it came: the answer repeats its letters' case
  std::optional<uint16_t> edns_size;  // the largest datagram the client takes
};

// What to tell a client whose query is not answered. Without an id there is nobody to tell.
struct QueryError {
  std::optional<uint16_t> id;
  Rcode rcode = Rcode::FormErr;
};
Expected<Query, QueryError> parse_query(ByteView message);
Bytes encode_query(uint16_t id, const Name& name, RecordType type);

struct Record {
  Name owner;
  RecordType type = RecordType::A;
  uint32_t ttl = 0;  // seconds
  Bytes data;        // names in it uncompressed

  // What the data says, where the type has it and it is well-formed.
  std::optional<IpAddress> address() const;
  std::optional<Name> target() const;  // of a CNAME
};

struct Reply {
  Rcode rcode = Rcode::NoError;
  bool truncated = false;
  std::vector<Record> answers;  // types that mvm passes on: A, AAAA, CNAME, HTTPS, SVCB
  // How long "there is none" holds (RFC 2308 §5), when the answer says.
  std::optional<uint32_t> negative_ttl;
};
// The answer to one query of ours; nothing when it is malformed or answers another one.
std::optional<Reply> parse_reply(ByteView message, uint16_t id, const Name& name, RecordType type);

// Why, for people who look (RFC 8914): sent to clients that speak EDNS.
struct ExtendedError {
  uint16_t code = 0;
  std::string text;  // cut at kMaxErrorText
};
inline constexpr uint16_t kErrorOther = 0;
inline constexpr uint16_t kErrorBlocked = 15;
inline constexpr uint16_t kErrorNoReachableAuthority = 22;
inline constexpr size_t kMaxErrorText = 200;

// An answer of at most `limit` bytes. One that does not fit is sent empty and marked truncated, so
// that the client asks again over TCP.
Bytes encode_reply(const Query& query, Rcode rcode, std::span<const Record> answers, size_t limit,
                   const ExtendedError* why = nullptr);
Bytes encode_error(uint16_t id, Rcode rcode);

// The data of an HTTPS or SVCB record without what would lead a client past the proxy: encrypted
// ClientHello, address hints, and HTTP/3 (RFC 9460 §7). Nothing when the record is malformed, or
// cannot be used without them.
std::optional<Bytes> without_shortcuts(ByteView svcb);

}
