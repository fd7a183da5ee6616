// What waits on the link for a guest that takes no frames is nobody's memory, so it is little.
#include <array>

#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/net/guest_network.h"

#include "guest_frames.h"

namespace mvm::net {
namespace {

TEST(LinkQueue, HoldsSoManyFramesAndNoMore) {
  GuestNetwork network;
  try {
    network = make_guest_network({}, 1500);
  } catch (const Error& error) {
    if (error.kind() != Kind::Unsupported) throw;
    GTEST_SKIP() << error.message();
  }
  const Guest guest(network.tap.get());
  for (int i = 0; i < 3000; ++i) guest.send(ping(kGuest4, kGateway4));
  std::array<std::byte, 2048> frame{};
  int held = 0;
  while (::read(network.tap.get(), frame.data(), frame.size()) > 0) ++held;
  EXPECT_GT(held, 900);
  EXPECT_LE(held, 1000);
}

}
}
