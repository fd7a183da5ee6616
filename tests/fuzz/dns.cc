// DNS from a client and from a server that are anybody: no crash, and what was accepted reads the
// same after we have written it. The first byte picks the side.

#include <cstdlib>

#include "mvm/dns/message.h"

using namespace mvm;
using namespace mvm::dns;

static void query(ByteView message) {
  const auto query = parse_query(message);
  if (!query) {
    if (query.error().id) encode_error(*query.error().id, query.error().rcode);
    return;
  }
  const Bytes reply = encode_reply(*query, Rcode::NxDomain, {}, kPlainUdpSize);
  if (reply.size() > kPlainUdpSize || !parse_reply(reply, query->id, query->name, query->type))
    std::abort();
  const auto again = parse_query(encode_query(query->id, query->name, query->type));
  if (!again || again->name != query->name || again->type != query->type) std::abort();
  if (query->name.is_host() && Name::parse(query->name.text()) != query->name) std::abort();
}

static void reply(ByteView message) {
  // Made to fit whatever question the bytes hold.
  Reader in(message);
  const uint16_t id = in.u16be();
  in.skip(10);
  const Name name = Name::read(message, in);
  const auto type = static_cast<RecordType>(in.u16be());
  if (!in) return;
  const auto reply = parse_reply(message, id, name, type);
  if (!reply) return;
  Query asked{id, true, name, type, {}, std::nullopt};
  Writer question(asked.question);
  question.bytes(name.wire());
  question.u16be(static_cast<uint16_t>(type));
  question.u16be(kClassInternet);
  const auto again = parse_reply(encode_reply(asked, reply->rcode, reply->answers, kMaxTcpMessage),
                                 id, name, type);
  if (!again) std::abort();
  if (again->truncated) return;
  if (again->answers.size() != reply->answers.size()) std::abort();
  for (size_t i = 0; i < reply->answers.size(); ++i)
    if (again->answers[i].owner != reply->answers[i].owner ||
        again->answers[i].data != reply->answers[i].data)
      std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteView message = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 2 == 0)
    query(message);
  else
    reply(message);
  return 0;
}
