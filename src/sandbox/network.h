#pragma once
// The guest's network, as the sandbox process owns it: made in the background, its link given to
// the monitor, the rest kept for what answers the guest.
//
// Without what the host needs for it there is no network, never an open one. A sandbox that asks
// for nothing in particular starts without a card and says so; one with rules does not start.

#include <memory>
#include <optional>
#include <string>

#include "mvm/egress/proxy.h"
#include "mvm/loop/loop.h"
#include "mvm/net/maker.h"
#include "mvm/proto/counters.h"
#include "mvm/proto/monitor.h"
#include "mvm/proto/network.h"
#include "mvm/proto/policy.h"

namespace mvm::sandbox {

class Network {
 public:
  // Begins to make it, in a child process, and reads what it needs of the host's files. The caller
  // must have one thread. `name` is the sandbox's; `sink` records the proxy's decisions,
  // `on_question` is told of what waits for a person. `filters` look into the exchanges of what
  // `inspect` names, besides those that routes judge; `commit` puts what they told on record.
  Network(const std::optional<proto::NetworkConfig>& config, std::string name,
          egress::EventSink sink, egress::QuestionSink on_question,
          std::vector<std::shared_ptr<egress::FilterSource>> filters,
          std::function<bool(egress::Passage)> commit, std::vector<policy::InspectRule> inspect,
          egress::Refusals refusals = egress::Refusals::Together);
  ~Network();

  // Waits for it, and starts the proxy that answers the guest. Throws Error{Unsupported} when there
  // is none and rules were asked for, and what it is where a file of authorities is none.
  void open(loop::Loop& loop);
  // After open().
  std::optional<proto::MonitorNic> card() const;
  // What the guest's agent is to set up, as words of the kernel's command line; or nothing.
  std::string guest_settings() const;
  // Once: the monitor's end of the link. Empty without a card.
  sys::Fd take_tap() { return std::move(tap_); }
  // The authority (PEM) that the guest is to trust; empty when nothing is inspected.
  std::string authority() const { return proxy_ ? proxy_->authority_pem() : ""; }
  // While decisions cannot be recorded nothing new is admitted. What is under way goes on.
  void set_recordable(bool recordable);
  bool recordable() const { return recordable_; }
  // What it was made with; nothing: no card was asked for. And what was added since.
  const std::optional<proto::NetworkConfig>& config() const { return config_; }
  const proto::PolicyChanges& changes() const { return changes_; }
  // In place of the former changes; holds from the next query, connection and request on.
  void change(proto::PolicyChanges changes);
  // Nothing without a card.
  egress::Proxy* proxy() const { return proxy_.get(); }
  // What the proxy has counted; nothing without one.
  std::optional<proto::EgressCounters> counters() const;
  // Why there is no network although one was asked for; empty when nothing is amiss.
  const std::string& missing() const { return missing_; }

 private:
  void start_proxy(loop::Loop& loop);
  void believe();
  policy::Policy policy() const;
  void enforce();

  std::optional<proto::NetworkConfig> config_;
  proto::PolicyChanges changes_;
  bool recordable_ = true;
  egress::EventSink sink_;
  std::vector<policy::InspectRule> inspect_;
  egress::Settings settings_;
  net::GuestAddresses addresses_;
  std::unique_ptr<net::GuestNetworkMaker> maker_;
  sys::Fd tap_;
  std::unique_ptr<egress::Proxy> proxy_;
  std::string missing_;
  std::optional<Error> mistake_;  // in what was asked for, which no other host would take either
};

}
