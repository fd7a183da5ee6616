// A command's input, against a sandbox that the test plays.
#include "mvm/agent/exec.h"

#include <gtest/gtest.h>

#include "peer.h"

namespace mvm::agent {

using proto::FrameType;

static proto::ExecRequest cat() {
  proto::ExecRequest request;
  request.argv = {"cat"};
  request.stdin_open = true;
  return request;
}

TEST(CommandInput, GoesAsCreditComesAndThenEnds) {
  const std::string input(2 * proto::kInitialWindow + 5, 'x');
  Peer peer([](Peer& self) {
    const uint32_t stream = self.accept().stream;
    std::string got;
    size_t credit = proto::kInitialWindow;
    while (const auto frame = self.receive()) {
      if (frame->type == FrameType::Eof) break;
      EXPECT_EQ(frame->type, FrameType::Data);
      EXPECT_LE(frame->payload.size(), credit);
      credit -= frame->payload.size();
      got += as_text(frame->payload);
      if (credit > 0) continue;
      Bytes window;
      proto::append_window(window, stream, proto::kInitialWindow);
      self.raw(window);
      credit = proto::kInitialWindow;
    }
    self.send(stream, FrameType::Stdout, as_bytes(std::to_string(got.size())));
    self.ok(stream, proto::ExecResult{}.encode());
    self.read_to_end();
  });
  Connection connection(peer.client());
  Command command(connection, cat(), as_bytes(input));
  const auto piece = command.next(std::nullopt);
  ASSERT_TRUE(piece);
  EXPECT_EQ(as_text(piece->data), std::to_string(input.size()));
  EXPECT_FALSE(command.next(std::nullopt));
}

TEST(CommandInput, IsLeftWhereTheCommandEndsWithoutIt) {
  const std::string input(2 * proto::kInitialWindow, 'x');
  Peer peer([](Peer& self) {
    self.ok(self.accept().stream, proto::ExecResult{.exit_code = 3}.encode());
    self.read_to_end();
  });
  Connection connection(peer.client());
  Command command(connection, cat(), as_bytes(input));
  EXPECT_FALSE(command.next(std::nullopt));
  EXPECT_EQ(command.result().exit_code, 3);
}

}
