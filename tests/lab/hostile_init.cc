// A guest whose first process is an enemy: it takes the agent's place and speaks garbage, floods,
// stalls or lies on the agent's vsock port. Which of these is the sandbox's host name, which the
// host puts on the kernel's command line. Static and on its own: it links nothing of mvm, so that
// it does wrong by itself.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr unsigned kPort = 5252;
enum Type : uint8_t { kHello, kRequest, kData, kStdout, kStderr, kEof, kWindow, kEvent = 9, kEnd };

std::string mode() {
  ::mkdir("/proc", 0555);
  ::mount("proc", "/proc", "proc", 0, nullptr);
  std::array<char, 4096> line{};
  const int fd = ::open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || ::read(fd, line.data(), line.size() - 1) <= 0) return "";
  const char* const word = std::strstr(line.data(), "mvm.hostname=");
  if (word == nullptr) return "";
  const std::string rest = word + std::strlen("mvm.hostname=");
  return rest.substr(0, rest.find_first_of(" \n"));
}

int call_host() {
  const int fd = ::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = VMADDR_CID_HOST;
  address.svm_port = kPort;
  // The socket calls take the generic type by contract.
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    ::perror("hostile: calling the host");
  return fd;
}

bool send_all(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t put = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (put <= 0) return false;
    at += static_cast<size_t>(put);
  }
  return true;
}

std::string little(uint32_t value) {
  std::string out(4, '\0');
  std::memcpy(out.data(), &value, 4);
  return out;
}

std::string frame(uint32_t stream, uint8_t type, const std::string& payload) {
  return little(static_cast<uint32_t>(payload.size()) + 5) + little(stream) +
         static_cast<char>(type) + payload;
}

// {"version": V, "role": "agent", "software": "x"} in CBOR.
std::string hello(char version) {
  return frame(0, kHello,
               std::string("\xa3\x67version\x18", 10) + version +
                   "\x64role\x65"
                   "agent"
                   "\x68software\x61"
                   "x");
}

// The stream of the next Request; 0 when the host has hung up.
uint32_t next_request(int fd) {
  while (true) {
    std::array<unsigned char, 9> head{};
    for (size_t at = 0; at < head.size();) {
      const ssize_t got = ::read(fd, head.data() + at, head.size() - at);
      if (got <= 0) return 0;
      at += static_cast<size_t>(got);
    }
    uint32_t length = 0;
    uint32_t stream = 0;
    std::memcpy(&length, head.data(), 4);
    std::memcpy(&stream, head.data() + 4, 4);
    std::vector<char> payload(length - 5);
    for (size_t at = 0; at < payload.size();) {
      const ssize_t got = ::read(fd, payload.data() + at, payload.size() - at);
      if (got <= 0) return 0;
      at += static_cast<size_t>(got);
    }
    if (head[8] == kRequest) return stream;
  }
}

void misbehave(int fd, const std::string& how) {
  const std::string piece(60000, 'x');
  if (how == "garbage") send_all(fd, std::string(1 << 20, '\xa5'));
  if (how == "huge") send_all(fd, little(0xffffffff) + piece);
  if (how == "version") send_all(fd, hello(99));
  if (how == "silent" || how == "garbage" || how == "huge" || how == "version") return;
  send_all(fd, hello(1));
  const uint32_t stream = next_request(fd);
  const std::string event = frame(stream, kEvent,
                                  "\xa1\x65"
                                  "event"
                                  "\x61"
                                  "x");
  if (how == "flood")
    while (send_all(fd, event)) {
    }
  if (how == "overrun")
    while (send_all(fd, frame(stream, kStdout, piece))) {
    }
  if (how == "stranger") send_all(fd, frame(stream + 77, kEnd, "\xa1\x62ok\xa0"));
  if (how == "nonsense") send_all(fd, frame(stream, kEnd, "\xa1\x62ok\xa0"));
  if (how == "noend") send_all(fd, frame(stream, kEnd, piece));
  if (how == "credit") send_all(fd, frame(stream, kWindow, little(0xffffffff)));
  if (how == "escape")
    send_all(fd, frame(stream, kEnd,
                       "\xa1\x65"
                       "error"
                       "\xa2\x64kind\x66"
                       "denied"
                       "\x67message\x68\x1b[2Jgone"));
}

}

int main() {
  const int fd = call_host();
  misbehave(fd, mode());
  // Whatever it did, it goes on living: the host has to end it.
  while (next_request(fd) != 0) {
  }
  while (true) ::pause();
}
