// Who sits at the console: bytes both ways, one at a time, and nothing kept for who does not read.
#include "../../../src/monitor/console_client.h"

#include <array>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/socket.h"

namespace mvm::monitor {

using memory::GuestAddress;
using memory::GuestMemory;

class Nowhere : public virtio::ConsoleSink {
 public:
  void write(ByteView) noexcept override {}
};

class ConsoleClients : public testing::Test {
 protected:
  ConsoleClients() { client_.attach(slot_); }

  // Who sits there has the other end.
  sys::Fd sit() {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    client_.connect(std::move(theirs));
    return std::move(ours);
  }
  void turns() {
    for (int turn = 0; turn < 8; ++turn) loop_.run_once(std::chrono::milliseconds(0));
  }
  // The loop, once it has done what there was to do, sleeps: its next turn ends by a timer.
  bool rests() {
    turns();
    bool slept = false;
    const loop::Watch alarm =
        loop_.after(std::chrono::milliseconds(20), [&slept] { slept = true; });
    loop_.run_once(std::chrono::milliseconds(-1));
    return slept;
  }
  static std::string read(const sys::Fd& fd) {
    std::string text;
    std::array<char, 65536> buffer{};
    while (true) {
      const ssize_t got = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got <= 0) return text;
      text.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  static bool ended(const sys::Fd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  loop::Loop loop_;
  Nowhere nowhere_;
  GuestMemory memory_ = GuestMemory::create(1 << 20);
  virtio::Console console_{nowhere_};
  DeviceSlot slot_{memory_, console_, GuestAddress{0xd000'0000}, 5, [](uint32_t) {}};
  ConsoleClient client_{loop_, console_};
};

TEST_F(ConsoleClients, GetWhatIsPrintedWhileTheySitThere) {
  client_.write(as_bytes("before\n"));
  const sys::Fd seat = sit();
  client_.write(as_bytes("login: "));
  client_.write(as_bytes("again"));
  turns();
  EXPECT_EQ(read(seat), "login: again");
}

TEST_F(ConsoleClients, KeysWaitInTheSocketBeyondWhatTheDeviceTakes) {
  const sys::Fd seat = sit();
  const std::string keys(3 * virtio::Console::kInputCapacity, 'k');
  ASSERT_EQ(::send(seat.get(), keys.data(), keys.size(), MSG_DONTWAIT),
            static_cast<ssize_t>(keys.size()));
  turns();
  // No driver took any of them.
  EXPECT_EQ(console_.input_space(), 0U);
  EXPECT_TRUE(client_.connected());
  // And it is quiet meanwhile: nothing is ready that nobody wants.
  client_.write(as_bytes("still here"));
  turns();
  EXPECT_EQ(read(seat), "still here");
}

TEST_F(ConsoleClients, WhoComesLaterTakesThePlace) {
  const sys::Fd first = sit();
  const sys::Fd second = sit();
  client_.write(as_bytes("for the second"));
  turns();
  EXPECT_TRUE(ended(first));
  EXPECT_EQ(read(second), "for the second");
}

TEST_F(ConsoleClients, LeaveAndNobodyMissesThem) {
  sys::Fd seat = sit();
  seat.reset();
  turns();
  EXPECT_FALSE(client_.connected());
  client_.write(as_bytes("to nobody"));
  turns();
  const sys::Fd next = sit();
  turns();
  EXPECT_EQ(read(next), "");
}

TEST_F(ConsoleClients, WhoDoesNotReadLosesOutputAndIsTold) {
  const sys::Fd seat = sit();
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 100; ++i) {
    client_.write(as_bytes(block));
    turns();
  }
  std::string got;
  for (int i = 0; i < 20; ++i) {
    got += read(seat);
    turns();
  }
  EXPECT_LT(got.size(), 4U << 20);
  EXPECT_NE(got.find(" bytes are not shown here"), std::string::npos);
  client_.write(as_bytes("and on"));
  turns();
  EXPECT_EQ(read(seat), "and on");
}

// Keys that no driver takes, output that nobody reads, and then nobody there: nothing spins.
TEST_F(ConsoleClients, RestWhenNothingCanMove) {
  sys::Fd seat = sit();
  EXPECT_TRUE(rests()) << "nobody types";
  const std::string keys(3 * virtio::Console::kInputCapacity, 'k');
  ASSERT_GT(::send(seat.get(), keys.data(), keys.size(), MSG_DONTWAIT), 0);
  EXPECT_TRUE(rests()) << "a guest that does not read";
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 20; ++i) {
    client_.write(as_bytes(block));
    turns();
  }
  EXPECT_TRUE(rests()) << "neither reads";
  ASSERT_EQ(::shutdown(seat.get(), SHUT_WR), 0);
  EXPECT_TRUE(rests()) << "and the client has half closed";
  seat.reset();
  EXPECT_TRUE(rests()) << "and is gone";
  EXPECT_FALSE(client_.connected());
}

TEST_F(ConsoleClients, SetTheSize) {
  client_.resize({50, 132});
  EXPECT_EQ(console_.config()[0], std::byte{132});
  EXPECT_EQ(console_.config()[2], std::byte{50});
  client_.resize({});
  EXPECT_EQ(console_.config()[0], std::byte{132});
}

}
