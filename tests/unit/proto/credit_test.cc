#include "mvm/proto/credit.h"

#include <gtest/gtest.h>

namespace mvm::proto {

TEST(SendWindow, SpendsAndIsGranted) {
  SendWindow window;
  EXPECT_EQ(window.available(), kInitialWindow);
  window.spend(kInitialWindow);
  EXPECT_EQ(window.available(), 0U);
  EXPECT_TRUE(window.grant(1000));
  EXPECT_EQ(window.available(), 1000U);
}

TEST(SendWindow, RefusesMoreCreditThanWasSpent) {
  SendWindow window;
  EXPECT_FALSE(window.grant(1));
  window.spend(10);
  EXPECT_FALSE(window.grant(11));
  EXPECT_FALSE(window.grant(0xFFFFFFFF));
  EXPECT_TRUE(window.grant(10));
}

TEST(ReceiveWindow, RefusesAnOverrunAtTheByte) {
  ReceiveWindow window;
  EXPECT_TRUE(window.receive(kInitialWindow));
  EXPECT_TRUE(window.receive(0));
  EXPECT_FALSE(window.receive(1));
}

TEST(ReceiveWindow, GivesCreditBackInPortions) {
  ReceiveWindow window;
  ASSERT_TRUE(window.receive(kInitialWindow));
  EXPECT_EQ(window.consume(kWindowPortion - 1), std::nullopt);
  EXPECT_EQ(window.consume(1), kWindowPortion);
  EXPECT_EQ(window.held(), kInitialWindow - kWindowPortion);
  EXPECT_TRUE(window.receive(kWindowPortion));
  EXPECT_FALSE(window.receive(1));
}

// A sender that waits for credit always gets some: what is withheld is less than the window.
TEST(Windows, NeverDeadlock) {
  SendWindow sender;
  ReceiveWindow receiver;
  size_t sent = 0;
  for (size_t size = 1; sent < 10 * size_t{kInitialWindow}; size = size * 7 % 65521 + 1) {
    if (size > sender.available()) size = sender.available();
    ASSERT_GT(size, 0U) << "after " << sent;
    sender.spend(size);
    ASSERT_TRUE(receiver.receive(size));
    sent += size;
    if (const auto credit = receiver.consume(size)) {
      ASSERT_TRUE(sender.grant(*credit));
    }
  }
}

}
