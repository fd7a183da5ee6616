#include "engine.h"

#include <sys/socket.h>

#include "mvm/sys/socket.h"

namespace mvm::egress {

Proxy::Engine::Engine(loop::Loop& loop, net::GuestNetwork network, Settings settings,
                      EventSink sink)
    : loop_(loop),
      network_(std::move(network)),
      settings_(std::move(settings)),
      sink_(std::move(sink)),
      accepts_(loop.watch(network_.tcp.get(), EPOLLIN, [this](uint32_t) { refuse_waiting(); })) {}

void Proxy::Engine::refuse_waiting() {
  while (const auto connection = sys::accept_connection(network_.tcp.get())) {
    const linger reset{1, 0};
    ::setsockopt(connection->get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ++counters_.flows_refused;
  }
}

void Proxy::Engine::set_policy(policy::Policy policy, Mode mode) {
  settings_.policy = std::move(policy);
  settings_.mode = mode;
}
void Proxy::Engine::reset() {}
void Proxy::Engine::stop_accepting() { accepts_.reset(); }

}
