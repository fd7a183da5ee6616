#include "mvm/api/client.h"

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/http/message.h"
#include "mvm/http/parser.h"
#include "mvm/sys/socket.h"

#include "routes.h"
#include "wire.h"

namespace mvm::api {

inline constexpr uint64_t kMaxAnswer = uint64_t{64} << 20;
inline constexpr size_t kMaxLine = 1 << 20;  // of a stream of JSON lines
// Added to the time that the daemon itself may take for a start or a stop. A start may have to wait
// for its turn first; a daemon that dies meanwhile is noticed at once by its closed socket.
inline constexpr std::chrono::milliseconds kStartMargin{60'000 + kMaxQueueMs};
inline constexpr std::chrono::milliseconds kStopMargin{30'000};

using Milliseconds = std::chrono::milliseconds;

// One request at a time, each on a connection of its own: the answer to "was it done?" never
// depends on when the daemon closed an idle one.
class Client::Connection {
 public:
  Connection(std::string socket, ClientOptions options, sys::Fd first)
      : socket_(std::move(socket)), options_(options), first_(std::move(first)) {}

  const ClientOptions& options() const { return options_; }

  struct Question {
    Route route;
    Parameters parameters;
    Query query;
    std::string body;
  };

  // The whole answer. An error the daemon tells is thrown as it was there.
  std::string ask(const Question& question, Milliseconds timeout) {
    std::string answer;
    exchange(question, Clock::now() + timeout, std::nullopt, [&](std::string_view piece) {
      if (answer.size() + piece.size() > kMaxAnswer)
        throw Error(Kind::Exhausted, "the answer of the daemon is too large");
      answer += piece;
      return true;
    });
    return answer;
  }

  // The answer piece by piece, the first within the usual time, the others with at most `silence`
  // between them (nothing: for as long as it takes).
  void stream(const Question& question, std::optional<Milliseconds> silence, const ByteSink& sink) {
    exchange(question, Clock::now() + options_.timeout, Silence{silence}, sink);
  }

 private:
  struct Silence {
    std::optional<Milliseconds> limit;
  };

  [[noreturn]] void unavailable(const char* what) const {
    throw Error(Kind::Unavailable, "the daemon at " + socket_ + " " + what);
  }

  Wire connect() {
    if (first_) {
      Wire wire(std::exchange(first_, sys::Fd()));
      if (!wire.peer_gone()) return wire;
    }
    auto fd = sys::connect_unix(socket_, sys::Blocking::No);
    if (!fd) unavailable("does not accept connections");
    return Wire(std::move(*fd));
  }

  void exchange(const Question& question, Clock::time_point deadline,
                std::optional<Silence> streaming, const ByteSink& sink) {
    http::RequestHead head;
    head.method = question.route.method;
    head.target = target_of(question.route, question.parameters, question.query);
    head.headers = {{"Host", "mvm"}, {"Connection", "close"}};
    if (!question.body.empty()) {
      head.headers.push_back({"Content-Type", "application/json"});
      head.framing = {http::BodyKind::Length, question.body.size()};
    }
    Wire wire = connect();
    // A failed write is no verdict yet: a daemon that refuses the request early closes, and its
    // answer is waiting to be read.
    wire.write(http::encode(head) + question.body, options_.timeout);

    http::ResponseParser parser;
    parser.expect(head.method);
    std::string error_body;
    std::optional<Clock::time_point> until = deadline;
    while (true) {
      ByteView input = wire.input();
      for (auto event = parser.next(input); event.kind != http::EventKind::More;
           event = parser.next(input)) {
        if (event.kind == http::EventKind::Bad)
          throw Error(Kind::Internal, "the daemon at " + socket_ + " does not speak HTTP: " +
                                          std::string(http::fault_text(event.fault)));
        if (event.kind == http::EventKind::End) return finish(parser.head(), error_body);
        if (event.kind != http::EventKind::Body) continue;
        if (parser.head().status >= 400) {
          if (error_body.size() + event.body.size() > http::kMaxHead) unavailable("rambles");
          error_body += as_text(event.body);
        } else if (!sink(as_text(event.body))) {
          return;
        }
      }
      wire.consumed_to(input);

      if (streaming && !parser.idle() && parser.head().status != 0)
        until = streaming->limit ? std::optional(Clock::now() + *streaming->limit) : std::nullopt;
      switch (wire.read(until)) {
        case Wire::Got::Data:
          break;
        case Wire::Got::Closed:
          if (parser.idle()) unavailable("went away without an answer");
          if (parser.end_of_input().kind != http::EventKind::End)
            unavailable("went away in the middle of an answer");
          return finish(parser.head(), error_body);
        case Wire::Got::Late:
        case Wire::Got::Interrupted:
          throw Error(Kind::Timeout, "the daemon at " + socket_ +
                                         " accepted the request but did not answer in time");
      }
    }
  }

  void finish(const http::ResponseHead& head, const std::string& error_body) const {
    if (head.status < 400) return;
    std::optional<ApiError> told;
    try {
      told = decode_error(error_body);
    } catch (const Error&) {
      throw Error(Kind::Internal, "the daemon at " + socket_ + " answered with status " +
                                      std::to_string(head.status) + " and no reason");
    }
    throw ApiError(*told);
  }

  std::string socket_;
  ClientOptions options_;
  sys::Fd first_;
};

std::unique_ptr<Client> Client::connect(const std::string& socket, ClientOptions options) {
  auto fd = sys::connect_unix(socket, sys::Blocking::No);
  if (!fd) return nullptr;
  return std::unique_ptr<Client>(
      new Client(std::make_unique<Connection>(socket, options, std::move(*fd))));
}

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::~Client() = default;

// Sums of what a user asked for stay far from overflow.
static Milliseconds bounded(uint64_t milliseconds) {
  return Milliseconds(std::min<uint64_t>(milliseconds, 24 * kMaxBootTimeoutMs));
}

Version Client::version() {
  return decode_version(
      connection_->ask({kGetVersion, {}, {}, {}}, connection_->options().timeout));
}

std::vector<Sandbox> Client::sandboxes(bool all) {
  return decode_sandboxes(connection_->ask(
      {kListSandboxes, {}, {{"all", all ? "true" : "false"}}, {}}, connection_->options().timeout));
}

Sandbox Client::create(const SandboxSpec& spec) {
  return decode_sandbox(connection_->ask({kCreateSandbox, {}, {}, encode(spec)},
                                         bounded(spec.boot_timeout_ms) + kStartMargin));
}

Sandbox Client::sandbox(const std::string& name) {
  return decode_sandbox(
      connection_->ask({kGetSandbox, {name}, {}, {}}, connection_->options().timeout));
}

Sandbox Client::stop(const std::string& name, const StopRequest& request) {
  return decode_sandbox(connection_->ask({kStopSandbox, {name}, {}, encode(request)},
                                         bounded(request.grace_ms) + kStopMargin));
}

Sandbox Client::wait(const std::string& name, const WaitRequest& request) {
  return decode_sandbox(
      connection_->ask({kWaitForSandbox, {name}, {}, encode(request)},
                       bounded(request.timeout_ms) + connection_->options().timeout));
}

Sandbox Client::start(const std::string& name, const StartRequest& request) {
  return decode_sandbox(connection_->ask({kStartSandbox, {name}, {}, encode(request)},
                                         bounded(request.boot_timeout_ms) + kStartMargin));
}

void Client::remove(const std::string& name, bool force) {
  connection_->ask({kRemoveSandbox, {name}, {{"force", force ? "true" : "false"}}, {}},
                   connection_->options().timeout + kStopMargin);
}

proto::PublishedPort Client::publish(const std::string& name, const proto::PublishedPort& port) {
  return decode_port(connection_->ask({kPublishPort, {name}, {}, encode(port)},
                                      connection_->options().timeout + kStopMargin));
}

void Client::unpublish(const std::string& name, const proto::PublishedPort& port) {
  connection_->ask({kUnpublishPort, {name, port.place()}, {}, {}},
                   connection_->options().timeout + kStopMargin);
}

void Client::logs(const std::string& name, bool follow, const ByteSink& sink) {
  connection_->stream({kGetLogs, {name}, {{"follow", follow ? "true" : "false"}}, {}},
                      follow ? std::nullopt : std::optional(connection_->options().timeout), sink);
}

std::vector<Image> Client::images() {
  return decode_images(connection_->ask({kListImages, {}, {}, {}}, connection_->options().timeout));
}

Image Client::image(const std::string& reference) {
  return decode_image(
      connection_->ask({kGetImage, {reference}, {}, {}}, connection_->options().timeout));
}

// The image at the end of a stream of progress.
template <typename Connection, typename Question>
static Image stream_image(Connection& connection, const Question& question,
                          const ProgressSink& progress) {
  std::string pending;
  std::optional<Image> image;
  bool given_up = false;
  connection.stream(question, connection.options().import_silence, [&](std::string_view piece) {
    pending += piece;
    for (size_t end = 0; (end = pending.find('\n')) != std::string::npos;) {
      ImportEvent event = decode_import_event(std::string_view(pending).substr(0, end));
      pending.erase(0, end + 1);
      if (event.error) throw ApiError(*event.error);
      if (event.image) image = std::move(event.image);
      if (event.progress && progress && !progress(*event.progress)) given_up = true;
    }
    if (pending.size() > kMaxLine)
      throw Error(Kind::Exhausted, "a line of the daemon's answer is too long");
    return !given_up;
  });
  if (given_up) throw Error(Kind::Unavailable, "the import was given up");
  if (!image) throw Error(Kind::Internal, "the daemon ended the import without an image");
  return *image;
}

Image Client::import_image(const ImportRequest& request, const ProgressSink& progress) {
  return stream_image(*connection_, Connection::Question{kImportImage, {}, {}, encode(request)},
                      progress);
}

Image Client::pull_image(const PullRequest& request, const ProgressSink& progress) {
  return stream_image(*connection_, Connection::Question{kPullImage, {}, {}, encode(request)},
                      progress);
}

Image Client::capture_image(const CaptureRequest& request, const ProgressSink& progress) {
  return stream_image(*connection_, Connection::Question{kCaptureImage, {}, {}, encode(request)},
                      progress);
}

Image Client::adopt_image(const AdoptRequest& request) {
  return decode_image(
      connection_->ask({kAdoptImage, {}, {}, encode(request)}, connection_->options().timeout));
}

Image Client::tag_image(const std::string& reference, const TagRequest& request) {
  return decode_image(connection_->ask({kTagImage, {reference}, {}, encode(request)},
                                       connection_->options().timeout));
}

Image Client::verify_image(const std::string& reference) {
  return decode_image(
      connection_->ask({kVerifyImage, {reference}, {}, {}}, connection_->options().import_silence));
}

PruneResult Client::prune_images(const PruneRequest& request) {
  return decode_prune_result(connection_->ask({kPruneImages, {}, {}, encode(request)},
                                              connection_->options().timeout + kStopMargin));
}

void Client::remove_image(const std::string& reference, bool force) {
  connection_->ask({kRemoveImage, {reference}, {{"force", force ? "true" : "false"}}, {}},
                   connection_->options().timeout + kStopMargin);
}

std::vector<Kernel> Client::kernels() {
  return decode_kernels(
      connection_->ask({kListKernels, {}, {}, {}}, connection_->options().timeout));
}

Kernel Client::import_kernel(const KernelImportRequest& request) {
  return decode_kernel(connection_->ask({kImportKernel, {}, {}, encode(request)},
                                        connection_->options().timeout + kStopMargin));
}

void Client::remove_kernel(const std::string& name, bool force) {
  connection_->ask({kRemoveKernel, {name}, {{"force", force ? "true" : "false"}}, {}},
                   connection_->options().timeout + kStopMargin);
}

std::vector<AiUsage> Client::ai_usage() {
  return decode_ai_usages(
      connection_->ask({kGetAiUsage, {}, {}, {}}, connection_->options().timeout));
}

AiUsage Client::change_ai_budget(const std::string& name, const proto::AiBudgetRequest& request) {
  return decode_ai_usage(connection_->ask({kChangeAiBudget, {name}, {}, encode(request)},
                                          connection_->options().timeout));
}

std::string Client::metrics(bool otlp) {
  return connection_->ask({kGetMetrics, {}, {{"otlp", otlp ? "true" : "false"}}, {}},
                          connection_->options().timeout + kStopMargin);
}

void Client::stop_daemon() {
  connection_->ask({kStopDaemon, {}, {}, {}}, connection_->options().timeout);
}

}
