#include "control_link.h"

#include <sys/epoll.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::monitor {

ControlLink::ControlLink(loop::Loop& loop, sys::Fd socket,
                         std::function<void(const proto::MonitorRequest&, sys::Fd)> on_request,
                         std::function<void()> on_closed)
    : socket_(std::move(socket)),
      on_request_(std::move(on_request)),
      on_closed_(std::move(on_closed)) {
  sys::set_nonblocking(socket_.get());
  watch_ = loop.watch(socket_.get(), EPOLLIN, [this](uint32_t) { on_message(); });
}

void ControlLink::send(const proto::MonitorEvent& event) noexcept {
  try {
    sys::send_message(socket_.get(), event.encode());
  } catch (const Error&) {
    // Gone (then on_closed follows) or full.
  }
}

void ControlLink::on_message() {
  std::optional<sys::Message> message;
  try {
    message = sys::receive_message(socket_.get(), proto::kMaxMonitorMessage);
  } catch (const Error&) {
    return on_closed_();
  }
  if (!message) return;
  if (message->data.empty()) return on_closed_();
  const auto request = proto::MonitorRequest::decode(message->data);
  if (!request || message->fds.size() > 1) return on_closed_();
  on_request_(*request, message->fds.empty() ? sys::Fd() : std::move(message->fds.front()));
}

}
