#pragma once
// Two sessions, or one and frames made by hand, with what happens written down.

#include <string>
#include <string_view>

#include "mvm/http/h2.h"

namespace mvm::http {

// One end, with its events as text: "[1 head GET /a][1 data 5][1 end]".
struct H2End {
  explicit H2End(H2Side side, const H2Limits& limits = {}) : session(side, limits) {}

  void feed(std::string_view bytes, size_t piece = SIZE_MAX) {
    do {
      const std::string part(bytes.substr(0, piece));  // a copy, so that over-reading is seen
      bytes.remove_prefix(part.size());
      ByteView input = as_bytes(part);
      for (H2Event event = session.next(input); event.kind != H2EventKind::More;
           event = session.next(input)) {
        if (event.kind == H2EventKind::Bad) {
          tell(event);
          return;
        }
        tell(event);
      }
    } while (!bytes.empty());
  }
  std::string take() {
    std::string out;
    session.write(out, SIZE_MAX);
    return out;
  }
  std::string log() { return std::exchange(log_, {}); }

  H2Session session;
  std::string body;
  bool consume = true;
  H2Head head;  // the last one
  Headers trailers;
  std::string_view reason;

 private:
  void tell(const H2Event& event) {
    log_ += "[";
    if (event.stream != 0) log_ += std::to_string(event.stream) + " ";
    switch (event.kind) {
      case H2EventKind::Head:
      case H2EventKind::Interim:
        head = session.head();
        log_ += event.kind == H2EventKind::Head ? "head " : "interim ";
        log_ += head.status == 0 ? head.method + " " + head.path : std::to_string(head.status);
        break;
      case H2EventKind::Data:
        body += as_text(event.data);
        log_ += "data " + std::to_string(event.data.size());
        if (consume) session.consumed(event.stream, event.data.size());
        break;
      case H2EventKind::Trailers:
        trailers = session.trailers();
        log_ += "trailers";
        break;
      case H2EventKind::End:
        log_ += "end";
        break;
      case H2EventKind::Reset:
      case H2EventKind::GoAway:
      case H2EventKind::Bad:
        log_ += event.kind == H2EventKind::Reset    ? "reset "
                : event.kind == H2EventKind::GoAway ? "goaway "
                                                    : "bad ";
        log_ += h2_error_name(event.error);
        reason = event.reason;
        break;
      case H2EventKind::Malformed:
        log_ += "malformed";
        reason = event.reason;
        break;
      case H2EventKind::More:
        break;
    }
    log_ += "]";
  }
  std::string log_;
};

struct H2Link {
  explicit H2Link(const H2Limits& limits = {})
      : client(H2Side::Client, limits), server(H2Side::Server, limits) {}

  void run(size_t piece = SIZE_MAX) {
    while (true) {
      const std::string up = client.take();
      const std::string down = server.take();
      if (up.empty() && down.empty()) break;
      server.feed(up, piece);
      client.feed(down, piece);
    }
    server.feed("");
    client.feed("");
  }

  H2End client;
  H2End server;
};

inline H2Head get(std::string path = "/a") {
  return {"GET", "https", "example.com", std::move(path), "", 0, {{"accept", "*/*"}}};
}
inline H2Head answer(unsigned status = 200) {
  H2Head out;
  out.status = status;
  out.headers = {{"content-type", "text/plain"}};
  return out;
}

// ---- frames by hand (RFC 9113 §4.1)

inline std::string frame(int type, int flags, uint32_t stream, std::string_view payload) {
  std::string out;
  for (const int shift : {16, 8, 0}) out += static_cast<char>(payload.size() >> shift);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}
inline constexpr int kDataFrame = 0, kHeadersFrame = 1, kPriorityFrame = 2, kResetFrame = 3,
                     kSettingsFrame = 4, kPingFrame = 6, kGoAwayFrame = 7, kWindowFrame = 8,
                     kContinuationFrame = 9;
inline constexpr int kEndStream = 1, kEndHeaders = 4;

// A field that enters no table (RFC 7541 §6.2.2), lengths below 127.
inline std::string field(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out += static_cast<char>(name.size());
  out += name;
  out += static_cast<char>(value.size());
  return out.append(value);
}
inline std::string request_block(std::string_view path = "/",
                                 std::string_view authority = "example.com") {
  return field(":method", "GET") + field(":scheme", "https") + field(":authority", authority) +
         field(":path", path);
}
inline std::string preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettingsFrame, 0, 0, "");
}

}
