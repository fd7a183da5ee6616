#include "mvm/sys/socket.h"

#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::sys {

TEST(Socket, PassesDescriptorsWithAMessage) {
  auto [a, b] = socket_pair(SocketType::SeqPacket);
  const Fd file = memory_file("passed", 3);
  write_all(file.get(), as_bytes("abc"));
  const std::array<int, 2> fds = {file.get(), file.get()};
  send_message(a.get(), as_bytes("hello"), fds);
  const auto message = receive_message(b.get(), 100);
  ASSERT_TRUE(message);
  EXPECT_EQ(as_text(message->data), "hello");
  ASSERT_EQ(message->fds.size(), 2U);
  std::array<std::byte, 3> content{};
  EXPECT_TRUE(pread_exact(message->fds[1].get(), content, 0));
  EXPECT_EQ(as_text(content), "abc");
  EXPECT_EQ(::fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(Socket, RefusesAMessageOverItsLimitAndClosesWhatCameWithIt) {
  auto [a, b] = socket_pair(SocketType::SeqPacket);
  send_message(a.get(), as_bytes("too long"));
  EXPECT_THROW(receive_message(b.get(), 4), Error);
}

TEST(Socket, EmptyMessageMeansThePeerIsGone) {
  auto [a, b] = socket_pair(SocketType::SeqPacket);
  a.reset();
  const auto message = receive_message(b.get(), 100);
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->data.empty());
}

TEST(Socket, ListenReplacesADeadSocketButNotALiveOneOrAFile) {
  const TempDir dir;
  const std::string path = dir.path() + "/s";
  {
    const Fd dead = listen_unix(path);
  }
  ASSERT_TRUE(exists(path));
  EXPECT_FALSE(connect_unix(path));
  const Fd live = listen_unix(path);
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  EXPECT_THROW(listen_unix(path), Error);
  write_file_atomic(dir.path() + "/file", as_bytes("x"));
  EXPECT_THROW(listen_unix(dir.path() + "/file"), Error);
  EXPECT_EQ(read_text_file(dir.path() + "/file", 10), "x");
}

TEST(Socket, ReachesPathsLongerThanASocketAddress) {
  const TempDir dir;
  const std::string deep = dir.path() + "/" + std::string(200, 'd');
  make_directories(deep);
  const Fd listener = listen_unix(deep + "/control.sock");
  set_nonblocking(listener.get());
  EXPECT_FALSE(accept_connection(listener.get()));
  const auto client = connect_unix(deep + "/control.sock");
  ASSERT_TRUE(client);
  const auto server = accept_connection(listener.get());
  ASSERT_TRUE(server);
  EXPECT_EQ(peer_credentials(server->get()).uid, ::getuid());
}

TEST(Socket, StreamDescriptorsArriveWithTheFirstOfTheirBytes) {
  auto [a, b] = socket_pair(SocketType::Stream);
  const Fd file = memory_file("passed", 3);
  write_all(file.get(), as_bytes("abc"));
  write_all(a.get(), as_bytes("before"));
  const std::array<int, 2> fds = {file.get(), file.get()};
  send_message(a.get(), as_bytes("hello"), fds);
  std::string text;
  std::vector<Fd> passed;
  std::array<std::byte, 100> space{};
  while (text.size() < 11) {
    const auto got = receive_some(b.get(), space, passed);
    ASSERT_TRUE(got && *got > 0);
    text += as_text(ByteView(space).first(*got));
    if (text.find('h') != text.npos) {
      ASSERT_EQ(passed.size(), 2U);
    }
  }
  EXPECT_EQ(text, "beforehello");
  std::array<std::byte, 3> content{};
  EXPECT_TRUE(pread_exact(passed[1].get(), content, 0));
  EXPECT_EQ(::fcntl(passed[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  // What carries none leaves them alone.
  write_all(a.get(), as_bytes("x"));
  EXPECT_EQ(receive_some(b.get(), space, passed), 1U);
  EXPECT_EQ(passed.size(), 2U);
  set_nonblocking(b.get());
  EXPECT_FALSE(receive_some(b.get(), space, passed));
  a.reset();
  EXPECT_EQ(receive_some(b.get(), space, passed), 0U);
}

TEST(Socket, ListensOnAPortThatItChoosesOrIsTold) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    const IpAddress loopback = IpAddress::parse(address).value();
    uint16_t port = 0;
    std::optional<Fd> first = listen_tcp(loopback, port);
    ASSERT_NE(port, 0);
    uint16_t same = port;
    try {
      listen_tcp(loopback, same);
      ADD_FAILURE() << "it is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Kind::Conflict);
      EXPECT_NE(error.message().find("port " + std::to_string(port)), std::string::npos);
      EXPECT_NE(error.message().find("in use by another program"), std::string::npos);
    }
    first.reset();
    EXPECT_TRUE(listen_tcp(loopback, same));
  }
  uint16_t port = 0;
  EXPECT_THROW(listen_tcp(IpAddress::parse("192.0.2.77").value(), port), Error);
}

}
