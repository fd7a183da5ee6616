#pragma once
// One question to one resolver, over a socket of its own: so each has a random port, a random id,
// and, over UDP, random letter case (draft-vixie-dnsext-dns0x20), all of which an answer must have
// too. What does not is not read.

#include <functional>
#include <memory>

#include "mvm/dns/message.h"
#include "mvm/egress/proxy.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

struct Question {
  dns::Name name;
  dns::RecordType type = dns::RecordType::A;
  auto operator<=>(const Question&) const = default;
};

class DnsExchange {
 public:
  // Nothing: no answer in time, or none that counts. Called once, last of all: the callee may drop
  // the exchange.
  using Done = std::function<void(std::optional<dns::Reply>)>;
  virtual ~DnsExchange() = default;
};

enum class LetterCase : uint8_t { Plain, Random };
// Nothing when the resolver cannot be asked at all: no route, no descriptor.
std::unique_ptr<DnsExchange> ask_over_udp(loop::Loop& loop, const Endpoint& resolver,
                                          const Question& question, LetterCase letters,
                                          std::chrono::milliseconds timeout,
                                          DnsExchange::Done done);
std::unique_ptr<DnsExchange> ask_over_tcp(loop::Loop& loop, const Endpoint& resolver,
                                          const Question& question,
                                          std::chrono::milliseconds timeout,
                                          DnsExchange::Done done);

}
