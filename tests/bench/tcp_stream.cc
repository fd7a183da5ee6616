// One TCP stream from a guest to a server beyond its network, timed: the same program at both ends
// whatever the virtual machine, so that two of them can be compared.
//
//   tcp_stream serve ADDRESS PORT                beyond; says "ready"
//   tcp_stream ADDRESS PORT up|down BYTES        in the guest; prints milliseconds
//
// The clock starts when the connection stands, and ends when the last byte has come: upward, when
// the server says that it has.
#include <chrono>
#include <cstdio>
#include <span>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/io.h"

#include "bulk.h"

namespace mvm {

using Stream = Bulk<128 << 10>;

struct Order {
  uint64_t up;
  uint64_t bytes;
};

static sockaddr_in address_of(const std::string& address, uint64_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(port));
  if (port == 0 || port > UINT16_MAX || ::inet_pton(AF_INET, address.c_str(), &out.sin_addr) != 1)
    throw Error(Kind::Invalid, "not an IPv4 address and port: " + address);
  return out;
}

static sys::Fd tcp_socket() {
  return sys::Fd(sys::check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "making a socket"));
}

static void answer(int fd) {
  Order order{};
  if (!sys::read_exact(fd, std::as_writable_bytes(std::span(&order, 1)))) return;
  if (order.up != 0) Stream::receive(fd, order.bytes);
  Stream::send(fd, order.up != 0 ? 1 : order.bytes);
}

static int serve(const sockaddr_in& address) {
  const sys::Fd listener = tcp_socket();
  const int yes = 1;
  sys::check(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "reusing");
  sys::check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
             "binding");
  sys::check(::listen(listener.get(), 16), "listening");
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    const sys::Fd stream(sys::check(::accept(listener.get(), nullptr, nullptr), "accepting"));
    try {
      answer(stream.get());
    } catch (const Error& error) {
      std::fprintf(stderr, "tcp_stream: %s\n", error.what());
    }
  }
}

static double measure(const sockaddr_in& address, Order order) {
  const sys::Fd fd = tcp_socket();
  sys::check(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
             "connecting");
  const auto start = std::chrono::steady_clock::now();
  sys::write_all(fd.get(), std::as_bytes(std::span(&order, 1)));
  if (order.up != 0) Stream::send(fd.get(), order.bytes);
  Stream::receive(fd.get(), order.up != 0 ? 1 : order.bytes);
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::milli>(end - start).count();
}

static int run(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const bool serves = words.size() == 3 && words[0] == "serve";
  const auto port = words.size() < 3 ? std::nullopt : parse_u64(words[serves ? 2 : 1]);
  if (serves && port) return serve(address_of(words[1], *port));
  const auto bytes = words.size() == 4 ? parse_u64(words[3]) : std::nullopt;
  if (!port || !bytes || (words[2] != "up" && words[2] != "down")) {
    std::fprintf(stderr, "usage: tcp_stream serve ADDRESS PORT | ADDRESS PORT up|down BYTES\n");
    return 2;
  }
  std::printf("%.3f\n", measure(address_of(words[0], *port), {words[2] == "up", *bytes}));
  return 0;
}

}

int main(int argc, char** argv) {
  try {
    return mvm::run(std::span(argv, static_cast<size_t>(argc)));
  } catch (const mvm::Error& error) {
    std::fprintf(stderr, "tcp_stream: %s\n", error.what());
    return 1;
  }
}
