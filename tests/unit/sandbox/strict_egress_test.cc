// With audit.sync = "strict" what the proxy does is on the disk before anybody can see it: the
// order of the system calls of a real proxy, with a real log, between real programs. A record that
// is written behind the act, or is not synced before it, fails here.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "mvm/audit/writer.h"
#include "mvm/base/text.h"
#include "mvm/privacy/filter.h"

#include "../../../src/sandbox/pii.h"
#include "../../../src/sandbox/secrets.h"
#include "../audit/sample.h"
#include "../egress/rig.h"

namespace mvm::sandbox {
namespace {

// What was done, in order: "record http deny secret_misuse", "sync", "connect", "send GET /x
// HTTP/1.1", "answer HTTP/1.1 403 Forbidden", "dns".
struct Trace {
  std::mutex mutex;
  std::vector<std::string> steps;
  bool on = false;
  std::atomic<bool> disk_fails = false;
  std::atomic<int> interruptions = 0;  // of the next calls of fdatasync()

  void add(std::string step) {
    const std::lock_guard lock(mutex);
    if (on) steps.push_back(std::move(step));
  }
};
Trace trace;

std::string_view field(std::string_view line, std::string_view key) {
  const std::string begin = "\"" + std::string(key) + "\":\"";
  const size_t at = line.find(begin);
  if (at == line.npos) return "";
  const std::string_view rest = line.substr(at + begin.size());
  return rest.substr(0, rest.find('"'));
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\r')));
}

}
}

using mvm::sandbox::trace;

// The names are the linker's (CMakeLists.txt): __wrap_X stands for X, and __real_X is what X was.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  const std::string_view text(static_cast<const char*>(data), size);
  const ssize_t done = __real_write(fd, data, size);
  if (text.starts_with(R"({"v":1,)")) {
    std::string step = "record " + std::string(mvm::sandbox::field(text, "kind"));
    for (const char* key : {"outcome", "reason"})
      if (const auto word = mvm::sandbox::field(text, key); !word.empty())
        step += " " + std::string(word);
    trace.add(std::move(step));
  }
  return done;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
  if (trace.disk_fails) {
    errno = EIO;
    return -1;
  }
  if (trace.interruptions > 0) {
    --trace.interruptions;
    errno = EINTR;
    return -1;
  }
  const int done = __real_fdatasync(fd);
  trace.add("sync");
  return done;
}

int __real_connect(int fd, const sockaddr* address, socklen_t length);
int __wrap_connect(int fd, const sockaddr* address, socklen_t length) {
  if (address->sa_family == AF_INET) {
    sockaddr_in to{};
    std::copy_n(reinterpret_cast<const char*>(address), sizeof to, reinterpret_cast<char*>(&to));
    if (ntohs(to.sin_port) != 53) trace.add("connect");
  }
  return __real_connect(fd, address, length);
}

