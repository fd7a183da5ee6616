#pragma once
// A daemon in a process of its own, what it manages, and what must be true of both at any time.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mvm/api/client.h"
#include "mvm/store/paths.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

#include "seam.h"

namespace mvm::faults {

class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Starts the daemon and waits until it answers. False: it ended instead, and said why.
  bool start();
  void kill_daemon();
  bool daemon_lives();
  std::string last_words() const;  // what it wrote to its standard error, all of it
  std::unique_ptr<api::Client> client() const;
  pid_t daemon_pid() const { return daemon_.pid(); }

  // From now on, of the daemon's `n`-th call; when none runs, of the one that start() will make.
  void arm(int n, int error);
  // Whether it happened; nothing more will.
  bool disarm();
  // That counted since arm().
  int calls() const { return plan_->calls; }

  const store::Paths& paths() const { return paths_; }
  const std::string& folder() const { return temporary_.path(); }

  // What is wrong, one a line; nothing when all is as it must be: every record has its process and
  // its files or neither, and there are no processes, files or sockets besides.
  std::string complaints();
  // Descriptors that the daemon has open, once it rests.
  size_t open_descriptors() const;

 private:
  bool answers() const;
  void reap();
  std::set<pid_t> sandbox_processes() const;

  sys::TempDir temporary_;
  store::Paths paths_{temporary_.path() + "/run", temporary_.path() + "/data"};
  sys::Fd plan_fd_;
  Plan* plan_;
  sys::Child daemon_;
};

}
