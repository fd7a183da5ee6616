#pragma once
// HTTP over a listening Unix socket in front of a Service: a thread for each connection, at most
// `connections` of them (docs/decisions/0004-daemon-threads.md says why threads). Every wait has a
// deadline, every buffer a bound; a request that fails takes nothing down but itself.

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>

#include "mvm/api/service.h"
#include "mvm/sys/fd.h"

namespace mvm::api {

inline constexpr uint64_t kMaxRequestBody = 1 << 20;

struct ServerOptions {
  size_t connections = 64;  // at once; further ones are told 503
  // From the first byte of a request to its last.
  std::chrono::milliseconds request_timeout{10'000};
  // Between two requests of a connection.
  std::chrono::milliseconds keep_alive{30'000};
  // A client that takes nothing of an answer for so long is gone.
  std::chrono::milliseconds write_stall{30'000};
  // Told after each request; `route` is the pattern, never what the client filled in. Called from
  // the connections' threads.
  std::function<void(std::string_view method, std::string_view route, unsigned status,
                     std::chrono::milliseconds took)>
      on_request;
};

class Server {
 public:
  // `listener` is a listening Unix socket. Only our own user and root are served.
  Server(Service& service, sys::Fd listener, ServerOptions options = {});
  // Ends what is still connected: answers under way are cut off. The service must not block for
  // ever, since its calls are waited for.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Accepts until stop(), or until nothing was asked for `idle` while busy() was false (never when
  // idle is zero).
  void run(std::chrono::milliseconds idle = {}, const std::function<bool()>& busy = {});
  void stop() noexcept;  // from any thread, and from a signal handler

 private:
  struct Worker {
    std::thread thread;
    std::atomic<bool> done = false;
  };
  void accept_all();
  void serve(sys::Fd socket) noexcept;
  void reap(bool all);

  Service& service_;
  sys::Fd listener_;
  ServerOptions options_;
  sys::Fd stop_;               // stays readable once signalled
  std::list<Worker> workers_;  // run()'s thread only
  std::atomic<size_t> active_{0};
  std::atomic<std::chrono::steady_clock::time_point> last_active_;
};

}