ssize_t __real_send(int fd, const void* data, size_t size, int flags);
ssize_t __wrap_send(int fd, const void* data, size_t size, int flags) {
  const std::string_view text(static_cast<const char*>(data), size);
  if (text.starts_with("HTTP/1.1 ")) trace.add("answer " + mvm::sandbox::first_line(text));
  if (text.starts_with("GET ") || text.starts_with("POST "))
    trace.add("send " + mvm::sandbox::first_line(text) +
              (text.find("sk-real") != text.npos ? " with the value" : ""));
  return __real_send(fd, data, size, flags);
}

ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_name != nullptr) trace.add("dns");
  return __real_sendmsg(fd, message, flags);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace mvm::sandbox {
namespace {

using guard::SecretNotice;
using guard::SecretSource;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kValue = "sk-real-value-0123456789";

class StrictEgress : public egress::EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    proto::SecretsConfig secrets;
    secrets.rules.resize(1);
    secrets.rules[0].name = "KEY";
    secrets.rules[0].hosts = {"api.example"};
    secrets.rules[0].plaintext = true;  // so that the value can be seen in what is sent
    secrets.values = {{"KEY", kValue}};
    secrets_ = std::make_shared<const secret::Secrets>(secrets);
    audit::WriterOptions options;
    options.sync = audit::Sync::Strict;
    sys::make_directories(directory() + "/log");
    writer_ = std::make_unique<audit::Writer>(audit::session_in(directory() + "/log"), options,
                                              [](const auto&) {});
    writer_->start();
    sink_ = [this](const egress::Event& event) { return record(audit::egress_record(event)); };
    proto::NetworkConfig network;
    network.pii.mode = "refuse";
    settings_.filters = {
        pii_source(network, [this](const privacy::Note& note) { record(pii_record(note)); }),
        std::make_shared<SecretSource>(secrets_,
                                       SecretSource::Watcher{[this](const SecretNotice& notice) {
                                                               return record(secret_record(notice));
                                                             },
                                                             [](const SecretNotice&) {}})};
    settings_.refusals = egress::Refusals::Each;
    allow_host("api.example");
    settings_.policy.inspect = pii_inspection(network);
    server_ = &serve({"python3", "-u", "-m", "http.server", "--bind", kPublic, "80"},
                     {egress::ip(kPublic), 80});
    start_proxy();
    trace.steps.clear();
    trace.on = true;
  }
  void TearDown() override {
    trace.on = trace.disk_fails = false;
    EgressTest::TearDown();
    writer_.reset();
  }
  bool record(const audit::Event& event) { return writer_->append(event).has_value(); }
  std::string key() const { return secrets_->all()[0].placeholder; }
  std::string curl(const std::string& path, std::vector<std::string> words = {}) {
    std::vector<std::string> argv{"curl", "-sS", "-i", "-m", "20", "http://api.example" + path};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  // Whether `act` was done, only behind `record`, and with nothing that was not on the disk.
  static ::testing::AssertionResult is_behind(const std::string& act, const std::string& record) {
    const std::lock_guard lock(trace.mutex);
    std::string all;
    for (const std::string& step : trace.steps) all += "\n  " + step;
    bool told = false;
    bool on_disk = true;
    bool done = false;
    for (const std::string& step : trace.steps) {
      if (step.starts_with("record ")) on_disk = false;
      if (step == "record " + record) told = true;
      if (step == "sync") on_disk = true;
      if (!step.starts_with(act)) continue;
      done = true;
      if (!told || !on_disk)
        return ::testing::AssertionFailure() << "\"" << step << "\" is before its record is "
                                             << (told ? "on the disk" : "written") << all;
    }
    if (!done) return ::testing::AssertionFailure() << "no \"" << act << "\"" << all;
    return ::testing::AssertionSuccess();
  }

  std::shared_ptr<const secret::Secrets> secrets_;
  std::unique_ptr<audit::Writer> writer_;
  egress::Program* server_ = nullptr;
};

TEST_F(StrictEgress, WhatIsAdmittedIsOnTheDiskBeforeItHappens) {
  EXPECT_THAT(curl("/"), HasSubstr("200 OK"));
  EXPECT_TRUE(is_behind("dns", "dns allow allowed"));
  EXPECT_TRUE(is_behind("connect", "http allow allowed"));
  EXPECT_TRUE(is_behind("send GET / ", "http allow allowed"));
}

TEST_F(StrictEgress, ASecretsUseIsOnTheDiskBeforeItsValueLeaves) {
  EXPECT_THAT(curl("/", {"-H", "Authorization: Bearer " + key()}), HasSubstr("200 OK"));
  EXPECT_TRUE(is_behind("send GET / HTTP/1.1 with the value", "secret_used"));
  EXPECT_TRUE(is_behind("send GET / HTTP/1.1 with the value", "http allow allowed"));
}

TEST_F(StrictEgress, ADenialIsOnTheDiskBeforeTheGuestHearsOfIt) {
  const auto refused = [&](const std::string& record, const std::string& reason,
                           std::vector<std::string> words) {
    trace.steps.clear();
    EXPECT_THAT(curl("/x", std::move(words)), AllOf(HasSubstr("403"), HasSubstr(reason)));
    EXPECT_TRUE(is_behind("answer HTTP/1.1 403", "http deny " + reason));
    if (!record.empty()) {
      EXPECT_TRUE(is_behind("answer HTTP/1.1 403", record));
    }
    EXPECT_TRUE(std::ranges::none_of(trace.steps, [](const std::string& step) {
      return step.starts_with("send ") || step == "connect";
    })) << reason;
  };
  // So that none of them has a first connection to make.
  ASSERT_THAT(curl("/"), HasSubstr("200 OK"));
  refused("", "authority_mismatch", {"-H", "Host: other.example"});
  refused("secret_misused", "secret_misuse", {"-H", "X-Request-Id: " + key()});
  refused("secret_leaked", "secret_leak", {"-H", std::string("X-Note: ") + kValue});
  refused("pii_denied", "personal_data", {"-d", "mail=jane.doe@example.com"});
  refused("pii_undecodable", "unreadable", {"-H", "Content-Type: image/png", "-d", "x"});
}

// However many equal ones there are within a second.
TEST_F(StrictEgress, EachOfEqualDenialsIsOnTheDiskBeforeTheGuestHearsOfIt) {
  ASSERT_THAT(curl("/"), HasSubstr("200 OK"));
  trace.steps.clear();
  const std::string url = "http://api.example/x";
  const std::string answers = curl("/x", {url, url, url, "-H", "Host: other.example"});
  const auto count = [](std::string_view text, std::string_view part) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
    return found;
  };
  EXPECT_EQ(count(answers, "HTTP/1.1 403"), 4U);
  const std::lock_guard lock(trace.mutex);
  size_t on_disk = 0;
  size_t written = 0;
  size_t answered = 0;
  for (const std::string& step : trace.steps) {
    if (step == "record http deny authority_mismatch") ++written;
    if (step == "sync") on_disk = written;
    if (step.starts_with("answer HTTP/1.1 403")) {
      ++answered;
      EXPECT_EQ(on_disk, answered);
    }
  }
  EXPECT_EQ(answered, 4U);
}

