// Figures on a loopback port, to nobody who comes by another name.

#include "mvm/api/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"

namespace mvm::api {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ask(uint16_t port, const std::string& request) {
  const sys::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return "refused";
  sys::write_all(fd.get(), as_bytes(request));
  std::string answer;
  Bytes piece(4096);
  while (const auto got = sys::read_some(fd.get(), piece)) {
    if (*got == 0) break;
    answer += as_text(ByteView(piece).first(*got));
  }
  return answer;
}

std::string get(const std::string& path, const std::string& host,
                const std::string& method = "GET") {
  return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

TEST(MetricsServer, AnswersOnLoopbackAlone) {
  const MetricsServer server("127.0.0.1:0", [] { return std::string("mvm_up 1\n"); });
  ASSERT_NE(server.port(), 0);
  const std::string port = std::to_string(server.port());
  EXPECT_THAT(ask(server.port(), get("/metrics", "127.0.0.1:" + port)),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("text/plain; version=0.0.4"),
                    HasSubstr("\r\n\r\nmvm_up 1\n")));
  EXPECT_THAT(ask(server.port(), get("/metrics", "localhost")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(server.port(), get("/metrics", "evil.example")), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(server.port(), get("/", "localhost")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(server.port(), get("/metrics", "localhost", "DELETE")),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask(server.port(), "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  // It goes on after all that.
  EXPECT_THAT(ask(server.port(), get("/metrics", "[::1]")), StartsWith("HTTP/1.1 200"));
}

TEST(MetricsServer, TakesNoOtherAddress) {
  for (const char* address : {"0.0.0.0:9464", "192.168.1.1:9464", "[::]:9464", "localhost:9464",
                              "127.0.0.1", "127.0.0.1:66000", ""})
    EXPECT_THROW(MetricsServer(address, [] { return std::string(); }), Error) << address;
}

}
}
