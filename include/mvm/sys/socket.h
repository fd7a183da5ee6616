#pragma once
// Unix sockets and descriptor passing; listeners for TCP.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"
#include "mvm/sys/fd.h"

namespace mvm::sys {

enum class SocketType { Stream, SeqPacket };

// Both ends CLOEXEC and blocking.
std::pair<Fd, Fd> socket_pair(SocketType type);

// Binds and listens with mode 0600. A stale socket file (nobody accepts on it) is replaced; a live
// one is Conflict. Paths longer than sun_path allows are reached through the directory's
// descriptor.
Fd listen_unix(const std::string& path);
// Nothing when there is no such socket or nobody listens on it. With Blocking::No the descriptor
// does not block, and a listener whose queue is full counts as nobody.
enum class Blocking { Yes, No };
std::optional<Fd> connect_unix(const std::string& path, Blocking blocking = Blocking::Yes);
// A non-blocking accept: nothing when none is waiting. The accepted descriptor is CLOEXEC and
// non-blocking.
std::optional<Fd> accept_connection(int listener);

// Listens on `address`; port 0 is one that the kernel chooses, and `port` says which.
// Error{Conflict} when it is taken, Error{Denied} when we may not have it.
Fd listen_tcp(const IpAddress& address, uint16_t& port);

// One send(2): a peer that is gone is EPIPE or ECONNRESET, never SIGPIPE. Never blocks, whatever
// the descriptor's flags: nothing when there is no room.
std::optional<size_t> send_some(int fd, ByteView data);
// Two pieces in one go, as if they were one.
std::optional<size_t> send_some(int fd, ByteView first, ByteView second);

struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
PeerCredentials peer_credentials(int fd);

// One message with descriptors (SCM_RIGHTS). At most kMaxPassedFds. On a stream socket they arrive
// with the first of the bytes.
inline constexpr size_t kMaxPassedFds = 32;
void send_message(int fd, ByteView data, std::span<const int> fds = {});
struct Message {
  Bytes data;
  std::vector<Fd> fds;
};
// A read of a stream socket that never blocks, whatever the descriptor's flags: nothing when there
// is nothing yet, 0 at its end. Descriptors that came
// along replace what `passed` holds; those that it has no room for are closed.
std::optional<size_t> receive_some(int fd, std::span<std::byte> space, std::vector<Fd>& passed);
// The next message of a SEQPACKET socket, at most `limit` bytes (a longer one is an error). Empty
// data: peer is gone. Nothing when it would block.
std::optional<Message> receive_message(int fd, size_t limit);

}
