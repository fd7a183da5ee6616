#include "dns_exchange.h"

#include <algorithm>
#include <array>

#include "mvm/crypto/random.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

constexpr size_t kHeader = 12;  // RFC 1035 §4.1.1; the question's name is behind it
constexpr uint8_t kLetterBit = 0x20;

struct Encoded {
  uint16_t id = 0;
  Bytes message;
};

Encoded encode(const Question& question, LetterCase letters) {
  Encoded out;
  crypto::random_bytes(std::as_writable_bytes(std::span(&out.id, 1)));
  out.message = dns::encode_query(out.id, question.name, question.type);
  if (letters == LetterCase::Plain) return out;
  std::array<std::byte, dns::kMaxName> random;
  crypto::random_bytes(random);
  for (size_t i = 0; i < question.name.wire().size(); ++i) {
    std::byte& at = out.message[kHeader + i];
    // Lengths are below all letters.
    if (at >= std::byte{'a'} && at <= std::byte{'z'}) at ^= random.at(i) & std::byte{kLetterBit};
  }
  return out;
}

class Exchange : public DnsExchange {
 public:
  Exchange(loop::Loop& loop, sys::Fd socket, Question question, LetterCase letters,
           std::chrono::milliseconds timeout, Done done)
      : loop_(loop),
        socket_(std::move(socket)),
        question_(std::move(question)),
        query_(encode(question_, letters)),
        done_(std::move(done)),
        deadline_(loop.after(timeout, [this] { finish(std::nullopt); })) {}

 protected:
  // Whether `message` answers this question, letter for letter.
  std::optional<dns::Reply> read(ByteView message) const {
    const size_t name = question_.name.wire().size();
    const ByteView asked = ByteView(query_.message).subspan(kHeader, name);
    if (message.size() < kHeader + name ||
        !std::ranges::equal(message.subspan(kHeader, name), asked))
      return std::nullopt;
    return dns::parse_reply(message, query_.id, question_.name, question_.type);
  }
  void finish(std::optional<dns::Reply> reply) {
    watch_.reset();
    deadline_.reset();
    const Done done = std::move(done_);
    done(std::move(reply));
  }

  loop::Loop& loop_;
  sys::Fd socket_;
  Question question_;
  Encoded query_;
  Done done_;
  loop::Watch watch_;
  loop::Watch deadline_;
};

class UdpExchange final : public Exchange {
 public:
  using Exchange::Exchange;
  bool start() {
    if (::send(socket_.get(), query_.message.data(), query_.message.size(), MSG_NOSIGNAL) < 0)
      return false;
    watch_ = loop_.watch(socket_.get(), EPOLLIN, [this](uint32_t) { receive(); });
    return true;
  }

 private:
  void receive() {
    std::array<std::byte, 4096> buffer;
    while (true) {
      const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      // Nobody listens there (ICMP), which the next resolver may do.
      if (got < 0) return finish(std::nullopt);
      if (auto reply = read(ByteView(buffer).first(static_cast<size_t>(got))))
        return finish(std::move(reply));
    }
  }
};

class TcpExchange final : public Exchange {
 public:
  using Exchange::Exchange;
  bool start(const Endpoint& resolver) {
    const SocketAddress to(resolver);
    if (::connect(socket_.get(), to.get(), to.length) != 0 && errno != EINPROGRESS) return false;
    Writer out(to_send_);
    out.u16be(static_cast<uint16_t>(query_.message.size()));
    out.bytes(query_.message);
    watch_ = loop_.watch(socket_.get(), EPOLLOUT, [this](uint32_t events) {
      if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0)
        return finish(std::nullopt);
      if (sent_ < to_send_.size()) return send();
      receive();
    });
    return true;
  }

 private:
  void send() {
    const ByteView rest = ByteView(to_send_).subspan(sent_);
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return finish(std::nullopt);
    sent_ += static_cast<size_t>(sent);
    if (sent_ == to_send_.size()) watch_.set_events(EPOLLIN);
  }
  void receive() {
    std::array<std::byte, 4096> buffer;
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return finish(std::nullopt);
    const ByteView part = ByteView(buffer).first(static_cast<size_t>(got));
    received_.insert(received_.end(), part.begin(), part.end());
    Reader in(received_);
    const size_t length = in.u16be();
    if (!in || in.remaining() < length) return;  // at most 64 KiB, by its length
    auto reply = read(in.bytes(length));
    if (reply && reply->truncated) reply.reset();
    finish(std::move(reply));
  }

  Bytes to_send_;
  size_t sent_ = 0;
  Bytes received_;
};

}

std::unique_ptr<DnsExchange> ask_over_udp(loop::Loop& loop, const Endpoint& resolver,
                                          const Question& question, LetterCase letters,
                                          std::chrono::milliseconds timeout,
                                          DnsExchange::Done done) {
  auto socket = open_socket(resolver.address, SOCK_DGRAM);
  if (!socket) return nullptr;
  // Connected: the kernel chooses a random port and passes on what comes from the resolver alone.
  const SocketAddress to(resolver);
  if (::connect(socket->get(), to.get(), to.length) != 0) return nullptr;
  auto exchange = std::make_unique<UdpExchange>(loop, std::move(*socket), question, letters,
                                                timeout, std::move(done));
  if (!exchange->start()) return nullptr;
  return exchange;
}

std::unique_ptr<DnsExchange> ask_over_tcp(loop::Loop& loop, const Endpoint& resolver,
                                          const Question& question,
                                          std::chrono::milliseconds timeout,
                                          DnsExchange::Done done) {
  auto socket = open_socket(resolver.address, SOCK_STREAM);
  if (!socket) return nullptr;
  auto exchange = std::make_unique<TcpExchange>(loop, std::move(*socket), question,
                                                LetterCase::Plain, timeout, std::move(done));
  if (!exchange->start(resolver)) return nullptr;
  return exchange;
}

}
