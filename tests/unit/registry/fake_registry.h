#pragma once
// A registry on loopback that says whatever a test wants it to: each connection is one request,
// answered by the test's own function, byte by byte if need be.

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/fd.h"

namespace mvm::registry {

class FakeRegistry {
 public:
  struct Request {
    std::string line;  // "GET /v2/… HTTP/1.1"
    std::string head;  // all of it
    bool has(const std::string& text) const { return head.find(text) != std::string::npos; }
    std::string path() const {
      const size_t start = line.find(' ') + 1;
      return line.substr(start, line.find(' ', start) - start);
    }
  };
  // Returns what is sent; the connection is closed then.
  using Answer = std::function<std::string(const Request&)>;

  explicit FakeRegistry(Answer answer) : answer_(std::move(answer)) {
    listener_ = sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    sys::check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
    sys::check(::listen(listener_.get(), 64), "listen");
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    host_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeRegistry() {
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (std::thread& thread : connections_) thread.join();
  }
  FakeRegistry(const FakeRegistry&) = delete;
  FakeRegistry& operator=(const FakeRegistry&) = delete;

  const std::string& host() const { return host_; }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t asked_for(const std::string& part) const {
    size_t count = 0;
    for (const Request& request : requests())
      if (request.line.find(part) != std::string::npos) ++count;
    return count;
  }

  static std::string reply(const std::string& status, const std::string& headers,
                           const std::string& body) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "\r\n" + body;
  }
  static std::string ok(const std::string& body, const std::string& headers = "") {
    return reply("200 OK", headers, body);
  }

 private:
  void serve() {
    while (!stopping_) {
      sys::Fd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      connections_.emplace_back([this, peer = std::move(peer)] { talk(peer.get()); });
    }
  }
  void talk(int fd) {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return;
      head.append(buffer, static_cast<size_t>(got));
      // The first words of TLS: this is no such server, and says so as others do.
      if (head[0] == 0x16) {
        const std::string refusal = "HTTP/1.0 400 Bad Request\r\n\r\n";
        ::send(fd, refusal.data(), refusal.size(), MSG_NOSIGNAL);
        return;
      }
    }
    const Request request{head.substr(0, head.find("\r\n")), head};
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string answer = answer_(request);
    for (size_t at = 0; at < answer.size();) {
      const ssize_t sent = ::send(fd, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<size_t>(sent);
    }
  }

  Answer answer_;
  sys::Fd listener_;
  std::string host_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
  std::vector<std::thread> connections_;
};

}
