// `mvm mcp`, the program itself, and the client that others use, which is one of those that
// tests/clients/prepare fetches.
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "mvm/store/paths.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"

#include "native_sandbox.h"

namespace mvm::mcp {

static std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

static std::string client() {
  std::string out;
  FILE* const pipe = ::popen(MVM_TESTS "/clients/prepare --have", "r");  // NOLINT: no other's words
  if (pipe == nullptr) return out;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF && c != '\n';) out += static_cast<char>(c);
  return ::pclose(pipe) == 0 ? out + "/@modelcontextprotocol/sdk" : "";
}

TEST(Sdk, ClientUsesASandbox) {
  const std::string sdk = client();
  if (sdk.empty() || !sys::exists("/usr/bin/node"))
    GTEST_SKIP() << "not here: what tests/clients/prepare fetches";
  const sys::TempDir dir;
  const store::Paths paths(dir.path() + "/run", dir.path() + "/data");
  paths.ensure_runtime();
  const std::string socket = paths.control_socket("web");
  sys::make_directories(socket.substr(0, socket.rfind('/')));
  const NativeSandbox sandbox(socket);
  sys::make_directories(dir.path() + "/work");
  const sys::Fd out = sys::memory_file("out", 0);
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
  sys::SpawnOptions options;
  options.argv = {"/usr/bin/node",     MVM_TESTS "/unit/mcp/client.mjs", sdk, MVM_PROGRAM, "web",
                  dir.path() + "/work"};
  options.env = {"PATH=/usr/bin:/bin", "MVM_RUNTIME_DIR=" + dir.path() + "/run",
                 "MVM_DATA_DIR=" + dir.path() + "/data"};
  // A sanitizer's own, where there are some.
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const std::string value = variable(name); !value.empty())
      options.env.push_back(std::string(name) + "=" + value);
  options.fds = {{nothing.get(), 0}, {out.get(), 1}, {out.get(), 2}};
  options.die_with_parent = true;
  const auto status = sys::spawn(options).wait(std::chrono::minutes(2));
  std::string text(sys::file_size(out.get()), '\0');
  sys::pread_exact(out.get(), std::as_writable_bytes(std::span(text)), 0);
  EXPECT_EQ(status, sys::ExitStatus{}) << text;
}

}
