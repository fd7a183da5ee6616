// Clients and a server for the figures of the network: what they cost is small, and the same
// whatever is measured.
//
//   egress_load requests|connects|latency|download ADDRESS:PORT HOST AUTHORITY PATH COUNT [PROXY]
//     HTTPS to HOST, by CONNECT to PROXY (ADDRESS:PORT) when there is one; AUTHORITY is a file.
//     requests: COUNT of them on one connection; connects: COUNT connections with one request each;
//     both print the seconds. latency: the median of a request in microseconds. download: the
//     answer's body once, and the seconds.
//   egress_load serve ADDRESS:PORT       for what follows; until it is ended
//   egress_load up|down ADDRESS:PORT MEBIBYTES     one stream; the seconds
//   egress_load denied ADDRESS:PORT COUNT    what connections take to be refused: the median and
//   the
//     longest, in milliseconds
//   egress_load hold ADDRESS:PORT COUNT  opens connections, prints "held", waits for standard input
//   egress_load resolve ADDRESS NAME     asks a name server for the address of a name
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }
void need(bool good, const char* what) {
  if (!good) fail(std::string(what) + ": " + std::strerror(errno));
}

sockaddr_in parse(const std::string& place) {
  const size_t colon = place.find(':');
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(std::strtoul(place.c_str() + colon + 1, nullptr, 10)));
  if (::inet_pton(AF_INET, place.substr(0, colon).c_str(), &out.sin_addr) != 1)
    fail("no address: " + place);
  return out;
}

int dial(const std::string& place) {
  const sockaddr_in to = parse(place);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(fd >= 0, "socket");
  need(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void send_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    need(put > 0, "send");
    at += static_cast<size_t>(put);
  }
}

// ---- HTTPS

class Https {
 public:
  Https(SSL_CTX* context, const std::string& place, const std::string& host,
        const std::string& proxy)
      : fd_(dial(proxy.empty() ? place : proxy)), ssl_(SSL_new(context)) {
    if (!proxy.empty()) tunnel(host);
    SSL_set_fd(ssl_, fd_);
    // What the macro for it does, without its cast.
    SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(host.c_str()));
    SSL_set1_host(ssl_, host.c_str());
    if (SSL_connect(ssl_) != 1) fail("TLS handshake");
  }
  ~Https() {
    SSL_shutdown(ssl_);
    SSL_free(ssl_);
    ::close(fd_);
  }
  Https(const Https&) = delete;
  Https& operator=(const Https&) = delete;

  // One request, and the whole answer; its body's length.
  size_t get(const std::string& request) {
    size_t put = 0;
    if (SSL_write_ex(ssl_, request.data(), request.size(), &put) != 1) fail("TLS write");
    size_t have = 0;  // of `buffer_`, the head
    size_t end = std::string::npos;
    while (end == std::string::npos) {
      have += read(have);
      end = std::string_view(buffer_.data(), have).find("\r\n\r\n");
    }
    const std::string_view head(buffer_.data(), end);
    if (!head.starts_with("HTTP/1.1 200")) fail("answer: " + std::string(head.substr(0, 60)));
    size_t field = head.find("ontent-Length: ");
    if (field == head.npos) field = head.find("ontent-length: ");
    if (field == head.npos) fail("an answer without a length");
    const size_t length = std::strtoull(buffer_.data() + field + 15, nullptr, 10);
    for (size_t got = have - end - 4; got < length;) got += read(0);
    return length;
  }

 private:
  size_t read(size_t at) {
    size_t got = 0;
    if (SSL_read_ex(ssl_, buffer_.data() + at, buffer_.size() - at, &got) != 1) fail("TLS read");
    return got;
  }
  void tunnel(const std::string& host) {
    send_all(fd_, "CONNECT " + host + ":443 HTTP/1.1\r\nHost: " + host + ":443\r\n\r\n");
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      char byte = 0;
      need(::recv(fd_, &byte, 1, 0) == 1, "CONNECT");
      head += byte;
    }
    if (head.find(" 200 ") == head.npos) fail("CONNECT: " + head);
  }

  int fd_;
  SSL* ssl_;
  std::vector<char> buffer_ = std::vector<char>(256 * 1024);
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int https(const std::string& mode, const std::vector<std::string>& words) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (SSL_CTX_load_verify_locations(context, words.at(2).c_str(), nullptr) != 1)
    fail("no certificates in " + words.at(2));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  const std::string& place = words.at(0);
  const std::string& host = words.at(1);
  const std::string request = "GET " + words.at(3) + " HTTP/1.1\r\nHost: " + host +
                              "\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
  const long count = std::strtol(words.at(4).c_str(), nullptr, 10);
  const std::string proxy = words.size() > 5 ? words[5] : "";
  if (mode == "connects") {
    std::printf("%.6f\n", seconds_of([&] {
                  for (long i = 0; i < count; ++i) {
                    Https connection(context, place, host, proxy);
                    connection.get(request);
                  }
                }));
    return 0;
  }
  Https connection(context, place, host, proxy);
  connection.get(mode == "download" ? "GET /1k HTTP/1.1\r\nHost: " + host + "\r\n\r\n" : request);
  if (mode == "latency") {
    std::vector<double> took;
    for (long i = 0; i < count; ++i)
      took.push_back(seconds_of([&] { connection.get(request); }) * 1e6);
    std::nth_element(took.begin(), took.begin() + count / 2, took.end());
    std::printf("%.2f\n", took.at(static_cast<size_t>(count / 2)));
    return 0;
  }
  std::printf("%.6f\n", seconds_of([&] {
                for (long i = 0; i < count; ++i) connection.get(request);
              }));
  return 0;
}

