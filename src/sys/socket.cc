#include "mvm/sys/socket.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::sys {

// A path that does not fit sun_path is reached through its directory's descriptor, which must stay
// open meanwhile.
struct Address {
  sockaddr_un value{};
  Fd directory;
};

static Address address_of(const std::string& path) {
  Address address;
  address.value.sun_family = AF_UNIX;
  std::string name = path;
  if (name.size() >= sizeof address.value.sun_path) {
    const size_t slash = path.rfind('/');
    address.directory = open_file(path.substr(0, slash), O_PATH | O_DIRECTORY);
    name = "/proc/self/fd/" + std::to_string(address.directory.get()) + path.substr(slash);
  }
  if (name.size() >= sizeof address.value.sun_path)
    throw Error(Kind::Invalid, "the socket name is too long: " + path);
  std::memcpy(address.value.sun_path, name.data(), name.size());
  return address;
}

// The socket calls take the generic type by contract.
static const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.value);
}

static Fd new_socket(SocketType type) {
  const int kind = type == SocketType::Stream ? SOCK_STREAM : SOCK_SEQPACKET;
  return Fd(check(::socket(AF_UNIX, kind | SOCK_CLOEXEC, 0), "making a socket"));
}

std::pair<Fd, Fd> socket_pair(SocketType type) {
  std::array<int, 2> ends{};
  const int kind = type == SocketType::Stream ? SOCK_STREAM : SOCK_SEQPACKET;
  check(::socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends.data()), "making a socket pair");
  return {Fd(ends[0]), Fd(ends[1])};
}

Fd listen_unix(const std::string& path) {
  Fd fd = new_socket(SocketType::Stream);
  const Address address = address_of(path);
  // The name gets this mode when it is made (bind(2) takes it from the socket), so there is no
  // moment with a wider one, and no second look-up of the name.
  check(::fchmod(fd.get(), 0600), "setting the mode of " + path);
  if (::bind(fd.get(), generic(address), sizeof address.value) != 0) {
    if (errno != EADDRINUSE) throw SystemError(errno, "binding " + path);
    if (connect_unix(path)) throw Error(Kind::Conflict, path + " is in use by a running process");
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode))
      throw Error(Kind::Conflict, path + " exists and is not a socket");
    remove_file(path);
    check(::bind(fd.get(), generic(address), sizeof address.value), "binding " + path);
  }
  check(::listen(fd.get(), 128), "listening on " + path);
  return fd;
}

std::optional<Fd> connect_unix(const std::string& path, Blocking blocking) {
  Fd fd = new_socket(SocketType::Stream);
  if (blocking == Blocking::No) set_nonblocking(fd.get());
  const Address address = address_of(path);
  while (::connect(fd.get(), generic(address), sizeof address.value) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw SystemError(errno, "connecting to " + path);
  }
  return fd;
}

std::optional<Fd> accept_connection(int listener) {
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return Fd(fd);
    // A peer that gave up while waiting is no failure of ours.
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return std::nullopt;
    throw SystemError(errno, "accepting a connection");
  }
}

Fd listen_tcp(const IpAddress& address, uint16_t& port) {
  const bool v4 = address.is_v4();
  Fd fd(check(::socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
              "making a socket"));
  const int on = 1;
  // Connections of an earlier listener that linger in the kernel do not keep the port.
  check(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "reusing a port");
  sockaddr_storage name{};
  socklen_t length = sizeof(sockaddr_in);
  // The socket calls take the generic type by contract.
  auto* generic_name = reinterpret_cast<sockaddr*>(&name);
  auto* const v4_name = reinterpret_cast<sockaddr_in*>(&name);
  auto* const v6_name = reinterpret_cast<sockaddr_in6*>(&name);
  if (v4) {
    v4_name->sin_family = AF_INET;
    v4_name->sin_port = htons(port);
    std::memcpy(&v4_name->sin_addr, address.bytes().data(), sizeof v4_name->sin_addr);
  } else {
    length = sizeof(sockaddr_in6);
    check(::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), "for IPv6 only");
    v6_name->sin6_family = AF_INET6;
    v6_name->sin6_port = htons(port);
    std::memcpy(&v6_name->sin6_addr, address.bytes().data(), sizeof v6_name->sin6_addr);
  }
  const std::string place =
      "port " + std::to_string(port) + " of " + (v4 ? address.text() : "[" + address.text() + "]");
  // Two may bind with SO_REUSEADDR as long as neither listens: it is listen(2) that decides.
  if (::bind(fd.get(), generic_name, length) != 0 || ::listen(fd.get(), 128) != 0) {
    const int error = errno;
    if (error == EADDRINUSE)
      throw Error(Kind::Conflict, place + " is in use by another program of this host");
    if (error == EACCES)
      throw Error(Kind::Denied, place + " may be used by root only, as all below 1024");
    if (error == EADDRNOTAVAIL)
      throw Error(Kind::Invalid, address.text() + " is no address of this host");
    throw SystemError(error, "listening on " + place);
  }
  check(::getsockname(fd.get(), generic_name, &length), "asking for the port");
  port = ntohs(v4 ? v4_name->sin_port : v6_name->sin6_port);
  return fd;
}

std::optional<size_t> send_some(int fd, ByteView data) {
  while (true) {
    const ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw SystemError(errno, "sending");
  }
}

std::optional<size_t> send_some(int fd, ByteView first, ByteView second) {
  // sendmsg does not write through msg_iov.
  std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(first.data()), first.size()},
                             iovec{const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  while (true) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw SystemError(errno, "sending");
  }
}

PeerCredentials peer_credentials(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  check(::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length), "asking for the peer");
  return {credentials.pid, credentials.uid, credentials.gid};
}

void send_message(int fd, ByteView data, std::span<const int> fds) {
  MVM_ASSERT(fds.size() <= kMaxPassedFds);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> control{};
  // sendmsg does not write through msg_iov.
  iovec part{const_cast<std::byte*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
    if (errno != EINTR) throw SystemError(errno, "sending a message");
}

static std::vector<Fd> passed_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(header) + i * sizeof(int), sizeof passed);
      fds.emplace_back(passed);
    }
  }
  return fds;
}

std::optional<size_t> receive_some(int fd, std::span<std::byte> space, std::vector<Fd>& passed) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> control{};
  iovec part{space.data(), space.size()};
  while (true) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got < 0) throw SystemError(errno, "receiving");
    if (auto fds = passed_fds(message); !fds.empty()) passed = std::move(fds);
    return static_cast<size_t>(got);
  }
}

std::optional<Message> receive_message(int fd, size_t limit) {
  Message received;
  received.data.resize(limit);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> control{};
  iovec part{received.data.data(), received.data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = -1;
  while ((got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN) return std::nullopt;
    if (errno == ECONNRESET) {
      got = 0;
      break;
    }
    if (errno != EINTR) throw SystemError(errno, "receiving a message");
  }
  received.fds = passed_fds(message);
  // Descriptors that found no place (MSG_CTRUNC) are missing from `fds`; who expects them counts.
  if ((message.msg_flags & MSG_TRUNC) != 0)
    throw Error(Kind::Invalid, "a message is larger than its limit");
  received.data.resize(static_cast<size_t>(got));
  return received;
}

}
