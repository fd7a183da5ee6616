#include "mvm/egress/proxy.h"

#include "engine.h"

namespace mvm::egress {

std::string_view event_word(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::Dns:
      return "dns";
    case EventKind::Connect:
      return "connect";
    case EventKind::Tls:
      return "tls";
    case EventKind::Http:
      return "http";
    case EventKind::End:
      return "end";
  }
  return "unknown";
}

Proxy::Proxy(loop::Loop& loop, net::GuestNetwork network, Settings settings, EventSink sink)
    : engine_(std::make_unique<Engine>(loop, std::move(network), std::move(settings),
                                       std::move(sink))) {}
Proxy::~Proxy() = default;

void Proxy::set_policy(policy::Policy policy, Mode mode) {
  engine_->set_policy(std::move(policy), mode);
}
std::vector<OpenQuestion> Proxy::questions() const { return engine_->questions(); }
std::optional<OpenQuestion> Proxy::answer(uint64_t question, bool allow) {
  return engine_->answer(question, allow);
}
bool Proxy::certifies(const policy::HostPattern& hosts) const { return engine_->certifies(hosts); }
Counters Proxy::counters() const { return engine_->counters(); }
std::string Proxy::authority_pem() const { return engine_->authority_pem(); }
void Proxy::reset() { engine_->reset(); }
void Proxy::stop_accepting() { engine_->stop_accepting(); }

}
