// What a request of the host's asks to be redacted is, before anybody is given it; and the guest is
// not asked.
#include <gtest/gtest.h>

#include "mvm/agent/exec.h"
#include "mvm/agent/files.h"

#include "peer.h"

namespace mvm::agent {

using proto::FrameType;

static void say(Peer& peer, uint32_t stream, FrameType type, std::string_view text) {
  peer.send(stream, type, as_bytes(text));
}

TEST(Redact, IsNothingThatTheGuestIsTold) {
  proto::ExecRequest exec;
  exec.argv = {"cat"};
  proto::ReadRequest read;
  read.place.path = "/x";
  const Bytes plain_exec = exec.encode();
  const Bytes plain_read = read.encode();
  exec.redact = read.redact = true;
  EXPECT_EQ(exec.encode(), plain_exec);
  EXPECT_EQ(read.encode(), plain_read);
  EXPECT_FALSE(proto::ExecRequest::decode(exec.encode())->redact);
}

TEST(Redact, TakesValuesOutOfACommandsOutputHoweverTheyCome) {
  for (const bool redact : {true, false}) {
    Peer peer([](Peer& self) {
      const uint32_t stream = self.accept().stream;
      say(self, stream, FrameType::Stdout, "to jane.d");
      say(self, stream, FrameType::Stderr, "card 4111 1111 ");
      say(self, stream, FrameType::Stdout, "oe@example.com, and b");
      say(self, stream, FrameType::Stderr, "1111 1111\n");
      say(self, stream, FrameType::Stdout, "ob@example.org");
      self.ok(stream, proto::ExecResult{.exit_code = 3}.encode());
      self.read_to_end();
    });
    Connection connection(peer.client());
    proto::ExecRequest request;
    request.argv = {"cat"};
    request.redact = redact;
    std::string out;
    std::string err;
    const auto result = run_command(connection, request, [&](Stream stream, ByteView data) {
      (stream == Stream::Out ? out : err) += as_text(data);
    });
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(out, redact ? "to [redacted], and [redacted]"
                          : "to jane.doe@example.com, and bob@example.org");
    EXPECT_EQ(err, redact ? "card [redacted]\n" : "card 4111 1111 1111 1111\n");
  }
}

// Much more than a window: what is replaced is taken all the same.
TEST(Redact, LetsMuchOutputFlow) {
  constexpr size_t kTotal = 4 * proto::kInitialWindow;
  Peer peer([](Peer& self) {
    const uint32_t stream = self.accept().stream;
    std::string piece;
    for (int i = 0; i < 200; ++i) piece += "jane.doe@example.com or 12345678\n";
    size_t credit = proto::kInitialWindow;
    for (size_t sent = 0; sent < kTotal;) {
      if (credit < piece.size()) {
        credit += *proto::decode_window(self.receive()->payload);
        continue;
      }
      say(self, stream, FrameType::Stdout, piece);
      sent += piece.size();
      credit -= piece.size();
    }
    self.ok(stream, proto::ExecResult{}.encode());
    self.read_to_end();
  });
  Connection connection(peer.client());
  proto::ExecRequest request;
  request.argv = {"cat"};
  request.redact = true;
  std::string out;
  run_command(connection, request, [&](Stream, ByteView data) { out += as_text(data); });
  EXPECT_GT(out.size(), kTotal / 2);
  EXPECT_EQ(out.find("jane"), out.npos);
}

TEST(Redact, TakesValuesOutOfAFile) {
  for (const bool redact : {true, false}) {
    Peer peer([](Peer& self) {
      const uint32_t stream = self.accept().stream;
      say(self, stream, FrameType::Data, "name,mail\nJane,jane.doe@exa");
      say(self, stream, FrameType::Data, "mple.com\nnobody");
      self.ok(stream, proto::ReadResult{42, 42}.encode());
      self.read_to_end();
    });
    Connection connection(peer.client());
    proto::ReadRequest request;
    request.place.path = "/work/customers.csv";
    request.redact = redact;
    std::string text;
    const auto result =
        read_file(connection, request, [&](ByteView data) { text += as_text(data); });
    EXPECT_EQ(result.bytes, 42U);
    EXPECT_EQ(text, redact ? "name,mail\nJane,[redacted]\nnobody"
                           : "name,mail\nJane,jane.doe@example.com\nnobody");
  }
}

}
