#include "hello_peek.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "mvm/http/parser.h"

#include "scratch.h"

namespace mvm::egress {
namespace {

// Until when there is nothing to be learned: the end of the record that has begun, or of its
// header.
size_t end_of_record(ByteView data) {
  constexpr size_t kRecordHeader = 5;
  size_t at = 0;
  while (true) {
    Reader in(data.subspan(std::min(at, data.size())));
    in.skip(3);
    const uint16_t length = in.u16be();
    if (!in) return at + kRecordHeader;
    at += kRecordHeader + length;
    if (at > data.size()) return at;
  }
}

FirstBytes judge(const HelloResult& result) {
  switch (result.state) {
    case HelloState::Whole:
      return FirstBytes::Tls;
    case HelloState::NotTls:
      return FirstBytes::Other;
    case HelloState::Broken:
      return FirstBytes::Broken;
    case HelloState::More:
      break;
  }
  return FirstBytes::None;
}

// Nothing: it is no CONNECT. What waits for more is None.
std::optional<Peeked> read_connect(ByteView data) {
  constexpr std::string_view kConnect = "CONNECT ";
  const size_t length = std::min(data.size(), kConnect.size());
  if (as_text(data.first(length)) != kConnect.substr(0, length)) return std::nullopt;
  if (length < kConnect.size()) return Peeked{};
  http::RequestParser parser;
  ByteView rest = data;
  switch (parser.next(rest).kind) {
    case http::EventKind::More:
      return Peeked{};
    case http::EventKind::Head:
      return Peeked{FirstBytes::Connect, {}, parser.target().authority, data.size() - rest.size()};
    default:
      return Peeked{FirstBytes::Connect, {}, {}, 0};
  }
}

}

void wake_at(int socket, size_t bytes) {
  const int mark = static_cast<int>(bytes);
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
}

void wake_at_once(int socket) { wake_at(socket, 1); }

Peeked peek_first_bytes(int socket) {
  MVM_UNCLEARED std::array<std::byte, kMaxPeeked> buffer;
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return {FirstBytes::Failed, {}, {}, 0};
  if (got == 0) return {FirstBytes::Closed, {}, {}, 0};
  const ByteView data = ByteView(buffer).first(static_cast<size_t>(got));
  if (auto connect = read_connect(data)) {
    if (connect->what == FirstBytes::None) {
      wake_at(socket, data.size() + 1);
    } else {
      wake_at_once(socket);
    }
    return std::move(*connect);
  }
  HelloResult result = read_client_hello(data);
  Peeked peeked{judge(result), std::move(result.hello), {}, 0};
  if (peeked.what != FirstBytes::None) {
    wake_at_once(socket);
    return peeked;
  }
  const size_t wanted = end_of_record(data);
  if (wanted > kMaxPeeked) return {FirstBytes::Broken, {}, {}, 0};
  wake_at(socket, wanted);
  return peeked;
}

}
