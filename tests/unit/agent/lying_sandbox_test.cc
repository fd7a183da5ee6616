// Copies over a connection to one that lies.
#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/agent/copy.h"
#include "mvm/proto/exec.h"
#include "mvm/sys/file.h"

#include "peer.h"

namespace mvm::agent {

using proto::Entry;
using proto::FrameType;
using testing::HasSubstr;
using testing::IsEmpty;

// As in mvm itself: a sandbox that has gone is an error, and not the end.
[[maybe_unused]] static const auto kIgnored = ::signal(SIGPIPE, SIG_IGN);

static Bytes file_head() {
  Bytes out;
  Entry entry;
  entry.mode = 0644;
  proto::append_entry(out, entry);
  return out;
}

// Takes Window frames until more may be sent.
static bool earn(Peer& peer, proto::SendWindow& window, size_t need) {
  while (window.available() < need) {
    const auto frame = peer.receive();
    if (!frame) return false;
    EXPECT_EQ(frame->type, FrameType::Window);
    EXPECT_TRUE(window.grant(proto::decode_window(frame->payload).value()));
  }
  window.spend(need);
  return true;
}

TEST(LyingSandbox, CannotFillTheDisk) {
  Peer peer([](Peer& self) {
    const auto stream = self.accept().stream;
    Bytes piece = file_head();
    const Bytes content(32768, std::byte{'x'});
    proto::SendWindow window;
    while (earn(self, window, piece.size()) && self.send(stream, FrameType::Data, piece)) {
      piece.clear();
      proto::append_chunk(piece, content);
    }
  });
  const sys::TempDir dir;
  Connection connection(peer.client());
  GetOptions options;
  options.write.max_bytes = 8 << 20;
  EXPECT_EQ(error_of([&] { get(connection, "/x", dir.path(), options); }).kind(), Kind::Exhausted);
  EXPECT_THAT(sys::list_directory(dir.path()), IsEmpty());
}

TEST(LyingSandbox, CannotSendBeyondItsCredit) {
  Peer peer([](Peer& self) {
    const auto stream = self.accept().stream;
    self.send(stream, FrameType::Data, file_head());
    // One frame that does not decode further would be an error too; these are good to the last.
    Bytes chunk;
    proto::append_chunk(chunk, Bytes(proto::kMaxPayload - 4, std::byte{'x'}));
    Bytes burst;
    for (int i = 0; i < 64; ++i) proto::append_frame(burst, stream, FrameType::Data, chunk);
    self.raw(burst);
    self.read_to_end();
  });
  const sys::TempDir dir;
  auto socket = peer.client();
  Connection connection(std::move(socket));
  connection.start(proto::GetRequest{"/x", false}.encode(), Call::Kind::Get);
  // Nothing is given back, as when the disk is slow.
  const Error error = error_of([&] {
    for (int i = 0; i < 100; ++i) connection.wait(Milliseconds(60'000));
  });
  EXPECT_THAT(error.message(), HasSubstr("more data than it may send"));
}

TEST(LyingSandbox, CannotCallHalfAFileWhole) {
  Peer peer([](Peer& self) {
    const auto stream = self.accept().stream;
    Bytes data = file_head();
    proto::append_chunk(data, as_bytes("half"));
    self.send(stream, FrameType::Data, data);
    self.ok(stream, proto::CopyResult{1, 4, 0}.encode());
    self.read_to_end();
  });
  const sys::TempDir dir;
  Connection connection(peer.client());
  const Error error = error_of([&] { get(connection, "/x", dir.path() + "/f", {}); });
  EXPECT_THAT(error.message(), HasSubstr("without its end"));
  EXPECT_THAT(sys::list_directory(dir.path()), IsEmpty());
}

TEST(LyingSandbox, CannotClaimToHaveAllBeforeItWasSent) {
  Peer peer([](Peer& self) {
    self.ok(self.accept().stream, proto::CopyResult{1, 0, 0}.encode());
    self.read_to_end();
  });
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/f", Bytes(2 << 20));
  Connection connection(peer.client());
  const Error error = error_of([&] { put(connection, dir.path() + "/f", "/f", {}); });
  EXPECT_THAT(error.message(), HasSubstr("garbage"));
}

TEST(LyingSandbox, CannotOpenALaneThatNobodyAskedFor) {
  for (const Bytes& event : {proto::LaneOpened{7}.encode(), proto::ExecStarted{7}.encode()}) {
    Peer peer([&](Peer& self) {
      self.send(self.accept().stream, FrameType::Event, event);
      self.read_to_end();
    });
    const sys::TempDir dir;
    sys::write_file_atomic(dir.path() + "/f", Bytes(2 << 20));
    Connection connection(peer.client());
    EXPECT_THAT(error_of([&] { put(connection, dir.path() + "/f", "/f", {}); }).message(),
                HasSubstr("garbage"));
  }
}

// The lane ends; why comes on the connection.
TEST(LyingSandbox, IsTakenAtItsWordWhenItsLaneEnds) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  Peer peer([&](Peer& self) {
    const auto stream = self.accept().stream;
    while (self.receive().value().type != FrameType::Eof) {
    }
    self.send(stream, FrameType::Event, proto::LaneOpened{7}.encode());
    Bytes some(4096);
    sys::read_exact(theirs.get(), some);
    theirs.reset();
    self.send(stream, FrameType::End, proto::encode_error({Kind::Exhausted, "the disk is full"}));
    self.read_to_end();
  });
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/f", Bytes(8 << 20));
  Connection connection(peer.client());
  connection.set_dial([&](uint32_t port) {
    EXPECT_EQ(port, 7U);
    return std::move(ours);
  });
  EXPECT_EQ(error_of([&] { put(connection, dir.path() + "/f", "/f", {}); }).message(),
            "the disk is full");
}

TEST(LyingSandbox, CannotStallForEver) {
  Peer peer([](Peer& self) {
    self.accept();
    self.read_to_end();
  });
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/f", Bytes(2 << 20));
  Connection connection(peer.client());
  PutOptions options;
  options.watch.stall = Milliseconds(50);
  EXPECT_EQ(error_of([&] { put(connection, dir.path() + "/f", "/f", options); }).kind(),
            Kind::Timeout);
}

TEST(LyingSandbox, IsTakenAtItsWordWhenItRefusesHalfWay) {
  Peer peer([](Peer& self) {
    const auto stream = self.accept().stream;
    self.receive();
    self.send(stream, FrameType::End, proto::encode_error({Kind::Exhausted, "the disk is full"}));
    self.read_to_end();
  });
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/f", Bytes(2 << 20));
  Connection connection(peer.client());
  EXPECT_EQ(error_of([&] { put(connection, dir.path() + "/f", "/f", {}); }).message(),
            "the disk is full");
}

}
