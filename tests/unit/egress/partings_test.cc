#include "../../../src/egress/partings.h"

#include <array>

#include <netinet/in.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using Time = loop::Clock::time_point;

// Connections over loopback whose far ends read nothing.
class PartingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int small = 4096;
    listener_ = sys::Fd(sys::check(::socket(AF_INET, SOCK_STREAM, 0), "a socket"));
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sys::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), "binding");
    sys::check(::listen(listener_.get(), 16), "listening");
  }
  // Ours, with much that the other has not taken when `owing`.
  sys::Fd connection(bool owing) {
    sockaddr_in to{};
    socklen_t length = sizeof to;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&to), &length);
    sys::Fd ours(sys::check(::socket(AF_INET, SOCK_STREAM, 0), "a socket"));
    const int small = 4096;
    ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    sys::check(::connect(ours.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), "connecting");
    far_.emplace_back(sys::check(::accept(listener_.get(), nullptr, nullptr), "accepting"));
    const std::vector<char> much(64 * 1024);
    while (owing && ::send(ours.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
    ::shutdown(ours.get(), SHUT_WR);
    return ours;
  }
  // What the far end of the first sees when it reads on.
  bool first_was_reset() {
    std::array<char, 4096> some{};
    ssize_t got = 0;
    while ((got = ::recv(far_.front().get(), some.data(), some.size(), MSG_DONTWAIT)) > 0) {
    }
    return got < 0 && errno == ECONNRESET;
  }

  sys::Fd listener_;
  std::vector<sys::Fd> far_;
  Partings partings_;
  Time now_{};
};

TEST_F(PartingsTest, KeepsThoseAloneThatOweSomething) {
  partings_.take(sys::Fd(), now_);
  partings_.take(connection(false), now_);
  EXPECT_EQ(partings_.size(), 0U);
  partings_.take(connection(true), now_);
  EXPECT_EQ(partings_.size(), 1U);
  EXPECT_GT(partings_.settle(now_), 4096U);
}

TEST_F(PartingsTest, WaitsAMinuteForAPeerThatTakesNothing) {
  partings_.take(connection(true), now_);
  partings_.settle(now_ + 60s);
  EXPECT_EQ(partings_.size(), 1U);
  EXPECT_EQ(partings_.settle(now_ + 61s), 0U);
  EXPECT_EQ(partings_.size(), 0U);
  EXPECT_TRUE(first_was_reset());
}

TEST_F(PartingsTest, HasAnEndOfOneThatIsGone) {
  partings_.take(connection(true), now_);
  far_.clear();  // with unread bytes: by a reset
  EXPECT_EQ(partings_.settle(now_), 0U);
  EXPECT_EQ(partings_.size(), 0U);
}

TEST_F(PartingsTest, AreNotMoreThanSoMany) {
  for (size_t i = 0; i < Partings::kMax; ++i) partings_.take(connection(true), now_);
  EXPECT_EQ(partings_.size(), Partings::kMax);
  partings_.take(connection(true), now_);
  EXPECT_EQ(partings_.size(), Partings::kMax);
  EXPECT_TRUE(first_was_reset());
}

}
}
