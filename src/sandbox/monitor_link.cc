#include "monitor_link.h"

#include <array>
#include <cerrno>

#include <signal.h>
#include <sys/epoll.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

MonitorLink::MonitorLink(jail::Isolation isolation, const proto::MachineBase& base, int program,
                         int kvm, int kernel, int initramfs) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::SeqPacket);
  socket_ = std::move(ours);
  sys::SpawnOptions options;
  options.argv = {"mvm", "monitor", std::string(jail::isolation_name(isolation))};
  options.program = program;
  options.fds = {{theirs.get(), proto::kConfigFd}};
  options.die_with_parent = true;
  jail::set_apart(options, isolation, jail::Network::Empty);
  child_ = sys::spawn(options);
  sys::send_message(socket_.get(), base.encode(), std::array{kvm, kernel, initramfs});
}

void MonitorLink::release(loop::Loop& loop, const proto::MonitorConfig& config,
                          std::span<const int> fds, Handlers handlers) {
  handlers_ = std::move(handlers);
  try {
    sys::send_message(socket_.get(), config.encode(), fds);
  } catch (const SystemError& error) {
    // It could not build what its machine stands on, and has said why: that is read as ever.
    if (error.errno_value() != EPIPE && error.errno_value() != ECONNRESET) throw;
  }
  sys::set_nonblocking(socket_.get());
  socket_watch_ = loop.watch(socket_.get(), EPOLLIN, [this](uint32_t) { on_message(); });
  child_watch_ = loop.watch(child_.pidfd(), EPOLLIN, [this](uint32_t) { on_child_end(); });
}

MonitorLink::~MonitorLink() {
  child_watch_.reset();
  if (!child_) return;
  child_.signal(SIGKILL);
  child_.wait();
}

bool MonitorLink::send(const proto::MonitorRequest& request, std::optional<int> fd) {
  try {
    sys::send_message(socket_.get(), request.encode(),
                      fd ? std::span(&*fd, 1) : std::span<const int>());
    return true;
  } catch (const Error&) {
    return false;  // full or closed: the pidfd tells the rest
  }
}

void MonitorLink::kill() {
  if (child_) child_.signal(SIGKILL);
}

void MonitorLink::kill_for(const char* fault) {
  if (fault_.empty()) fault_ = fault;
  kill();
}

std::optional<sys::Message> MonitorLink::receive() {
  try {
    return sys::receive_message(socket_.get(), proto::kMaxMonitorMessage);
  } catch (const SystemError& error) {
    if (error.errno_value() != ECONNRESET) throw;
  }
  // It ended with something of ours unread. What it said before is still there.
  return sys::receive_message(socket_.get(), proto::kMaxMonitorMessage);
}

void MonitorLink::on_message() {
  std::optional<sys::Message> message;
  try {
    message = receive();
  } catch (const Error&) {
    return kill_for("it sent a message that is over the limit");
  }
  if (!message) return;
  // Its end follows, by itself if it has ended; with its socket closed it is of no use.
  if (message->data.empty()) {
    socket_watch_.reset();
    return kill();
  }
  const auto event = proto::MonitorEvent::decode(message->data);
  if (!event) return kill_for("it sent a message that does not decode");
  handlers_.on_event(*event);
}

void MonitorLink::on_child_end() {
  // What it said last comes before the news that it is gone.
  while (socket_watch_) {
    try {
      const auto message = receive();
      if (!message || message->data.empty()) break;
      if (const auto event = proto::MonitorEvent::decode(message->data)) handlers_.on_event(*event);
    } catch (const Error&) {
      break;
    }
  }
  child_watch_.reset();
  socket_watch_.reset();
  const auto status = child_.wait();
  handlers_.on_exit(status.value_or(sys::ExitStatus{}));
}

}
