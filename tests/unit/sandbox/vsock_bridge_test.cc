// The line by which a host program asks for a port of the guest, over real sockets.
#include "../../../src/sandbox/vsock_bridge.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "mvm/base/bytes.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

class VsockBridgeTest : public testing::Test {
 protected:
  sys::Fd dial() {
    auto fd = sys::connect_unix(path_, sys::Blocking::No);
    return fd ? std::move(*fd) : sys::Fd();
  }

  void say(const sys::Fd& fd, std::string_view text) {
    ASSERT_EQ(sys::send_some(fd.get(), as_bytes(text)), text.size());
  }

  // Turns the loop until the bridge has closed the connection; false when it has not after all.
  bool closed(const sys::Fd& fd) {
    std::array<std::byte, 1> byte;
    for (int turn = 0; turn < 500; ++turn) {
      loop_.run_once(std::chrono::milliseconds(1));
      try {
        if (sys::read_some(fd.get(), byte) == 0U) return true;
      } catch (const SystemError&) {
        return true;  // reset: what it said was not read
      }
    }
    return false;
  }

  // The next one that is handed on.
  std::pair<sys::Fd, uint32_t> next() {
    for (int turn = 0; turn < 500 && connected_.empty(); ++turn)
      loop_.run_once(std::chrono::milliseconds(10));
    if (connected_.empty()) {
      ADD_FAILURE() << "nothing was handed on";
      return {};
    }
    auto first = std::move(connected_.front());
    connected_.erase(connected_.begin());
    return first;
  }

  sys::TempDir directory_;
  std::string path_ = directory_.path() + "/vsock.sock";
  loop::Loop loop_;
  std::vector<std::pair<sys::Fd, uint32_t>> connected_;
  VsockBridge bridge_{
      loop_, sys::listen_unix(path_), sys::open_file(directory_.path(), O_DIRECTORY),
      [this](sys::Fd fd, uint32_t port) { connected_.emplace_back(std::move(fd), port); }};
};

TEST_F(VsockBridgeTest, HandsOnWhatAskedForAPortWithEveryByteBehindTheLine) {
  const sys::Fd caller = dial();
  say(caller, "CONNECT 4294967295\nfor the guest\n");
  const auto [stream, port] = next();
  EXPECT_EQ(port, 4294967295U);
  std::array<std::byte, 64> got;
  const auto length = sys::read_some(stream.get(), got);
  ASSERT_TRUE(length);
  EXPECT_EQ(as_text(ByteView(got).first(*length)), "for the guest\n");
}

TEST_F(VsockBridgeTest, ALineMayComeInPieces) {
  const sys::Fd caller = dial();
  for (const std::string_view piece : {"CON", "NECT", " 10", "24", "\n"}) {
    EXPECT_TRUE(connected_.empty());
    say(caller, piece);
    for (int turn = 0; turn < 3; ++turn) loop_.run_once(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(next().second, 1024U);
}

TEST_F(VsockBridgeTest, WhateverElseIsSaidEndsTheConnection) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view line :
       {"CONNECT \n"sv, "CONNECT 0\n"sv, "CONNECT -1\n"sv, "CONNECT +5\n"sv,
        "CONNECT 4294967296\n"sv, "CONNECT 18446744073709551617\n"sv, "CONNECT 0x50\n"sv,
        "CONNECT 80 \n"sv, "CONNECT  80\n"sv, "CONNECT 80\r\n"sv, "CONNECT 8\0000\n"sv,
        "connect 80\n"sv, "CONNECT\n"sv, "\n"sv, "GET / HTTP/1.1\r\n"sv,
        "CONNECT 000000000000000000000080\n"sv, "\x16\x03\x01"sv}) {
    const sys::Fd caller = dial();
    say(caller, line);
    EXPECT_TRUE(closed(caller)) << testing::PrintToString(std::string(line));
  }
  EXPECT_TRUE(connected_.empty());
}

TEST_F(VsockBridgeTest, ManyThatSayNothingLeaveNoRoomAndTheirEndMakesIt) {
  std::vector<sys::Fd> silent;
  for (size_t i = 0; i < VsockBridge::kMaxHandshakes; ++i) {
    silent.push_back(dial());
    loop_.run_once(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(closed(dial()));
  silent.clear();
  for (int turn = 0; turn < 100; ++turn) loop_.run_once(std::chrono::milliseconds(1));
  const sys::Fd caller = dial();
  say(caller, "CONNECT 1\n");
  EXPECT_EQ(next().second, 1U);
}

}
