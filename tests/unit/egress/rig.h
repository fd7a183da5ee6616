#pragma once
// A guest, a proxy and an Internet on one machine, without a guest kernel:
//
//   clients ─ eth0 [guest's namespace] ═ frames ═ TAP [sandbox's namespace] ─ proxy ─ lo [test's]
//                                                                                   └─ servers
//
// The test is root in namespaces of its own, so public addresses are the loopback device's, and
// real programs play clients and servers. Everything but those programs runs on one loop, on one
// thread.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/egress/proxy.h"
#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

#include "test_resolver.h"

namespace mvm::egress {

inline constexpr std::chrono::seconds kPatience{60};

inline IpAddress ip(std::string_view text) { return IpAddress::parse(text).value(); }
inline dns::Name name(std::string_view text) { return dns::Name::parse(text).value(); }

// A program that runs while the loop does.
class Program {
 public:
  struct Exit {
    int code = -1;  // 128 + the signal's number when one ended it
    std::string out;
    std::string err;
  };
  // `directory` is where it runs; `guest` whether in the guest's namespace.
  Program(loop::Loop& loop, std::vector<std::string> argv, int network_namespace,
          const std::string& resolv_conf);
  ~Program();  // kills it
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool ended() const { return ended_; }
  const Exit& exit() const { return exit_; }
  void end_input() { input_.reset(); }
  void kill();

 private:
  void collect(int which, sys::Fd& fd, loop::Watch& watch, std::string& text);
  void reap();

  pid_t pid_ = -1;
  sys::Fd input_;
  sys::Fd out_;
  sys::Fd err_;
  sys::Fd pidfd_;
  loop::Watch out_watch_;
  loop::Watch err_watch_;
  loop::Watch pid_watch_;
  bool ended_ = false;
  Exit exit_;
};

class EgressTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Rules as flags spell them.
  void allow_host(std::string_view rule) {
    settings_.policy.hosts.push_back(policy::parse_host_rule(rule).value());
  }
  void allow_range(std::string_view rule) {
    settings_.policy.ranges.push_back(policy::parse_range_rule(rule).value());
  }
  void allow_endpoint(std::string_view rule) {
    settings_.policy.routes.push_back(policy::parse_endpoint(rule).value());
  }
  // With `settings_` as they are. Until then nobody answers the guest.
  void start_proxy();

  // Runs a client in the guest until it ends.
  Program::Exit guest(std::vector<std::string> argv);
  std::unique_ptr<Program> start_guest(std::vector<std::string> argv);
  // A server on the test's Internet, until the test ends; ready when `address` takes connections.
  Program& serve(std::vector<std::string> argv, const Endpoint& address);
  Program& serve_python(const std::string& code, const Endpoint& address);
  // Runs the loop until `condition` holds; false: it did not in time.
  bool eventually(const std::function<bool()>& condition);
  // Public addresses of this test's own: on lo, for servers.
  void own_address(std::string_view address);

  // What happened, without times: "connect allow allowed example.com 93.184.216.34:80".
  std::vector<std::string> told() const;
  std::vector<Event> events_of(EventKind kind) const;
  std::string directory() const { return directory_; }
  // Writes a file into the test's directory and returns its path.
  std::string file(const std::string& file_name, const std::string& text) const;
  // Makes a certificate for these names, signed by itself; returns its path, the key is beside it
  // (".key").
  std::string certificate(const std::string& host);

  loop::Loop loop_;
  TestResolver resolver_{loop_};
  Settings settings_;
  std::vector<Event> events_;
  bool recordable_ = true;  // what the sink answers
  EventSink sink_;          // asked besides, when there is one
  std::unique_ptr<Proxy> proxy_;

 private:
  void move_frames(int from, int to);

  net::GuestNetwork network_;
  sys::Fd guest_tap_;
  sys::Fd guest_namespace_;
  std::string directory_;
  std::string resolv_conf_;
  std::vector<std::byte> frame_;
  loop::Watch to_guest_;
  loop::Watch from_guest_;
  std::deque<std::unique_ptr<Program>> servers_;
};

}
