// A client whose own cost is small and the same whatever is measured.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

namespace mvm::bench {

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }
inline void need(bool good, const char* what) {
  if (!good) fail(std::string(what) + ": " + std::strerror(errno));
}

inline sockaddr_in parse(const std::string& place) {
  const size_t colon = place.find(':');
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(std::strtoul(place.c_str() + colon + 1, nullptr, 10)));
  if (::inet_pton(AF_INET, place.substr(0, colon).c_str(), &out.sin_addr) != 1)
    fail("no address: " + place);
  return out;
}

inline int dial(const std::string& place) {
  const sockaddr_in to = parse(place);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(fd >= 0, "socket");
  need(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

inline void send_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    need(put > 0, "send");
    at += static_cast<size_t>(put);
  }
}

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
    const size_t head = ask(request);
    for (size_t got = have_ - head; got < length_;) got += read(0);
    return length_;
  }

  // The same of an answer that is kept; it lasts until the next.
  std::string_view exchange(const std::string& request) {
    const size_t whole = ask(request) + length_;
    while (have_ < whole) have_ += read(have_);
    return {buffer_.data(), whole};
  }

 private:
  // Reads as far as the end of the head; that is what it gives.
  size_t ask(const std::string& request) {
    size_t put = 0;
    if (SSL_write_ex(ssl_, request.data(), request.size(), &put) != 1) fail("TLS write");
    have_ = 0;
    size_t end = std::string::npos;
    while (end == std::string::npos) {
      have_ += read(have_);
      end = std::string_view(buffer_.data(), have_).find("\r\n\r\n");
    }
    const std::string_view head(buffer_.data(), end);
    if (!head.starts_with("HTTP/1.1 200")) fail("answer: " + std::string(head.substr(0, 60)));
    size_t field = head.find("ontent-Length: ");
    if (field == head.npos) field = head.find("ontent-length: ");
    if (field == head.npos) fail("an answer without a length");
    length_ = std::strtoull(buffer_.data() + field + 15, nullptr, 10);
    return end + 4;
  }
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
  size_t have_ = 0, length_ = 0;  // of `buffer_`; of the answer's body
  std::vector<char> buffer_ = std::vector<char>(256 * 1024);
};

// AUTHORITY is a file of certificates. Nothing is resumed.
inline SSL_CTX* client_context(const std::string& authority) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) != 1)
    fail("no certificates in " + authority);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return context;
}

}
