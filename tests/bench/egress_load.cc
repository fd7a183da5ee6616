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

#include "https_client.h"

namespace {

using namespace mvm::bench;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int https(const std::string& mode, const std::vector<std::string>& words) {
  SSL_CTX* context = client_context(words.at(2));
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
