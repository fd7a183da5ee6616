#pragma once
// HTTP/1.1 requests over TLS, one connection a request, for talking to registries. Names are
// always verified; plain HTTP is spoken to loopback addresses alone.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/http/message.h"

namespace mvm::registry {

inline constexpr size_t kMaxUrl = 7 * 1024;

// http or https, a host with or without a port, a path with or without a query.
struct Url {
  bool tls = true;
  std::string host;  // with the port, as it was written
  std::string name;  // without; IPv6 addresses without brackets
  std::string port;
  std::string target;  // from the first slash on
  std::string origin() const { return (tls ? "https://" : "http://") + host; }
  std::string text() const { return origin() + target; }
};
// Throws Error{Invalid}; also for user:password@ in it, which has no place in a URL.
Url parse_url(std::string_view text);
// Where a Location leads, seen from `base`.
Url resolve_url(const Url& base, std::string_view location);

struct TransportOptions {
  std::string ca_file;  // PEM; empty: the host's own (and $SSL_CERT_FILE)
  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::milliseconds silence{30'000};  // between two pieces of an answer
  // Looked at several times a second while waiting; may throw to give up.
  std::function<void()> check;
};

// Whoever listens there does not speak TLS.
class NoTls : public Error {
 public:
  explicit NoTls(const std::string& host)
      : Error(Kind::Unavailable, "registry " + host + ": it does not speak TLS") {}
};

// A failure of the network, which another try may not see: Error{Unavailable} or {Timeout}.
class Transport {
 public:
  explicit Transport(TransportOptions options);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Called with the head, then with the pieces of the body; `false` ends the exchange early.
  struct Sink {
    std::function<bool(const http::ResponseHead&)> head;
    std::function<bool(ByteView)> body;
  };
  // One GET. Redirects are not followed. Threads may call it at the same time.
  void get(const Url& url, const http::Headers& headers, const Sink& sink) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
