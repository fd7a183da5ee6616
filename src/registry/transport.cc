#include "mvm/registry/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/http/parser.h"
#include "mvm/oci/reference.h"
#include "mvm/sys/error.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/file.h"

namespace mvm::registry {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr size_t kReadSize = size_t{64} << 10;
constexpr int kTick = 100;  // milliseconds between two looks at whether to give up

// Where distributions keep what they trust; OpenSSL's own default is that of its build.
constexpr std::array<const char*, 4> kTrust{"/etc/ssl/certs/ca-certificates.crt",
                                            "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
                                            "/etc/ssl/ca-bundle.pem"};

std::string trust_file(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (const char* given = std::getenv("SSL_CERT_FILE"); given != nullptr && *given != '\0')
    return given;
  for (const char* path : kTrust)
    if (sys::exists(path)) return path;
  throw Error(Kind::Unavailable,
              "this host has no file of trusted certificate authorities; install ca-certificates "
              "or set SSL_CERT_FILE");
}

std::string tls_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  std::array<char, 256> text{};
  ::ERR_error_string_n(code, text.data(), text.size());
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : text.data();
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
using Session = std::unique_ptr<SSL, void (*)(SSL*)>;

Context make_context(const std::string& trust) {
  Context context(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free);
  if (!context) throw Error(Kind::Exhausted, "no memory for TLS");
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (::SSL_CTX_load_verify_file(context.get(), trust.c_str()) != 1)
    throw Error(Kind::Invalid,
                "reading the certificate authorities of " + trust + ": " + tls_error());
  return context;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

// A non-blocking TCP connection that waits with deadlines and looks up from time to time.
class Connection {
 public:
  Connection(const Url& url, const TransportOptions& options) : url_(url), options_(options) {}

  void connect() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* raw = nullptr;
    const int result = ::getaddrinfo(url_.name.c_str(), url_.port.c_str(), &hints, &raw);
    if (result != 0)
      fail(Kind::Unavailable, std::string("its address is not known: ") + ::gai_strerror(result));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(raw, &::freeaddrinfo);
    std::string why = "it has no address";
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next)
      if (try_address(*at, why)) return;
    fail(Kind::Unavailable, why);
  }