TEST_F(StrictEgress, ARefusedNameIsOnTheDiskBeforeTheGuestHearsOfIt) {
  const auto exit = guest({"curl", "-sS", "-m", "20", "http://elsewhere.example/"});
  EXPECT_THAT(exit.err, HasSubstr("not resolve"));
  EXPECT_TRUE(is_behind("dns", "dns deny policy_denied"));
}

// On a file system over the network or in user space a signal may do that.
TEST_F(StrictEgress, AnInterruptedSyncIsMadeAgain) {
  trace.interruptions = 3;
  EXPECT_THAT(curl("/"), HasSubstr("200 OK"));
  EXPECT_EQ(trace.interruptions, 0);
  EXPECT_TRUE(is_behind("send GET / ", "http allow allowed"));
}

TEST_F(StrictEgress, WhereTheDiskFailsNothingLeaves) {
  ASSERT_THAT(curl("/"), HasSubstr("200 OK"));
  trace.disk_fails = true;
  trace.steps.clear();
  // Its address is known to the client, so that it gets to the request, or to its connection.
  const auto exit =
      guest({"curl", "-sS", "-i", "-m", "20", "--resolve", std::string("api.example:80:") + kPublic,
             "-H", "Authorization: Bearer " + key(), "http://api.example/again"});
  EXPECT_THAT(exit.out + exit.err, Not(HasSubstr("200 OK")));
  EXPECT_THAT(exit.out + exit.err, ::testing::AnyOf(HasSubstr("not_recorded"), HasSubstr("reset")));
  EXPECT_TRUE(std::ranges::none_of(trace.steps, [](const std::string& step) {
    return step.starts_with("send ") || step == "connect";
  }));
  EXPECT_EQ(server_->exit().err.find("/again"), std::string::npos);
}

}
}
