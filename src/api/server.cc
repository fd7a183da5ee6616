#include "mvm/api/server.h"

#include <array>
#include <cerrno>

#include <poll.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/http/message.h"
#include "mvm/http/parser.h"
#include "mvm/http/url.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "routes.h"
#include "wire.h"

namespace mvm::api {

namespace {

http::ResponseHead head_of(unsigned status, std::string_view content_type, http::Framing framing,
                           bool close) {
  http::ResponseHead head;
  head.status = status;
  head.reason = http::reason_phrase(status);
  if (!content_type.empty()) head.headers.push_back({"Content-Type", std::string(content_type)});
  if (close) head.headers.push_back({"Connection", "close"});
  head.framing = framing;
  return head;
}

// One answer on its way out.
class WireReply final : public Reply {
 public:
  WireReply(Wire& wire, std::chrono::milliseconds stall, int minor, bool close)
      : wire_(wire), stall_(stall), minor_(minor), close_(close) {}

  void json(unsigned status, std::string_view document) override {
    send(head_of(status, "application/json", {http::BodyKind::Length, document.size()}, close_),
         document);
  }

  void empty() override { send(head_of(204, "", {}, close_), ""); }

  void refuse(unsigned status, std::string_view document, http::Headers extra) {
    auto head =
        head_of(status, "application/json", {http::BodyKind::Length, document.size()}, close_);
    head.headers.insert(head.headers.end(), extra.begin(), extra.end());
    send(head, document);
  }

  bool stream(std::string_view content_type, std::string_view piece) override {
    std::string out;
    if (status_ == 0) {
      // HTTP/1.0 has no chunks: there the end of the connection is the end of the answer.
      streaming_ = true;
      close_ = close_ || minor_ == 0;
      const http::Framing framing{
          minor_ == 0 ? http::BodyKind::UntilClose : http::BodyKind::Chunked, 0};
      status_ = 200;
      out = http::encode(head_of(200, content_type, framing, close_));
    }
    if (minor_ == 0) {
      out += piece;
    } else {
      http::append_chunk(out, piece);
    }
    return put(out) && !wire_.peer_gone();
  }

  void finish() {
    if (streaming_ && minor_ != 0) put(http::kLastChunk);
  }

  bool begun() const { return status_ != 0; }
  unsigned status() const { return status_; }
  bool keeps_connection() const { return !close_ && alive_; }

 private:
  void send(const http::ResponseHead& head, std::string_view body) {
    status_ = head.status;
    put(http::encode(head) + std::string(body));
  }
  bool put(std::string_view bytes) {
    alive_ = alive_ && wire_.write(bytes, stall_);
    return alive_;
  }

