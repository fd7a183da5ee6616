// A resolver that is anybody: whatever it answers, the guest is told of a chain that begins at the
// name it asked for, and of nothing beside it. The first byte picks the question's type.

#include <cstdlib>

#include "../../src/egress/resolver.h"

using namespace mvm;
using namespace mvm::egress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr dns::RecordType kTypes[] = {dns::RecordType::A, dns::RecordType::Aaaa,
                                        dns::RecordType::Https, dns::RecordType::Cname};
  const ByteView message = std::as_bytes(std::span(data + 1, size - 1));
  // Made to fit whatever question the bytes hold.
  Reader in(message);
  const uint16_t id = in.u16be();
  in.skip(10);
  const Question question{dns::Name::read(message, in), kTypes[data[0] % std::size(kTypes)]};
  const auto reply = dns::parse_reply(message, id, question.name, question.type);
  if (!reply) return 0;
  const Answer answer = pick_answer(question, *reply);
  dns::Name at = question.name;
  for (const dns::Record& record : answer.records) {
    if (record.owner != at || record.ttl > 3600) std::abort();
    if (record.type == dns::RecordType::Cname && question.type != dns::RecordType::Cname)
      at = *record.target();
    else if (record.type != question.type)
      std::abort();
  }
  return 0;
}
