#pragma once
// `GET /metrics` on a loopback port, for who collects figures. One connection at a time, each with
// deadlines; nothing else is served, and only to who asks for this host by an address of loopback
// or as "localhost", so that no web page can have its visitor's browser read it.

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "mvm/sys/fd.h"

namespace mvm::api {

class MetricsServer {
 public:
  // "127.0.0.1:9464", "[::1]:9464"; port 0: any. Throws Error{Invalid} for another address.
  MetricsServer(std::string_view address, std::function<std::string()> metrics);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const { return port_; }

 private:
  void run() noexcept;
  void serve(sys::Fd socket);

  std::function<std::string()> metrics_;
  sys::Fd listener_;
  uint16_t port_ = 0;
  sys::Fd stop_;
  std::thread thread_;
};

}
