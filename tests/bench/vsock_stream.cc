// One vsock stream between a guest and its host, timed: the same program at both ends whatever the
// virtual machine, so that two of them can be compared.
//
//   vsock_stream serve                                  in the guest; also when it is process 1
//   vsock_stream ADDRESS to-guest|to-host|rtt BYTES     on the host; prints milliseconds
//
// ADDRESS is vsock:CID (the kernel's vhost), or unix:PATH, a socket that takes "CONNECT <port>\n".
// rtt sends 64 bytes at a time and waits for their echo, BYTES in all. The clock starts when the
// connection stands. Connecting is tried for a while: the guest may still be booting.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "bulk.h"

namespace mvm {

static constexpr uint32_t kPort = 7000;
using Stream = Bulk<64 << 10>;
static constexpr size_t kEcho = 64;
static constexpr std::chrono::seconds kConnectTime{60};

enum class Mode : uint64_t { ToGuest, ToHost, RoundTrips };
struct Order {
  Mode mode;
  uint64_t bytes;
};

// ---- in the guest -------------------------------------------------------------------------------

static void answer(int fd) {
  Order order{};
  if (!sys::read_exact(fd, std::as_writable_bytes(std::span(&order, 1)))) return;
  switch (order.mode) {
    case Mode::ToGuest:
      Stream::receive(fd, order.bytes);
      return Stream::send(fd, 1);
    case Mode::ToHost:
      return Stream::send(fd, order.bytes);
    case Mode::RoundTrips: {
      const auto message = Stream::buffer().first(kEcho);
      while (sys::read_exact(fd, message)) sys::write_all(fd, message);
      return;
    }
  }
}

static sys::Fd vsock_socket() {
  return sys::Fd(
      sys::check(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0), "making a vsock socket"));
}

static sockaddr_vm vsock_address(uint32_t cid) {
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = cid;
  address.svm_port = kPort;
  return address;
}

static int serve() {
  const sys::Fd listener = vsock_socket();
  const sockaddr_vm address = vsock_address(VMADDR_CID_ANY);
  sys::check(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
             "binding");
  sys::check(::listen(listener.get(), 16), "listening");
  while (true) {
    const sys::Fd stream(sys::check(::accept(listener.get(), nullptr, nullptr), "accepting"));
    try {
      answer(stream.get());
    } catch (const Error& error) {
      std::fprintf(stderr, "vsock_stream: %s\n", error.what());
    }
  }
}

// ---- on the host --------------------------------------------------------------------------------

static std::optional<sys::Fd> connect_vsock(uint32_t cid) {
  sys::Fd fd = vsock_socket();
  const sockaddr_vm address = vsock_address(cid);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::nullopt;
  return fd;
}

static std::optional<sys::Fd> connect_bridge(const std::string& path) {
  auto fd = sys::connect_unix(path, sys::Blocking::Yes);
  if (!fd) return std::nullopt;
  sys::write_all(fd->get(), as_bytes("CONNECT " + std::to_string(kPort) + "\n"));
  std::byte last{};
  while (last != std::byte{'\n'})
    if (!sys::read_exact(fd->get(), std::span(&last, 1))) return std::nullopt;
  return fd;
}

static sys::Fd connect(const std::string& address) {
  const auto end = std::chrono::steady_clock::now() + kConnectTime;
  const auto cid = address.starts_with("vsock:") ? parse_u64(address.substr(6)) : std::nullopt;
  if (!cid && !address.starts_with("unix:"))
    throw Error(Kind::Invalid, "not an address: " + address);
  while (true) {
    auto fd = cid ? connect_vsock(static_cast<uint32_t>(*cid)) : connect_bridge(address.substr(5));
    if (fd) return std::move(*fd);
    if (std::chrono::steady_clock::now() > end)
      throw Error(Kind::Timeout, "nobody answers at " + address);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

static double measure(const std::string& address, Order order) {
  const sys::Fd fd = connect(address);
  const auto start = std::chrono::steady_clock::now();
  sys::write_all(fd.get(), std::as_bytes(std::span(&order, 1)));
  switch (order.mode) {
    case Mode::ToGuest:
      Stream::send(fd.get(), order.bytes);
      Stream::receive(fd.get(), 1);
      break;
    case Mode::ToHost:
      Stream::receive(fd.get(), order.bytes);
      break;
    case Mode::RoundTrips:
      for (uint64_t done = 0; done < order.bytes; done += kEcho) {
        Stream::send(fd.get(), kEcho);
        Stream::receive(fd.get(), kEcho);
      }
      break;
  }
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::milli>(end - start).count();
}

static int run(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (::getpid() == 1 || (words.size() == 1 && words[0] == "serve")) return serve();
  const auto bytes = words.size() == 3 ? parse_u64(words[2]) : std::nullopt;
  const auto mode = words.size() != 3        ? std::nullopt
                    : words[1] == "to-guest" ? std::optional(Mode::ToGuest)
                    : words[1] == "to-host"  ? std::optional(Mode::ToHost)
                    : words[1] == "rtt"      ? std::optional(Mode::RoundTrips)
                                             : std::nullopt;
  if (!bytes || !mode) {
    std::fprintf(stderr, "usage: vsock_stream serve | ADDRESS to-guest|to-host|rtt BYTES\n");
    return 2;
  }
  std::printf("%.3f\n", measure(words[0], {*mode, *bytes}));
  return 0;
}

}

int main(int argc, char** argv) {
  try {
    return mvm::run(std::span(argv, static_cast<size_t>(argc)));
  } catch (const mvm::Error& error) {
    std::fprintf(stderr, "vsock_stream: %s\n", error.what());
    return 1;
  }
}
