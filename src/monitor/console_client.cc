#include "console_client.h"

#include <algorithm>
#include <array>

#include <sys/epoll.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::monitor {

void ConsoleClient::attach(DeviceSlot& slot) {
  slot_ = &slot;
  for (uint16_t queue = 0; queue < slot.kick_fds().size(); ++queue)
    kicks_.push_back(loop_->watch(slot.kick_fds()[queue].get(), EPOLLIN, [this, queue](uint32_t) {
      slot_->serve(queue);
      if (queue == virtio::Console::kReceiveQueue && socket_) watch();
    }));
}

void ConsoleClient::connect(sys::Fd socket) {
  hang_up();
  socket_ = std::move(socket);
  {
    const std::lock_guard lock(mutex_);
    unsent_.reserve(kMaxUnsent + kMaxUnsent / 4);
  }
  connected_ = true;
  watch();
}

void ConsoleClient::resize(proto::TerminalSize size) {
  if (size == proto::TerminalSize{}) return;
  slot_->with_lock([&] { console_->resize(size.columns, size.rows); });
}

void ConsoleClient::hang_up() {
  connected_ = false;
  watch_.reset();
  socket_.reset();
  passed_.clear();
  const std::lock_guard lock(mutex_);
  std::string().swap(unsent_);
  lost_ = 0;
}

// ---- what the guest prints ----------------------------------------------------------------------

void ConsoleClient::write(ByteView output) noexcept {
  if (!connected_) return;
  const std::lock_guard lock(mutex_);
  const size_t taken = std::min(output.size(), kMaxUnsent - std::min(kMaxUnsent, unsent_.size()));
  unsent_.append(as_text(output.first(taken)));
  lost_ += output.size() - taken;
  if (!std::exchange(posted_, true)) loop_->post([this] { flush(); });
}

void ConsoleClient::flush() {
  bool gone = false;
  {
    const std::lock_guard lock(mutex_);
    posted_ = false;
    if (!socket_) return unsent_.clear();
    size_t sent = 0;
    try {
      while (sent < unsent_.size()) {
        const auto put = sys::send_some(socket_.get(), as_bytes(unsent_).subspan(sent));
        if (!put) break;
        sent += *put;
      }
    } catch (const Error&) {
      gone = true;
    }
    unsent_.erase(0, sent);
    if (lost_ > 0 && unsent_.size() < kMaxUnsent / 2)
      unsent_ +=
          "\r\nmvm: " + std::to_string(std::exchange(lost_, 0)) + " bytes are not shown here\r\n";
  }
  gone ? hang_up() : watch();
}

// ---- what is typed ------------------------------------------------------------------------------

void ConsoleClient::read() {
  std::array<std::byte, virtio::Console::kInputCapacity> typed;
  const size_t space = slot_->with_lock([this] { return console_->input_space(); });
  if (space == 0) return watch();
  try {
    const auto got = sys::receive_some(socket_.get(), std::span(typed).first(space), passed_);
    passed_.clear();
    if (!got) return;
    if (*got == 0) return hang_up();
    slot_->with_lock([&] { console_->input(ByteView(typed).first(*got)); });
  } catch (const Error&) {
    return hang_up();
  }
  watch();
}

// For what there is to wait for. A client that is gone is noticed when something is typed or
// printed next, or at once where neither waits.
void ConsoleClient::watch() {
  uint32_t events = 0;
  if (slot_->with_lock([this] { return console_->input_space() > 0; })) events |= EPOLLIN;
  {
    const std::lock_guard lock(mutex_);
    if (!unsent_.empty()) events |= EPOLLOUT;
  }
  const auto on_events = [this](uint32_t ready) {
    if ((ready & EPOLLOUT) != 0) flush();
    if (!socket_) return;
    if ((ready & EPOLLIN) != 0) return read();
    if ((ready & (EPOLLHUP | EPOLLERR)) != 0) hang_up();
  };
  if (watch_) return watch_.set_events(events);
  try {
    watch_ = loop_->watch(socket_.get(), events, on_events);
  } catch (const SystemError&) {
    hang_up();  // the host is short of memory: nobody sits here then
  }
}

}
