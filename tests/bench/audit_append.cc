// How many records a second an audit log takes, on the file system of the folder given:
//   audit_append FOLDER
// One thread that records decisions one after another, as a sandbox's process does; in strict mode
// also sixteen that wait for the disk together.

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "mvm/audit/writer.h"
#include "mvm/sys/file.h"

using namespace mvm;
using namespace mvm::audit;

static Event decision() {
  Egress egress;
  egress.kind = Egress::Kind::Http;
  egress.flow = 7;
  egress.host = HostName("api.example.com");
  egress.address = IpAddress::parse("192.0.2.7");
  egress.port = 443;
  egress.method = Method("POST");
  egress.path = Path("/v1/chat/completions");
  egress.rule = RuleId("chat");
  return egress;
}

static void measure(const std::string& folder, const char* name, Sync sync, int threads,
                    int records) {
  sys::make_directories(folder);
  WriterOptions options;
  options.sync = sync;
  const crypto::SigningKey authority = crypto::SigningKey::generate();
  audit::Writer writer(
      open_log(folder, LogId("sb-bench"), authority, crypto::SigningKey::generate()), options,
      [](const auto& failure) {
        if (failure) std::fprintf(stderr, "%s\n", failure->why.c_str());
      });
  writer.start();
  const Event event = decision();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i)
    workers.emplace_back([&] {
      for (int at = 0; at < records; ++at)
        if (!writer.append(event)) return;
    });
  for (std::thread& each : workers) each.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double total = static_cast<double>(threads) * records;
  std::printf("%-24s %10.0f records/s  %8.1f us each\n", name, total / took.count(),
              took.count() * 1e6 / total);
  sys::remove_tree(folder);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: audit_append FOLDER\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/audit-bench";
  measure(folder, "normal", Sync::Normal, 1, 50'000);
  measure(folder, "strict, one caller", Sync::Strict, 1, 200);
  measure(folder, "strict, sixteen callers", Sync::Strict, 16, 100);
  return 0;
}
