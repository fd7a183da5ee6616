#include "connector.h"

namespace mvm::egress {

Connector::Connector(Parts parts, std::optional<dns::Name> host, const Endpoint& to,
                     Dial::Done done)
    : parts_(parts),
      host_(std::move(host)),
      to_(to),
      dial_(parts.loop, parts.patience, to, std::move(done),
            host_ ? Dial::NeedMore([this] { add_addresses(); }) : Dial::NeedMore()) {}

void Connector::add_addresses() {
  const auto waiting = std::make_shared<int>(2);
  for (const auto type : {dns::RecordType::A, dns::RecordType::Aaaa})
    parts_.resolver.resolve({*host_, type},
                            [weak = std::weak_ptr(self_), waiting](const Answer& answer) {
                              const auto self = weak.lock();
                              if (!self) return;
                              Connector& connector = **self;
                              for (const dns::Record& record : answer.records) {
                                policy::Request request;
                                request.host = connector.host_;
                                request.address = record.address();
                                request.port = connector.to_.port;
                                if (!request.address) continue;
                                // Of one that asks: the connection itself was allowed.
                                const Verdict verdict = connector.parts_.judge.ask(request);
                                if (verdict.admitted || verdict.asks())
                                  connector.dial_.add({*request.address, connector.to_.port});
                              }
                              if (--*waiting == 0) connector.dial_.no_more();
                            });
}

}
