// Speed of the egress proxy's relay against the plainest one there is: a loop around splice(2) that
// does nothing else. Both carry the same bytes between the same two threads over loopback, in
// turns.
//
//   egress_relay ROUNDS MEBIBYTES
//
// Prints a line a round: how many times as fast as the plain one ours was.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "../../src/egress/relay.h"
#include "../../src/egress/sockets.h"

namespace mvm::egress {
namespace {

constexpr size_t kPiece = 256 * 1024;

struct Pair {
  sys::Fd near;
  sys::Fd far;
};

Pair connected_pair() {
  const sys::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* name = reinterpret_cast<sockaddr*>(&address);
  sys::check(::bind(listener.get(), name, length), "binding");
  sys::check(::listen(listener.get(), 1), "listening");
  sys::check(::getsockname(listener.get(), name, &length), "naming");
  Pair pair;
  pair.near = sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sys::check(::connect(pair.near.get(), name, length), "connecting");
  pair.far =
      sys::Fd(sys::check(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  sys::set_nonblocking(pair.far.get());
  return pair;
}

void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  ::poll(&entry, 1, -1);
}

void plain_relay(const sys::Fd& from, sys::Fd to) {
  std::array<int, 2> pipe{};
  sys::check(::pipe2(pipe.data(), O_NONBLOCK | O_CLOEXEC), "pipe");
  ::fcntl(pipe[1], F_SETPIPE_SZ, PipePool::kCapacity);
  constexpr unsigned kFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
  while (true) {
    ssize_t got = ::splice(from.get(), nullptr, pipe[1], nullptr, PipePool::kCapacity, kFlags);
    if (got == 0) break;
    if (got < 0) wait_for(from.get(), POLLIN);
    while (got > 0) {
      const ssize_t put =
          ::splice(pipe[0], nullptr, to.get(), nullptr, static_cast<size_t>(got), kFlags);
      if (put < 0) wait_for(to.get(), POLLOUT);
      if (put > 0) got -= put;
    }
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

void our_relay(sys::Fd from, sys::Fd to) {
  loop::Loop loop;
  PipePool pipes;
  Counters counters;
  Meter meter({}, counters);
  Relay relay({loop, pipes, meter}, std::move(from), std::move(to),
              [&](Relay::End) { loop.stop(); });
  relay.start();
  loop.run();
}

// Bytes a second.
double measure(bool ours, size_t bytes) {
  Pair source = connected_pair();
  Pair sink = connected_pair();
  const auto begin = std::chrono::steady_clock::now();
  std::thread writer([&] {
    const std::vector<std::byte> piece(kPiece);
    for (size_t sent = 0; sent < bytes; sent += kPiece) sys::write_all(source.near.get(), piece);
    ::shutdown(source.near.get(), SHUT_WR);
    std::byte end{};
    // The other direction ends when the sink has closed.
    static_cast<void>(!::read(source.near.get(), &end, 1));
  });
  std::thread reader([&] {
    std::vector<std::byte> piece(kPiece);
    while (::read(sink.near.get(), piece.data(), piece.size()) > 0) {
    }
    sink.near.reset();
  });
  if (ours) {
    our_relay(std::move(source.far), std::move(sink.far));
  } else {
    plain_relay(source.far, std::move(sink.far));
    source.far.reset();
  }
  writer.join();
  reader.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(bytes) / took.count();
}

}
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: egress_relay ROUNDS MEBIBYTES\n", stderr);
    return 2;
  }
  const size_t bytes = std::strtoull(argv[2], nullptr, 10) << 20;
  for (long round = std::strtol(argv[1], nullptr, 10); round > 0; --round) {
    const double plain = mvm::egress::measure(false, bytes);
    const double ours = mvm::egress::measure(true, bytes);
    std::printf("%.3f\n", ours / plain);
    std::fprintf(stderr, "plain %.2f Gbit/s, ours %.2f\n", plain * 8e-9, ours * 8e-9);
  }
}
