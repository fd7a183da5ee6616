// Who may sit at the console, with a real client of the control socket and no monitor behind.
#include "../../../src/sandbox/console.h"

#include <array>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/proto/console.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

class ConsoleRequests : public testing::Test {
 protected:
  // What the answer to a request with `passed` is; there is always one.
  proto::ErrorReply refusal(std::vector<int> passed, proto::Profile profile = proto::Profile::Dev,
                            ByteView request = proto::ConsoleRequest{}.encode()) {
    loop::Loop loop;
    const proto::SandboxConfig config;
    bool answered = false;
    Mux mux(loop, config,
            {[&](Asker asker, ByteView payload) {
               answered = answer_console(mux, nullptr, profile, asker, payload);
             },
             [] {},
             [](AgentLoss, const std::string&) {},
             [] {},
             {},
             {},
             {}});
    auto [client, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::set_nonblocking(theirs.get());
    mux.add_client(std::move(theirs));
    Bytes out;
    proto::Hello hello;
    hello.role = "client";
    proto::append_frame(out, proto::kConnectionStream, proto::FrameType::Hello, hello.encode());
    proto::append_frame(out, 7, proto::FrameType::Request, request);
    sys::send_message(client.get(), out, passed);
    sys::set_nonblocking(client.get());
    proto::FrameDecoder decoder;
    for (int turn = 0; turn < 100; ++turn) {
      loop.run_once(std::chrono::milliseconds(5));
      decoder.commit(sys::read_some(client.get(), decoder.space()).value_or(0));
      while (const auto frame = decoder.next()) {
        if (frame->stream != 7) continue;
        EXPECT_TRUE(answered);
        const auto end = proto::End::decode(frame->payload);
        return end && end->error ? *end->error : proto::ErrorReply{};
      }
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
};

TEST_F(ConsoleRequests, OfASealedSandboxAreRefused) {
  const auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  const auto error = refusal({theirs.get()}, proto::Profile::Sealed);
  EXPECT_EQ(error.kind, Kind::Denied);
  EXPECT_NE(error.message.find("sealed"), std::string::npos);
}

TEST_F(ConsoleRequests, TakeNothingButAStreamSocket) {
  const sys::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const sys::Fd read(ends[0]);
  const sys::Fd write(ends[1]);
  const auto packets = sys::socket_pair(sys::SocketType::SeqPacket);
  const auto stream = sys::socket_pair(sys::SocketType::Stream);
  EXPECT_EQ(refusal({null.get()}).kind, Kind::Invalid);
  EXPECT_EQ(refusal({write.get()}).kind, Kind::Invalid);
  EXPECT_EQ(refusal({packets.first.get()}).kind, Kind::Invalid);
  EXPECT_EQ(refusal({stream.first.get(), stream.second.get()}).kind, Kind::Invalid);
  // Nobody is there to take what is right.
  EXPECT_EQ(refusal({stream.first.get()}).kind, Kind::Unavailable);
}

TEST_F(ConsoleRequests, ThatMakeNoSenseAreRefused) {
  Bytes wrong = proto::ConsoleRequest{{24, 80}}.encode();
  const size_t rows = as_text(wrong).find("rows");
  ASSERT_NE(rows, std::string_view::npos);
  wrong.at(rows + 4) = std::byte{0x61};  // a text in the number's place
  EXPECT_EQ(refusal({}, proto::Profile::Dev, wrong).kind, Kind::Invalid);
}

}
