#include "server_opening.h"

#include "mvm/sys/error.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

using crypto::TlsPhase;
using policy::Reason;

}

ServerOpening::ServerOpening(HttpParts parts, const HttpOrigin& origin,
                             std::vector<std::string> protocols, Done done)
    : parts_(parts),
      protocols_(std::move(protocols)),
      done_(std::move(done)),
      connector_(Connector::Parts{parts.loop, parts.judge, parts.resolver, parts.timeouts.connect},
                 origin.host, origin.to,
                 [this, origin](Dial::Result result) { connected(std::move(result), origin); }) {}

void ServerOpening::connected(Dial::Result result, const HttpOrigin& origin) {
  if (!result.socket)
    return fail(result.error == ETIMEDOUT ? Reason::TimedOut : Reason::UpstreamUnreachable,
                sys::errno_text(result.error));
  prepare_stream(result.socket.get());
  if (!origin.tls) return finish({OpenChannel{Channel(std::move(result.socket)), {}}, {}, false});
  Interception& interception = *parts_.interception;
  channel_.emplace(std::move(result.socket),
                   crypto::TlsEngine(interception.servers(),
                                     {origin.name(), origin.to.port, std::move(protocols_),
                                      interception.trust_of(origin.host)}));
  deadline_ = parts_.loop.after(parts_.timeouts.handshake, [this] {
    fail(Reason::TimedOut, "its TLS handshake does not end");
  });
  turn();
}

void ServerOpening::turn() {
  Channel& channel = *channel_;
  // A certificate chain is many reads; OpenSSL bounds how much of it there may be.
  auto state = Channel::State::Open;
  uint64_t before = 0;
  do {
    before = channel.taken();
    state = channel.receive(input_, SIZE_MAX);
    const auto taken = static_cast<size_t>(channel.taken() - before);
    parts_.meter.count(Way::Receive, taken, taken);
  } while (state == Channel::State::Open && !channel.open() && channel.taken() > before);
  if (!channel.flush()) state = Channel::State::Failed;
  if (channel.engine()->phase() == TlsPhase::Failed) {
    const crypto::TlsFailure& failure = channel.engine()->failure();
    const bool protocols =
        failure.fault == crypto::TlsFault::Alert &&
        failure.alert == static_cast<uint8_t>(crypto::TlsAlert::NoApplicationProtocol);
    return fail(Reason::UpstreamTls, channel.how_lost().why, protocols);
  }
  if (state != Channel::State::Open)
    return fail(Reason::UpstreamTls, channel.how_lost().why + " in the TLS handshake");
  if (channel.open())
    return finish({OpenChannel{std::move(channel), std::move(input_)}, {}, false});
  watch_.reset();
  watch_ = parts_.loop.watch(channel.fd(), EPOLLIN | (channel.wants_write() ? EPOLLOUT : 0U),
                             [this](uint32_t) { turn(); });
}

void ServerOpening::fail(Reason reason, std::string detail, bool no_common_protocol) {
  finish({std::nullopt, {reason, std::move(detail)}, no_common_protocol});
}

void ServerOpening::finish(Result result) {
  watch_.reset();
  deadline_.reset();
  const Done done = std::move(done_);
  done(std::move(result));
}

}
