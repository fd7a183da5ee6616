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

}