// ---- streams

constexpr size_t kPiece = 1 << 20;

// Its first byte says what a connection is: 'u' it sends, until its end, and is told so; 'd' it is
// sent as many mebibytes as the line behind says; anything else is kept as it is.
void serve_one(int fd) {
  std::vector<char> piece(kPiece);
  if (::recv(fd, piece.data(), 1, 0) == 1 && piece[0] == 'u') {
    while (::recv(fd, piece.data(), piece.size(), 0) > 0) {
    }
    ::send(fd, "k", 1, MSG_NOSIGNAL);
  } else if (piece[0] == 'd') {
    std::string line;
    for (char byte = 0; ::recv(fd, &byte, 1, 0) == 1 && byte != '\n';) line += byte;
    for (long left = std::strtol(line.c_str(), nullptr, 10); left > 0; --left)
      for (size_t at = 0; at < piece.size();) {
        const ssize_t put = ::send(fd, piece.data() + at, piece.size() - at, MSG_NOSIGNAL);
        if (put <= 0) return void(::close(fd));
        at += static_cast<size_t>(put);
      }
    ::shutdown(fd, SHUT_WR);
    static_cast<void>(!::recv(fd, piece.data(), 1, 0));
  }
  ::close(fd);
}

void raise_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// Connections that say nothing are many, and wait in one epoll; those that begin get a thread.
int serve(const std::string& place) {
  raise_files();
  const sockaddr_in at = parse(place);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  need(::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0, "bind");
  need(::listen(listener, 4096) == 0, "listen");
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event entry{EPOLLIN, {.fd = listener}};
  ::epoll_ctl(poll, EPOLL_CTL_ADD, listener, &entry);
  while (true) {
    epoll_event ready{};
    if (::epoll_wait(poll, &ready, 1, -1) != 1) continue;
    const int fd = ready.data.fd;
    if (fd == listener) {
      const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      epoll_event one{EPOLLIN, {.fd = client}};
      ::epoll_ctl(poll, EPOLL_CTL_ADD, client, &one);
      continue;
    }
    ::epoll_ctl(poll, EPOLL_CTL_DEL, fd, nullptr);
    std::thread(serve_one, fd).detach();
  }
}

int stream(const std::string& mode, const std::string& place, long mebibytes) {
  const int fd = dial(place);
  std::vector<char> piece(kPiece);
  std::printf("%.6f\n", seconds_of([&] {
                if (mode == "down") {
                  send_all(fd, "d" + std::to_string(mebibytes) + "\n");
                  long total = 0;
                  for (ssize_t got = 0; (got = ::recv(fd, piece.data(), piece.size(), 0)) > 0;)
                    total += got;
                  if (total != mebibytes << 20) fail("the stream was cut off");
                  return;
                }
                send_all(fd, "u");
                const std::string text(kPiece, 'x');
                for (long i = 0; i < mebibytes; ++i) send_all(fd, text);
                ::shutdown(fd, SHUT_WR);
                need(::recv(fd, piece.data(), 1, 0) == 1, "the stream's end");
              }));
  return 0;
}

int hold(const std::string& place, long count) {
  raise_files();
  for (long i = 0; i < count; ++i) dial(place);
  std::puts("held");
  std::fflush(stdout);
  char byte = 0;
  static_cast<void>(!::read(0, &byte, 1));
  return 0;
}

// The port changes, so that no two are one to whoever tells of them.
int denied(const std::string& place, long count) {
  sockaddr_in to = parse(place);
  const auto first = ntohs(to.sin_port);
  std::vector<double> took;
  for (long i = 0; i < count; ++i) {
    to.sin_port = htons(static_cast<uint16_t>(first + i % 1000));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    need(fd >= 0, "socket");
    int error = 0;
    took.push_back(1e3 * seconds_of([&] {
                     if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
                       error = errno;
                   }));
    ::close(fd);
    if (error != ECONNREFUSED) fail("not refused: " + std::string(std::strerror(error)));
  }
  std::sort(took.begin(), took.end());
  std::printf("%.4f %.4f\n", took.at(took.size() / 2), took.back());
  return 0;
}

// ---- names

int resolve(const std::string& server, const std::string& name) {
  std::string query("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", 12);
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    query += static_cast<char>(end - at);
    query += name.substr(at, end - at);
    at = end + 1;
  }
  query += std::string("\x00\x00\x01\x00\x01", 5);
  const sockaddr_in to = parse(server + ":53");
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const timeval patience{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  need(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  need(::send(fd, query.data(), query.size(), 0) > 0, "send");
  std::array<unsigned char, 512> answer{};
  const ssize_t got = ::recv(fd, answer.data(), answer.size(), 0);
  need(got > 12, "an answer");
  if ((answer[3] & 15U) != 0 || answer[7] == 0) fail("the name server refuses " + name);
  return 0;
}

}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    const std::string mode = words.at(0);
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    if (mode == "serve") return serve(rest.at(0));
    if (mode == "up" || mode == "down")
      return stream(mode, rest.at(0), std::strtol(rest.at(1).c_str(), nullptr, 10));
    if (mode == "denied") return denied(rest.at(0), std::strtol(rest.at(1).c_str(), nullptr, 10));
    if (mode == "hold") return hold(rest.at(0), std::strtol(rest.at(1).c_str(), nullptr, 10));
    if (mode == "resolve") return resolve(rest.at(0), rest.at(1));
    return https(mode, rest);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "egress_load: %s\n", error.what());
    return 1;
  }
}
