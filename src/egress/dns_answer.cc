#include <algorithm>

#include "resolver.h"

namespace mvm::egress {
namespace {

// Seconds. Longer than an hour, an answer is asked for again; a short one holds for what it says,
// as whoever says so moves hosts about.
constexpr uint32_t kMaxTtl = 3600;
constexpr uint32_t kMaxNegativeTtl = 300;
constexpr size_t kMaxAliases = 16;

// An alternative name would need rules of its own, and be looked up by the guest; the record is of
// use without only when it speaks of the name itself (RFC 9460 §2.5).
bool speaks_of_itself(const dns::Record& record) {
  Reader in(record.data);
  const uint16_t priority = in.u16be();
  const dns::Name target = dns::Name::read(record.data, in);
  return in && priority != 0 && (target == dns::Name() || target == record.owner);
}

}

Answer pick_answer(const Question& question, const dns::Reply& reply) {
  Answer answer;
  answer.status =
      reply.rcode == dns::Rcode::NxDomain ? Answer::Status::NoSuchName : Answer::Status::Found;
  const auto take = [&](const dns::Record& record) {
    answer.records.push_back(record);
    answer.records.back().ttl = std::min(record.ttl, kMaxTtl);
  };
  dns::Name at = question.name;
  for (size_t aliases = 0; aliases < kMaxAliases; ++aliases) {
    const auto alias = std::ranges::find_if(reply.answers, [&](const dns::Record& record) {
      return record.owner == at && record.type == dns::RecordType::Cname;
    });
    if (alias == reply.answers.end()) break;
    take(*alias);
    if (question.type == dns::RecordType::Cname) return answer;
    at = *alias->target();
  }
  bool found = false;
  for (const dns::Record& record : reply.answers) {
    if (record.owner != at || record.type != question.type) continue;
    const bool service =
        record.type == dns::RecordType::Https || record.type == dns::RecordType::Svcb;
    if (service && !speaks_of_itself(record)) continue;
    take(record);
    found = true;
  }
  if (!found) {
    // RFC 2308 §5: without a word on how long, "there is none" does not last.
    answer.negative_ttl = std::min(reply.negative_ttl.value_or(0), kMaxNegativeTtl);
    if (answer.negative_ttl == 0)
      for (dns::Record& record : answer.records) record.ttl = 0;
  }
  return answer;
}

}
