#pragma once
// What the daemon asks a sandbox process on its control socket. Blocking, each call on a connection
// of its own, with a deadline; a wait ends early when `interrupt` becomes readable.

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mvm/proto/ai.h"
#include "mvm/proto/control.h"
#include "mvm/proto/counters.h"
#include "mvm/proto/ports.h"

namespace mvm::daemon {

class SandboxControl {
 public:
  // `interrupt` is borrowed, -1 for none.
  SandboxControl(std::string socket, int interrupt)
      : socket_(std::move(socket)), interrupt_(interrupt) {}

  // Returns once commands can run. Throws what the sandbox answered when it ended first,
  // Error{Timeout} after `limit`, Error{Unavailable} when it does not answer or we are interrupted.
  void ready(std::chrono::milliseconds limit) const;
  // Its process numbers are those of its own pid namespace.
  proto::SandboxStatus status(std::chrono::milliseconds limit) const;
  // Asks it to end and waits until it has; the same errors.
  void stop(const proto::StopRequest& request, std::chrono::milliseconds limit) const;
  std::vector<proto::PublishedPort> ports(std::chrono::milliseconds limit) const;
  // With a listening socket for each.
  void publish(const std::vector<proto::PublishedPort>& ports, std::span<const int> listeners,
               std::chrono::milliseconds limit) const;
  void unpublish(const proto::PublishedPort& port, std::chrono::milliseconds limit) const;
  void change_ai_budget(const proto::AiBudgetRequest& request,
                        std::chrono::milliseconds limit) const;
  // Error{Unavailable} also when it has no network.
  proto::EgressCounters counters(std::chrono::milliseconds limit) const;

 private:
  Bytes ask(ByteView request, std::chrono::milliseconds limit,
            std::span<const int> passed = {}) const;
  std::string socket_;
  int interrupt_;
};

}
