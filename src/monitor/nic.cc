#include "nic.h"

#include <array>
#include <cerrno>

#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::monitor {

using virtio::Net;
using virtio::Progress;
using virtio::ReceiveOffloads;

// ---- the TAP ------------------------------------------------------------------------------------

void TapPort::send(std::span<const iovec> frame) noexcept {
  if (broken_) return;
  // What does not go at once is lost, as on any network. The gate has let it pass, so a refusal is
  // for want of memory, and TCP sends again.
  while (::writev(tap_.get(), frame.data(), static_cast<int>(frame.size())) < 0 && errno == EINTR) {
  }
}

std::optional<size_t> TapPort::read(std::span<const iovec> into) noexcept {
  while (!broken_) {
    const ssize_t got = ::readv(tap_.get(), into.data(), static_cast<int>(into.size()));
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) give_up();
    break;
  }
  return std::nullopt;
}

std::optional<size_t> TapPort::receive(std::span<const iovec> into) noexcept { return read(into); }

void TapPort::apply_offloads() noexcept {
  if (!wanted_) return;
  const ReceiveOffloads offloads = *std::exchange(wanted_, std::nullopt);
  const unsigned flags = (offloads.checksum ? TUN_F_CSUM : 0U) | (offloads.tso4 ? TUN_F_TSO4 : 0U) |
                         (offloads.tso6 ? TUN_F_TSO6 : 0U) | (offloads.ecn ? TUN_F_TSO_ECN : 0U);
  if (::ioctl(tap_.get(), TUNSETOFFLOAD, flags) < 0) return give_up();
  // What waits was made for the driver before, which may have taken more. As many as the link's
  // queue holds, so this ends.
  constexpr int kQueueLength = 1'000;
  virtio::NetHeader header;
  const iovec room{&header, sizeof header};
  for (int left = kQueueLength; left > 0 && read({&room, 1}); --left) {
  }
}

// ---- the card -----------------------------------------------------------------------------------

Nic::Nic(sys::Fd tap, const proto::MonitorNic& settings) noexcept
    : port_(std::move(tap)),
      device_(port_, {settings.mac, settings.v4, settings.v6}, settings.mtu, settings.beginnings) {}

Nic::~Nic() {
  if (!thread_.joinable()) return;
  ended_ = true;
  slot_->kick(Net::kReceiveQueue);
  thread_.join();
}

void Nic::start(const ThreadStart& start) {
  thread_ = std::thread([this, start] {
    try {
      start.confine();
      run();
    } catch (const Error& error) {
      start.on_failure(error.message());
    }
  });
}

void Nic::run() {
  while (!ended_) serve(wait());
}

Nic::Kicked Nic::wait() {
  const int received = slot_->kick_fds()[Net::kReceiveQueue].get();
  const int transmit = slot_->kick_fds()[Net::kTransmitQueue].get();
  // A descriptor of -1 is not looked at.
  const int tap = starved_ || port_.broken() ? -1 : port_.fd();
  std::array<pollfd, 3> entries{{{received, POLLIN, 0}, {transmit, POLLIN, 0}, {tap, POLLIN, 0}}};
  const int ready = ::ppoll(entries.data(), entries.size(), nullptr, nullptr);
  if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for frames");
  if (ready <= 0) return {};
  if (entries[0].revents != 0) sys::drain_event(received);
  if (entries[1].revents != 0) sys::drain_event(transmit);
  // It would be ready for ever.
  if ((entries[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) port_.give_up();
  return {entries[0].revents != 0, entries[1].revents != 0};
}

void Nic::serve(Kicked kicked) {
  if (kicked.receive || kicked.transmit) slot_->with_lock([this] { port_.apply_offloads(); });
  if (kicked.transmit && slot_->process(Net::kTransmitQueue) == Progress::More)
    slot_->kick(Net::kTransmitQueue);
  if (starved_ && !kicked.receive) return;
  const auto result = slot_->while_running([this] { return device_.receive(); });
  starved_ = result.value_or(Net::Received::Starved) == Net::Received::Starved;
}

}
