#include "mvm/api/metrics_server.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/base/ip.h"
#include "mvm/base/text.h"
#include "mvm/http/message.h"
#include "mvm/http/parser.h"
#include "mvm/http/target.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "wire.h"

namespace mvm::api {
namespace {

constexpr std::chrono::milliseconds kRequestTime{5'000};
constexpr std::chrono::milliseconds kWriteStall{5'000};

bool is_loopback(const IpAddress& address) {
  return address.is_v4() ? address.bytes().front() == 127
                         : address == IpAddress::parse("::1").value();
}

struct Address {
  IpAddress ip;
  uint16_t port = 0;
};

Address parse_address(std::string_view text) {
  const auto wrong = [&] {
    return Error(Kind::Invalid, "--metrics-listen: \"" + printable(text, 80) +
                                    "\" must be a loopback address and a port, such as "
                                    "127.0.0.1:9464 or [::1]:9464");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) throw wrong();
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto ip = IpAddress::parse(host);
  const auto port = parse_u64(text.substr(colon + 1));
  if (!ip || !is_loopback(*ip) || !port || *port > 65535) throw wrong();
  return {*ip, static_cast<uint16_t>(*port)};
}

socklen_t fill(sockaddr_storage& out, const Address& address) {
  if (address.ip.is_v4()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    std::memcpy(&to.sin_addr, address.ip.bytes().data(), sizeof(to.sin_addr));
    std::memcpy(&out, &to, sizeof(to));
    return sizeof(to);
  }
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(address.port);
  to.sin6_addr = in6addr_loopback;
  std::memcpy(&out, &to, sizeof(to));
  return sizeof(to);
}

uint16_t bound_port(int fd) {
  sockaddr_in6 bound{};  // the port is at the same place in both families
  socklen_t length = sizeof(bound);
  sys::check(::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length), "getsockname");
  return ntohs(bound.sin6_port);
}

bool asks_for_loopback(const http::RequestTarget& target) {
  if (!target.authority) return false;
  const std::string& host = target.authority->host;
  const auto ip = IpAddress::parse(host);
  return host == "localhost" || (ip && is_loopback(*ip));
}

void answer(Wire& wire, unsigned status, std::string_view type, const std::string& body,
            bool with_body) {
  http::ResponseHead head;
  head.status = status;
  head.reason = http::reason_phrase(status);
  head.headers = {{"Content-Type", std::string(type)}, {"Connection", "close"}};
  head.framing = {http::BodyKind::Length, body.size()};
  wire.write(http::encode(head) + (with_body ? body : ""), kWriteStall);
}

}

MetricsServer::MetricsServer(std::string_view address, std::function<std::string()> metrics)
    : metrics_(std::move(metrics)), stop_(sys::event_fd()) {
  const Address at = parse_address(address);
  sockaddr_storage to{};
  const socklen_t length = fill(to, at);
  listener_ = sys::Fd(sys::check(
      ::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "opening a socket"));
  const int on = 1;
  sys::check(::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
             "setting SO_REUSEADDR");
  const std::string doing = "listening on " + printable(address, 80) + " (--metrics-listen)";
  sys::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&to), length), doing);
  sys::check(::listen(listener_.get(), 16), doing);
  port_ = bound_port(listener_.get());
  thread_ = std::thread([this] { run(); });
}

MetricsServer::~MetricsServer() {
  sys::signal_event(stop_.get());
  thread_.join();
}

void MetricsServer::run() noexcept {
  while (true) {
    std::array<pollfd, 2> entries{pollfd{listener_.get(), POLLIN, 0},
                                  pollfd{stop_.get(), POLLIN, 0}};
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    if (entries[1].revents != 0) return;
    if (entries[0].revents == 0) continue;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // Out of descriptors, for a moment one hopes; the pause keeps this from spinning.
      pollfd stop{stop_.get(), POLLIN, 0};
      if (errno == EMFILE || errno == ENFILE) ::poll(&stop, 1, 100);
      continue;
    }
    try {
      serve(sys::Fd(fd));
    } catch (const std::exception&) {
      // The connection failed; there is nobody left to tell.
    }
  }
}

void MetricsServer::serve(sys::Fd socket) {
  constexpr std::string_view kText = "text/plain; charset=utf-8";
  Wire wire(std::move(socket), stop_.get());
  http::RequestParser parser(0);
  const auto deadline = Clock::now() + kRequestTime;
  while (true) {
    ByteView input = wire.input();
    const http::Event event = parser.next(input);
    if (event.kind == http::EventKind::Bad)
      return answer(wire, http::fault_status(event.fault), kText, "malformed request\n", true);
    if (event.kind == http::EventKind::Head) {
      const http::RequestHead& head = parser.head();
      const bool get = head.method == "GET";
      const std::string path = head.target.substr(0, head.target.find('?'));
      if (!asks_for_loopback(parser.target()))
        return answer(wire, 403, kText, "ask for this host as localhost\n", true);
      if (!get && head.method != "HEAD") return answer(wire, 405, kText, "this takes GET\n", true);
      if (path != "/metrics") return answer(wire, 404, kText, "it is at /metrics\n", get);
      return answer(wire, 200, "text/plain; version=0.0.4; charset=utf-8", metrics_(), get);
    }
    wire.consumed_to(input);
    if (event.kind == http::EventKind::More && wire.read(deadline) != Wire::Got::Data) return;
  }
}

}
