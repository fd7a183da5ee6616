#pragma once
// What carries the requests of one inspected connection. There is one for each version of HTTP;
// whoever owns it need not know which.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/egress/filter.h"
#include "mvm/loop/loop.h"

#include "channel.h"
#include "commit.h"
#include "destination.h"
#include "http_judge.h"
#include "interception.h"
#include "meter.h"
#include "partings.h"
#include "questions.h"
#include "reporter.h"
#include "resolver.h"

namespace mvm::egress {

inline constexpr std::string_view kHttp1 = "http/1.1";   // in ALPN
inline constexpr std::string_view kHttp10 = "http/1.0";  // what only old clients say
inline constexpr std::string_view kHttp2 = "h2";

struct HttpParts {
  loop::Loop& loop;
  Judge& judge;
  Resolver& resolver;
  Reporter& reporter;
  Meter& meter;
  Interception* interception;
  const std::vector<std::shared_ptr<FilterSource>>& filters;
  Commit& commit;
  Questions& questions;
  PinTable& pins;
  NameGate& names;
  Partings& partings;
  const Timeouts& timeouts;
};

// The guest's, and the server's; -1: there is none.
using SocketPair = std::array<int, 2>;

// A CONNECT that came behind other requests to the explicit proxy, and has not been answered.
struct TunnelRequest {
  sys::Fd guest;  // nothing of the tunnel has been read from it
  http::Authority to;
};

struct HttpEnd {
  policy::Reason reason = policy::Reason::Allowed;
  std::string detail;
  std::shared_ptr<TunnelRequest> tunnel = nullptr;  // then it is not the connection's end
};

// A channel whose handshake is over, and what has come through it already.
struct OpenChannel {
  Channel channel;
  Bytes input;
};

class HttpFlow {
 public:
  HttpFlow() = default;
  virtual ~HttpFlow() = default;
  HttpFlow(const HttpFlow&) = delete;
  HttpFlow& operator=(const HttpFlow&) = delete;

  // The end is told once, later than start(), to whoever made the flow; who must not drop it before
  // the next turn.
  virtual void start() = 0;
  virtual void reset() noexcept = 0;               // both sides
  virtual bool admitted() const noexcept = 0;      // some request was
  virtual uint64_t sent() const noexcept = 0;      // bytes from the guest
  virtual uint64_t received() const noexcept = 0;  // bytes to the guest
  virtual loop::Clock::time_point last_use() const noexcept = 0;
  // Bytes that wait here for one side to take them, and in its sockets.
  virtual size_t held() const noexcept = 0;
  virtual SocketPair sockets() const noexcept = 0;
  virtual std::array<sys::Fd, 2> take_sockets() noexcept = 0;  // when it has ended
};

}
