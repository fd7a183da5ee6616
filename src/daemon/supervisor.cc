#include "supervisor.h"

#include <sys/epoll.h>

#include "mvm/base/error.h"

namespace mvm::daemon {

static constexpr std::chrono::milliseconds kRetry{100};

Supervisor::Supervisor(OnEnd on_end) : on_end_(std::move(on_end)) {
  thread_ = std::thread([this] { loop_.run(); });
}

Supervisor::~Supervisor() { stop(); }

void Supervisor::stop() {
  if (!thread_.joinable()) return;
  loop_.stop();
  thread_.join();
}

void Supervisor::watch(std::string id, sys::Child child) {
  auto watched = std::make_shared<Watched>();
  watched->child = std::move(child);
  loop_.post([this, id = std::move(id), watched] { add(id, watched); });
}

void Supervisor::watch(std::string id, sys::Fd process) {
  auto watched = std::make_shared<Watched>();
  watched->process = std::move(process);
  loop_.post([this, id = std::move(id), watched] { add(id, watched); });
}

void Supervisor::after(std::string id, std::chrono::milliseconds delay,
                       std::function<void()> task) {
  loop_.post([this, id = std::move(id), delay, task = std::move(task)] {
    delayed_[id] = loop_.after(delay, [this, id, task] {
      delayed_.erase(id);
      task();
    });
  });
}

void Supervisor::add(const std::string& id, const std::shared_ptr<Watched>& watched) {
  const int fd = watched->child ? watched->child.pidfd() : watched->process.get();
  watched_[id] = watched;
  try {
    listen(id, fd, watched);
  } catch (const Error&) {
    // Out of memory or of watches. It must not go unseen: as soon as there is room.
    delayed_[id] = loop_.after(kRetry, [this, id, watched] { add(id, watched); });
  }
}

void Supervisor::listen(const std::string& id, int fd, const std::shared_ptr<Watched>& watched) {
  watched->watch = loop_.watch(fd, EPOLLIN, [this, id](uint32_t) {
    // Out of the map first: the handler may have the same id watched anew.
    const auto ended = std::move(watched_.extract(id).mapped());
    ended->watch.reset();
    std::optional<sys::ExitStatus> status;
    if (ended->child) status = ended->child.wait();
    on_end_(id, status);
  });
}

}