  Wire& wire_;
  std::chrono::milliseconds stall_;
  int minor_;
  bool close_;
  bool streaming_ = false;
  bool alive_ = true;
  unsigned status_ = 0;
};

// A request, or what to answer in its place.
struct Incoming {
  enum class Outcome { Request, Gone, Bad } outcome = Outcome::Gone;
  http::RequestHead head;
  std::string body;
  unsigned status = 0;  // Bad
  std::string complaint;
};

Incoming receive(Wire& wire, http::RequestParser& parser, const ServerOptions& options) {
  Incoming incoming;
  std::optional<Clock::time_point> deadline;
  while (true) {
    ByteView input = wire.input();
    while (true) {
      const http::Event event = parser.next(input);
      if (event.kind == http::EventKind::More) break;
      if (event.kind == http::EventKind::Body) incoming.body += as_text(event.body);
      if (event.kind == http::EventKind::Head) {
        incoming.head = parser.head();
        const bool has_body = incoming.head.framing.kind != http::BodyKind::None;
        if (has_body && http::has_token(incoming.head.headers, "expect", "100-continue"))
          wire.write("HTTP/1.1 100 Continue\r\n\r\n", options.write_stall);
      }
      if (event.kind == http::EventKind::Bad) {
        incoming.outcome = Incoming::Outcome::Bad;
        incoming.status = http::fault_status(event.fault);
        incoming.complaint = http::fault_text(event.fault);
        return incoming;
      }
      if (event.kind == http::EventKind::End) {
        wire.consumed_to(input);
        incoming.outcome = Incoming::Outcome::Request;
        return incoming;
      }
    }
    wire.consumed_to(input);

    const bool between = parser.idle();
    if (!between && !deadline) deadline = Clock::now() + options.request_timeout;
    const auto got = wire.read(between ? Clock::now() + options.keep_alive : *deadline);
    if (got == Wire::Got::Data) continue;
    if (got == Wire::Got::Late && !between) {
      incoming.outcome = Incoming::Outcome::Bad;
      incoming.status = 408;
      incoming.complaint = "the request did not arrive in time";
    }
    return incoming;
  }
}

std::string complaint(Kind kind, std::string_view message, std::string_view hint = "") {
  return encode_error(kind, message, hint);
}

// Finds and runs the handler. Returns the pattern of the route, for the log.
std::string_view dispatch(Service& service, Incoming incoming, WireReply& reply) {
  const auto target = http::parse_target(incoming.head.target);
  if (!target) {
    reply.json(400, complaint(Kind::Invalid, "the path or its query is malformed"));
    return "";
  }
  std::string allowed;
  for (const Endpoint& endpoint : endpoints()) {
    auto parameters = match(endpoint.route.pattern, target->path);
    if (!parameters) continue;
    if (endpoint.route.method != incoming.head.method) {
      allowed.append(allowed.empty() ? "" : ", ").append(endpoint.route.method);
      continue;
    }
    endpoint.handle(service, {std::move(*parameters), target->query, std::move(incoming.body)},
                    reply);
    return endpoint.route.pattern;
  }
  if (allowed.empty()) {
    reply.json(404, complaint(Kind::NotFound,
                              "no such path in this API: " + printable(incoming.head.target)));
  } else {
    reply.refuse(
        405,
        complaint(Kind::Invalid, "this path does not take " + printable(incoming.head.method) +
                                     "; it takes " + allowed),
        {{"Allow", allowed}});
  }
  return "";
}

}

Server::Server(Service& service, sys::Fd listener, ServerOptions options)
    : service_(service),
      listener_(std::move(listener)),
      options_(std::move(options)),
      stop_(sys::event_fd()),
      last_active_(Clock::now()) {
  sys::set_nonblocking(listener_.get());
}

Server::~Server() {
  stop();
  reap(true);
}

void Server::stop() noexcept { sys::signal_event(stop_.get()); }

void Server::run(std::chrono::milliseconds idle, const std::function<bool()>& busy) {
  // Also how soon the threads of ended connections are collected.
  constexpr std::chrono::milliseconds kTick{1'000};
  while (true) {
    std::array<pollfd, 2> entries{pollfd{listener_.get(), POLLIN, 0},
                                  pollfd{stop_.get(), POLLIN, 0}};
    const auto tick = idle.count() > 0 ? std::min(idle, kTick) : kTick;
    const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(tick.count()));
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for connections");
    if (ready > 0 && entries[1].revents != 0) return;
    if (ready > 0 && entries[0].revents != 0) accept_all();
    reap(false);
    if (active_ != 0 || (busy && busy())) last_active_ = Clock::now();
    if (idle.count() > 0 && Clock::now() - last_active_.load() >= idle) return;
  }
}

// A connection that cannot be served is told so without a wait: what does not fit its socket buffer
// is lost.
static void turn_away(const sys::Fd& socket, unsigned status, const std::string& document) {
  const std::string answer =
      http::encode(
          head_of(status, "application/json", {http::BodyKind::Length, document.size()}, true)) +
      document;
  try {
    sys::write_some(socket.get(), as_bytes(answer));
  } catch (const SystemError&) {
    // It is gone already.
  }
}

void Server::accept_all() {
  try {
    while (auto socket = sys::accept_connection(listener_.get())) {
      const uid_t user = sys::peer_credentials(socket->get()).uid;
      if (user != ::geteuid() && user != 0) {
        turn_away(*socket, 403, complaint(Kind::Denied, "this daemon serves another user"));
        continue;
      }
      reap(false);
      if (workers_.size() >= options_.connections) {
        turn_away(*socket, 503,
                  complaint(Kind::Unavailable, "the daemon serves too many connections already",
                            "try again in a moment"));
        continue;
      }
      Worker& worker = workers_.emplace_back();
      try {
        worker.thread = std::thread([this, &worker, fd = std::move(*socket)]() mutable {
          serve(std::move(fd));
          worker.done = true;
        });
      } catch (...) {
        workers_.pop_back();
        throw;
      }
    }
  } catch (const std::exception&) {
    // Out of descriptors or threads: the waiting connection stays in the queue. The pause keeps
    // this from spinning until one is free.
    pollfd entry{stop_.get(), POLLIN, 0};
    ::poll(&entry, 1, 100);
  }
}

void Server::reap(bool all) {
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    if (!all && !worker->done) {
      ++worker;
      continue;
    }
    if (worker->thread.joinable()) worker->thread.join();
    worker = workers_.erase(worker);
  }
}

void Server::serve(sys::Fd socket) noexcept {
  try {
    Wire wire(std::move(socket), stop_.get());
    http::RequestParser parser(kMaxRequestBody);
    bool keep = true;
    while (keep) {
      Incoming incoming = receive(wire, parser, options_);
      if (incoming.outcome == Incoming::Outcome::Gone) return;
      if (incoming.outcome == Incoming::Outcome::Bad) {
        WireReply reply(wire, options_.write_stall, 1, true);
        reply.json(incoming.status, complaint(Kind::Invalid, incoming.complaint));
        return;
      }

      ++active_;
      const auto began = Clock::now();
      const http::RequestHead head = incoming.head;
      WireReply reply(wire, options_.write_stall, head.minor,
                      !http::keeps_alive(head.minor, head.headers));
      bool cut = false;
      const auto fail = [&](Kind kind, std::string_view message, std::string_view hint) {
        // A stream that was begun can only be cut off; the client sees that its end is missing.
        cut = reply.begun();
        if (!cut) reply.json(http_status(kind), complaint(kind, message, hint));
      };
      // The route, for the log; "" where the request failed.
      const auto answer = [&]() -> std::string_view {
        try {
          const std::string_view answered = dispatch(service_, std::move(incoming), reply);
          reply.finish();
          return answered;
        } catch (const ApiError& error) {
          fail(error.kind(), error.message(), error.hint());
        } catch (const Error& error) {
          fail(error.kind(), error.message(), "");
        } catch (const std::exception& error) {
          fail(Kind::Internal, error.what(), "");
        }
        return "";
      };
      const std::string_view route = answer();
      last_active_ = Clock::now();
      --active_;
      if (options_.on_request)
        options_.on_request(
            head.method, route, reply.status(),
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began));
      keep = !cut && reply.keeps_connection();
    }
  } catch (const std::exception&) {
    // The connection failed; there is nobody left to tell.
  }
}

}
