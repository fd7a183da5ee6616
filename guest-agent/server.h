#pragma once
// The agent: connections of the host, the verbs they may ask for, and the verbs that outlive their
// connection.

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/proto/control.h"
#include "mvm/proto/profile.h"

#include "connection.h"
#include "console_shell.h"
#include "exec.h"
#include "process_tree.h"
#include "put.h"
#include "reaper.h"

namespace mvm::guest {

inline constexpr size_t kMaxConnections = 16;

class Server {
 public:
  struct Options {
    std::string cgroups;          // parent of the commands' cgroups; empty: none
    uint64_t processes_each = 0;  // limit of each command that brings none; 0: no limit
    proto::Profile profile = proto::Profile::Dev;
    // Called when shutdown was asked for and its End is on the way.
    std::function<void(const proto::ShutdownRequest&)> shutdown;
    // Called after each batch of ended processes.
    std::function<void()> reaped;
    // Called when no connection and no verb is left.
    std::function<void()> idle;
    Put::Tools copies;
  };

  Server(loop::Loop& loop, Options options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves on a connected stream socket. Beyond kMaxConnections it is dropped.
  void serve(sys::Fd socket);
  // Accepts the host's connections on this AF_VSOCK listener, and nobody else's.
  void listen(sys::Fd listener);
  // A shell for whoever sits at this machine's console.
  void offer_console_shell() { console_shell_ = std::make_unique<ConsoleShell>(commands_); }
  // The first process of each command is asked to end by this signal.
  void ask_commands_to_end(int signal);
  // Whether one of those is still there.
  bool has_commands() const;
  // Writes what is queued for the host, as far as the sockets take it.
  void flush();

  size_t connections() const { return connections_.size(); }
  // Verbs in progress whose connection is lost.
  size_t orphans() const { return orphans_.size(); }
  Reaper& reaper() { return reaper_; }

 private:
  std::unique_ptr<Stream> open(Channel& channel, std::string_view verb, ByteView payload);
  void adopt(std::vector<std::unique_ptr<StreamSlot>> slots);
  void closed(Connection& connection);
  void accept();
  void after_reaping();
  void sweep_orphans();
  void report_idle();
  void info(Channel& channel);
  void trust(const proto::TrustRequest& request);

  loop::Loop* loop_;
  Options options_;
  proto::ProfileGate gate_;
  Reaper reaper_;
  ProcessTrees trees_;
  bool trusts_ = false;  // an authority was named
  Commands commands_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::list<std::unique_ptr<StreamSlot>> orphans_;
  loop::Watch sweep_;
  std::unique_ptr<ConsoleShell> console_shell_;
  sys::Fd listener_;
  loop::Watch accepting_;
};

// A vsock socket that listens on `port` of this machine, and one that calls the host.
sys::Fd listen_vsock(uint32_t port);
// Tells the host that the agent serves, by calling it: nothing when the host does not answer such
// calls (it then calls us).
std::optional<sys::Fd> call_host(uint32_t port);

}
