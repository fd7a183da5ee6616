// What TLS costs here: a client and a server engine in one process, no socket between them, so each
// figure is the work of both ends.
//   tls_engine [SECONDS_A_FIGURE]

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include <malloc.h>

#include "mvm/crypto/tls.h"

using namespace mvm;
using namespace mvm::crypto;

namespace {

struct Link {
  Link(TlsServerContext& server_context, TlsClientContext& client_context, const TlsPeer& peer)
      : server(server_context), client(client_context, peer) {}

  // Carries what one end has for the other; returns the plaintext that came out.
  size_t carry(TlsEngine& from, TlsEngine& to, std::span<std::byte> plain) {
    size_t total = 0;
    ByteView input = from.output();
    const size_t length = input.size();
    while (const size_t got = to.read(input, plain)) total += got;
    from.sent(length - input.size());
    return total;
  }
  void open(const std::shared_ptr<const Leaf>& leaf, std::span<std::byte> plain) {
    carry(client, server, plain);
    server.accept(leaf, "");
    for (int round = 0; round < 2; ++round) {
      carry(server, client, plain);
      carry(client, server, plain);
    }
    if (client.phase() != TlsPhase::Open || server.phase() != TlsPhase::Open) {
      std::fprintf(stderr, "no handshake: %s\n", client.failure().text.c_str());
      std::exit(1);
    }
  }

  TlsEngine server;
  TlsEngine client;
};

// Seconds of processor time, so that what else runs on the machine does not count.
double cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Calls `once` for about that long; returns calls a second.
template <typename Once>
double rate(double seconds, Once&& once) {
  const double start = cpu_time();
  double passed = 0;
  size_t count = 0;
  do {
    once();
    ++count;
    passed = cpu_time() - start;
  } while (passed < seconds);
  return static_cast<double>(count) / passed;
}

}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const Time now = std::chrono::system_clock::now();
  CertificateAuthority authority("bench", {.names = {"example.com"}}, now);
  const auto trust = TrustStore::from_pem(authority.root_pem(), "root");
  TlsServerContext server;
  TlsClientContext client(trust);
  const auto leaf = authority.leaf("example.com", now);
  std::vector<std::byte> plain(256 * 1024);

  size_t number = 0;
  std::printf("leaf certificates/s          %10.0f\n", rate(seconds, [&] {
                authority.leaf("h" + std::to_string(number++) + ".example.com", now);
              }));
  std::printf("authorities/s                %10.0f\n", rate(seconds, [&] {
                const CertificateAuthority one("bench", {.names = {"example.com"}}, now);
              }));
  // Another port each time, so that nothing is resumed.
  uint16_t port = 0;
  std::printf("full handshakes/s, both ends %10.0f\n", rate(seconds, [&] {
                Link link(server, client, {.host = "example.com", .port = ++port});
                link.open(leaf, plain);
              }));
  std::printf("resumed handshakes/s         %10.0f\n", rate(seconds, [&] {
                Link link(server, client, {.host = "example.com"});
                link.open(leaf, plain);
              }));

  Link link(server, client, {.host = "example.com"});
  link.open(leaf, plain);
  for (const size_t size : {size_t{1024}, size_t{16 * 1024}, size_t{128 * 1024}}) {
    const std::vector<std::byte> data(size);
    const double calls = rate(seconds, [&] {
      ByteView rest = data;
      while (!rest.empty()) {
        link.server.write(rest);
        link.carry(link.server, link.client, plain);
      }
    });
    std::printf("MB/s in pieces of %3zu KiB     %10.0f\n", size / 1024,
                calls * static_cast<double>(size) / 1e6);
  }

  constexpr size_t kIdle = 1000;
  std::vector<std::unique_ptr<Link>> idle;
  const size_t before = mallinfo2().uordblks;
  for (size_t at = 0; at < kIdle; ++at) {
    idle.push_back(std::make_unique<Link>(server, client, TlsPeer{.host = "example.com"}));
    idle.back()->open(leaf, plain);
  }
  const size_t both = mallinfo2().uordblks - before;
  std::printf("bytes an idle pair           %10zu\n", both / kIdle);
}