  // False when the other side does not speak TLS at all.
  bool start_tls(SSL_CTX* context) {
    session_ = Session(::SSL_new(context), &::SSL_free);
    if (!session_) throw Error(Kind::Exhausted, "no memory for TLS");
    ::SSL_set_fd(session_.get(), fd_.get());
    if (is_address(url_.name)) {
      ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(session_.get()), url_.name.c_str());
    } else {
      // SSL_set_tlsext_host_name, whose macro has a cast that we do not allow.
      std::string name = url_.name;
      ::SSL_ctrl(session_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 name.data());
      ::SSL_set1_host(session_.get(), url_.name.c_str());
    }
    const auto deadline = Clock::now() + options_.connect_timeout;
    while (true) {
      ::ERR_clear_error();
      const int result = ::SSL_connect(session_.get());
      if (result == 1) return true;
      if (wait_for_tls(result, deadline)) continue;
      const long verdict = ::SSL_get_verify_result(session_.get());
      if (verdict != X509_V_OK)
        throw Error(Kind::Denied, "registry " + url_.host + ": its certificate is refused: " +
                                      ::X509_verify_cert_error_string(verdict));
      const int reason = ERR_GET_REASON(::ERR_peek_error());
      if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) return false;
      fail(Kind::Unavailable, "TLS failed: " + tls_error());
    }
  }

  void write(ByteView data) {
    const auto deadline = Clock::now() + options_.silence;
    while (!data.empty()) {
      const ssize_t done =
          session_ ? ::SSL_write(session_.get(), data.data(), static_cast<int>(data.size()))
                   : ::send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (done > 0) {
        data = data.subspan(static_cast<size_t>(done));
      } else if (!again(static_cast<int>(done), POLLOUT, deadline)) {
        fail(Kind::Unavailable, "the connection broke");
      }
    }
  }

  // 0 at the end.
  size_t read(std::span<std::byte> into) {
    const auto deadline = Clock::now() + options_.silence;
    while (true) {
      const ssize_t got =
          session_ ? ::SSL_read(session_.get(), into.data(), static_cast<int>(into.size()))
                   : ::recv(fd_.get(), into.data(), into.size(), 0);
      if (got > 0) return static_cast<size_t>(got);
      if (!session_ && got == 0) return 0;
      if (session_ &&
          ::SSL_get_error(session_.get(), static_cast<int>(got)) == SSL_ERROR_ZERO_RETURN)
        return 0;
      if (!again(static_cast<int>(got), POLLIN, deadline))
        fail(Kind::Unavailable, "the connection broke");
    }
  }

  [[noreturn]] void fail(Kind kind, const std::string& why) const {
    throw Error(kind, "registry " + url_.host + ": " + why);
  }

 private:
  bool try_address(const addrinfo& address, std::string& why) {
    fd_ = sys::Fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd_) throw SystemError(errno, "making a socket");
    if (::connect(fd_.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
      why = std::strerror(errno);
      return false;
    }
    if (!wait(POLLOUT, Clock::now() + options_.connect_timeout)) {
      why = "it does not answer";
      return false;
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) why = std::strerror(error);
    return error == 0;
  }

  // False when the time is over.
  bool wait(short events, Clock::time_point deadline) const {
    while (true) {
      if (options_.check) options_.check();
      pollfd entry{fd_.get(), events, 0};
      const int ready = ::poll(&entry, 1, kTick);
      if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a registry");
      if (ready > 0) return true;
      if (Clock::now() >= deadline) return false;
    }
  }

  bool wait_for_tls(int result, Clock::time_point deadline) {
    const int what = ::SSL_get_error(session_.get(), result);
    if (what != SSL_ERROR_WANT_READ && what != SSL_ERROR_WANT_WRITE) return false;
    if (!wait(what == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline))
      fail(Kind::Timeout, "it does not answer");
    return true;
  }

  // Whether to try again after a call that moved nothing.
  bool again(int result, short events, Clock::time_point deadline) {
    if (session_) return wait_for_tls(result, deadline);
    if (errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (!wait(events, deadline)) fail(Kind::Timeout, "it does not answer");
    return true;
  }

  const Url& url_;
  const TransportOptions& options_;
  sys::Fd fd_;
  Session session_{nullptr, &::SSL_free};
};

}

struct Transport::Impl {
  TransportOptions options;
  Context context{nullptr, &::SSL_CTX_free};
};

Transport::Transport(TransportOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->context = make_context(trust_file(options.ca_file));
  impl_->options = std::move(options);
}
Transport::~Transport() = default;

void Transport::get(const Url& url, const http::Headers& headers, const Sink& sink) const {
  if (!url.tls && !oci::is_loopback(url.host))
    throw Error(Kind::Denied, "registry " + url.host +
                                  ": without TLS only registries on this host are spoken to");
  Connection connection(url, impl_->options);
  connection.connect();
  if (url.tls && !connection.start_tls(impl_->context.get())) throw NoTls(url.host);

  http::RequestHead head;
  head.method = "GET";
  head.target = url.target;
  head.headers = headers;
  head.headers.insert(head.headers.begin(), {"Host", url.host});
  head.headers.push_back({"User-Agent", "mvm"});  // some refuse who has none
  head.headers.push_back({"Connection", "close"});
  connection.write(as_bytes(http::encode(head)));

  http::ResponseParser parser;
  parser.expect(head.method);
  Bytes buffer(kReadSize);
  while (true) {
    const size_t got = connection.read(buffer);
    ByteView input = ByteView(buffer).first(got);
    auto event = got == 0 ? parser.end_of_input() : parser.next(input);
    for (; event.kind != http::EventKind::More; event = parser.next(input)) {
      if (event.kind == http::EventKind::Bad && event.fault == http::Fault::Truncated)
        connection.fail(Kind::Unavailable, "the connection broke");
      if (event.kind == http::EventKind::Bad)
        connection.fail(Kind::Invalid,
                        "its answer is no HTTP: " + std::string(http::fault_text(event.fault)));
      if (event.kind == http::EventKind::End) {
        if (parser.head().status == 0) connection.fail(Kind::Unavailable, "the connection broke");
        return;
      }
      if (event.kind == http::EventKind::Head && !sink.head(parser.head())) return;
      if (event.kind == http::EventKind::Body && !sink.body(event.body)) return;
    }
    if (got == 0) connection.fail(Kind::Unavailable, "the connection broke");
  }
}

}
