#pragma once
// The sandbox's published ports: listeners that the daemon opened and handed over, and the
// connections that came to them. They live as long as this process does, whatever the daemon does.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/proto/ports.h"
#include "mvm/sys/fd.h"

#include "forward.h"
#include "mux.h"

namespace mvm::sandbox {

class Ports {
 public:
  // Half of what the agent's connection takes: commands have the rest. Further clients wait in the
  // kernel's queues, and are refused by it when those are full.
  static constexpr size_t kMaxConnections = proto::kMaxStreams / 2;

  Ports(loop::Loop& loop, Mux& mux) : loop_(&loop), mux_(&mux) {}

  // Answers the verbs about ports; false when `request` is of another verb.
  bool answer(Asker asker, ByteView request);
  // The agent serves: those who wait are let in.
  void start();
  // No more of it; open connections are reset.
  void close();
  // All or, with an Error, none.
  void publish(const std::vector<proto::PublishedPort>& ports, std::vector<sys::Fd> listeners);
  size_t connections() const { return connections_.size(); }

 private:
  struct Listener {
    proto::PublishedPort port;
    sys::Fd socket;
    loop::Watch watch;
    loop::Watch retry;
  };
  Listener* find(const proto::PublishedPort& port);
  void accept(Listener& listener);
  void update();

  loop::Loop* loop_;
  Mux* mux_;
  bool started_ = false;
  std::list<Listener> listeners_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::unique_ptr<Forward>> connections_;
};

}
