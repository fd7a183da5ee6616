// A sandbox's network as it is asked for, changes of it, and what it asks. What decodes encodes
// again to something that decodes to the same.

#include <cstdlib>

#include "mvm/proto/policy.h"

namespace {

using namespace mvm;
using namespace mvm::proto;

template <typename Message>
void round_trip(ByteView data) {
  const auto message = Message::decode(data);
  if (!message) return;
  const auto again = Message::decode(message->encode());
  if (!again || *again != *message) std::abort();
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes = std::as_bytes(std::span(data, size));
  round_trip<NetworkConfig>(bytes);
  round_trip<PolicyChanges>(bytes);
  round_trip<PolicyReport>(bytes);
  round_trip<PolicyChangeRequest>(bytes);
  round_trip<Question>(bytes);
  round_trip<QuestionsRequest>(bytes);
  round_trip<QuestionList>(bytes);
  round_trip<AnswerRequest>(bytes);
  return 0;
}
