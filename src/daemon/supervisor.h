#pragma once
// Watches processes by pidfd and says when each has ended. One thread for all of them.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "mvm/loop/loop.h"
#include "mvm/sys/process.h"

namespace mvm::daemon {

class Supervisor {
 public:
  // Called on the supervisor's thread, once for each watched process. `status` is there for our own
  // children only.
  using OnEnd = std::function<void(const std::string& id, std::optional<sys::ExitStatus> status)>;
  explicit Supervisor(OnEnd on_end);
  ~Supervisor();
  // Waits for what it is doing, which may still ask it for more; nothing comes of that. What is
  // still watched runs on.
  void stop();

  void watch(std::string id, sys::Child child);
  void watch(std::string id, sys::Fd process);  // not our child
  // Calls `task` on the supervisor's thread after `delay`; a later call of the same id replaces it.
  void after(std::string id, std::chrono::milliseconds delay, std::function<void()> task);

 private:
  struct Watched {
    sys::Child child;
    sys::Fd process;
    loop::Watch watch;
  };
  void add(const std::string& id, const std::shared_ptr<Watched>& watched);
  void listen(const std::string& id, int fd, const std::shared_ptr<Watched>& watched);

  OnEnd on_end_;
  loop::Loop loop_;
  std::map<std::string, std::shared_ptr<Watched>> watched_;  // the thread's
  std::map<std::string, loop::Watch> delayed_;               // the thread's
  std::thread thread_;
};

}
