// The server against raw bytes, and the client against the server and against bad peers.

#include "mvm/api/server.h"

#include <array>
#include <condition_variable>
#include <csignal>

#include <sys/socket.h>

#include <gtest/gtest.h>

#include "mvm/api/client.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::api {

using std::chrono::milliseconds;

// Answers from what the test put in.
class ScriptedService final : public Service {
 public:
  std::vector<AiUsage> ai_usage() override {
    AiUsage usage;
    usage.sandbox = "web";
    usage.budget.max_total_tokens = 5;
    usage.models.push_back({"openai", "gpt-4o", {.requests = 1, .total_tokens = 29}});
    return {usage};
  }
  AiUsage change_ai_budget(const std::string& name,
                           const proto::AiBudgetRequest& request) override {
    AiUsage usage;
    usage.sandbox = name + (request.reset ? " reset" : "");
    if (request.budget) usage.budget = *request.budget;
    return usage;
  }
  std::string metrics(bool otlp) override { return otlp ? "{}" : "mvm_up 1\n"; }
  Version version() override { return {"9.9", 1, 1, "t", "/r", "/d", 0}; }
  std::vector<Sandbox> sandboxes(bool all) override {
    Sandbox sandbox;
    sandbox.id = sandbox.name = all ? "all" : "live";
    return {sandbox};
  }
  Sandbox create(const SandboxSpec& spec) override {
    if (spec.name == "taken")
      throw ApiError(Kind::Conflict, "taken exists already", "mvm rm taken");
    if (spec.name == "bug") throw std::runtime_error("a bug");
    Sandbox sandbox;
    sandbox.id = "sb-1";
    sandbox.name = spec.name;
    return sandbox;
  }
  Sandbox sandbox(const std::string& name) override {
    Sandbox sandbox;
    sandbox.id = sandbox.name = name;
    return sandbox;
  }
  Sandbox stop(const std::string& name, const StopRequest& request) override {
    Sandbox out = sandbox(name);
    out.cpus = static_cast<uint32_t>(request.grace_ms);
    return out;
  }
  Sandbox wait(const std::string& name, const WaitRequest& request) override {
    Sandbox out = sandbox(name);
    out.cpus = static_cast<uint32_t>(request.timeout_ms);
    return out;
  }
  Sandbox start(const std::string& name, const StartRequest&) override { return sandbox(name); }
  void remove(const std::string& name, bool force) override {
    if (!force) throw Error(Kind::Conflict, name + " runs");
  }
  proto::PublishedPort publish(const std::string& name, const proto::PublishedPort& port) override {
    proto::PublishedPort out = port;
    if (name == "chosen") out.host = 40'000;
    return out;
  }
  void unpublish(const std::string& name, const proto::PublishedPort& port) override {
    throw Error(Kind::NotFound, name + " has no " + port.place());
  }
  void logs(const std::string& name, bool follow, const ByteSink& sink) override {
    if (name == "none") return;
    if (name == "broken" && sink("begun")) throw Error(Kind::Internal, "disk");
    if (!follow) {
      sink("one\n");
      sink("two\n");
      return;
    }
    // Until the client is gone.
    while (sink(".")) {
    }
    const std::lock_guard lock(mutex_);
    reader_gone_ = true;
    changed_.notify_all();
  }
  std::vector<Image> images() override { return {}; }
  Image image(const std::string& reference) override {
    Image image;
    image.name = reference;
    return image;
  }
  Image import_image(const ImportRequest& request, const ProgressSink& progress) override {
    if (request.name == "early") throw Error(Kind::NotFound, "no such file");
    progress({"reading", 1, 2, ""});
    if (request.name == "late") throw ApiError(Kind::Exhausted, "disk full", "make room");
    progress({"writing", 2, 2, ""});
    return image(request.name);
  }
  Image pull_image(const PullRequest& request, const ProgressSink&) override {
    return image(request.reference);
  }
  Image capture_image(const CaptureRequest& request, const ProgressSink& progress) override {
    progress({"reading", 1, 0, ""});
    Image made = image(request.name);
    made.source = request.sandbox + " " + request.key;
    return made;
  }
  Image adopt_image(const AdoptRequest& request) override {
    if (request.key != "flake:known") throw Error(Kind::NotFound, "no such work");
    return image(request.name);
  }
  void remove_image(const std::string&, bool) override {}
  Image tag_image(const std::string&, const TagRequest& request) override {
    return image(request.name);
  }
  Image verify_image(const std::string& reference) override { return image(reference); }
  PruneResult prune_images(const PruneRequest& request) override {
    return {{"one"}, request.all ? 2U : 1U, 4096};
  }
  std::vector<Kernel> kernels() override { return {{"k", "/k", 1, 0, true}}; }
  Kernel import_kernel(const KernelImportRequest& request) override {
    return {"new", request.source, 1, 0, request.make_default};
  }
  void remove_kernel(const std::string& name, bool) override {
    throw ApiError(Kind::NotFound, "no kernel " + name, "mvm kernel ls");
  }
  void stop_daemon() override {}

  bool reader_went(milliseconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return reader_gone_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reader_gone_ = false;
};

class ServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { std::signal(SIGPIPE, SIG_IGN); }
  void TearDown() override { end(); }

  void serve(ServerOptions options = {}) {
    server_ = std::make_unique<Server>(service_, sys::listen_unix(path_), std::move(options));
    thread_ = std::thread([this] { server_->run(); });
  }
  void end() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  sys::Fd connect() const { return std::move(*sys::connect_unix(path_)); }

  static std::string read_all(const sys::Fd& fd) {
    std::string out;
    std::array<std::byte, 4096> buffer{};
    try {
      while (const size_t got = sys::read_some(fd.get(), buffer).value_or(0))
        out += as_text(ByteView(buffer).first(got));
    } catch (const SystemError& error) {
      if (error.errno_value() != ECONNRESET) throw;
    }
    return out;
  }
  // Sends it, ends our direction, and reads until the server closes.
  std::string exchange(std::string_view request) const {
    const sys::Fd fd = connect();
    try {
      sys::write_all(fd.get(), as_bytes(request));
    } catch (const SystemError& error) {
      if (error.errno_value() != EPIPE) throw;
    }
    ::shutdown(fd.get(), SHUT_WR);
    return read_all(fd);
  }
  static std::string post(std::string_view target, std::string_view body) {
    return "POST " + std::string(target) +
           " HTTP/1.1\r\nHost: mvm\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
  }
  static std::string get(std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: mvm\r\n\r\n";
  }
  static std::string first_line(const std::string& answer) {
    return answer.substr(0, answer.find("\r\n"));
  }
  std::unique_ptr<Client> client(ClientOptions options = {}) const {
    auto client = Client::connect(path_, options);
    if (!client) throw Error(Kind::Unavailable, "nobody listens");
    return client;
  }

  sys::TempDir directory_;
  std::string path_ = directory_.path() + "/daemon.sock";
  ScriptedService service_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  serve();
  const std::string answer = exchange(get("/v1/version") + get("/v1/kernels"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"));
  EXPECT_NE(answer.find("\"version\":\"9.9\""), std::string::npos);
  EXPECT_NE(answer.find("\"default\":true"), std::string::npos);
}

TEST_F(ServerTest, UnknownPathIs404AndWrongMethod405) {
  serve();
  for (const char* target : {"/", "/v2/version", "/v1", "/v1/sandboxes/a/b", "/v1/version/x"})
    EXPECT_EQ(first_line(exchange(get(target))).find("HTTP/1.1 40"), 0U) << target;
  EXPECT_EQ(first_line(exchange(get("/v1/nothing"))), "HTTP/1.1 404 Not Found");
  const std::string answer = exchange("PUT /v1/sandboxes HTTP/1.1\r\nHost: mvm\r\n\r\n");
  EXPECT_EQ(first_line(answer), "HTTP/1.1 405 Method Not Allowed");
  EXPECT_NE(answer.find("Allow: GET, POST\r\n"), std::string::npos);
}

TEST_F(ServerTest, BadRequestsAreToldAndEndNothingElse) {
  serve();
  EXPECT_EQ(first_line(exchange("nonsense\r\n\r\n")), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line(exchange(post("/v1/sandboxes", "{"))), "HTTP/1.1 400 Bad Request");
  EXPECT_NE(exchange(post("/v1/sandboxes", R"({"image":"b","cpus":"two"})")).find("sandbox.cpus"),
            std::string::npos);
  EXPECT_NE(exchange(get("/v1/sandboxes?al=true")).find("unknown query parameter \\\"al\\\""),
            std::string::npos);
  EXPECT_EQ(first_line(exchange(get("/v1/sandboxes?all=maybe"))), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line(exchange(get("/v1/sandboxes/%2e%2e"))), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line(exchange(post("/v1/daemon/stop", "x"))), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(client()->version().version, "9.9");
}

TEST_F(ServerTest, BodyLimitIsExact) {
  serve();
  const std::string fits(kMaxRequestBody, ' ');
  EXPECT_EQ(first_line(exchange(post("/v1/sandboxes", fits))), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line(exchange(post("/v1/sandboxes", fits + " "))),
            "HTTP/1.1 413 Content Too Large");
}

TEST_F(ServerTest, SlowRequestIs408) {
  serve({.request_timeout = milliseconds(50)});
  const sys::Fd fd = connect();
  sys::write_all(fd.get(), as_bytes("GET /v1/version HTT"));
  EXPECT_EQ(first_line(read_all(fd)), "HTTP/1.1 408 Request Timeout");
}

TEST_F(ServerTest, IdleConnectionIsClosed) {
  serve({.keep_alive = milliseconds(20)});
  EXPECT_EQ(read_all(connect()), "");
}

TEST_F(ServerTest, ConnectionsBeyondTheLimitAre503) {
  serve({.connections = 2});
  const sys::Fd one = connect();
  const sys::Fd two = connect();
  EXPECT_EQ(first_line(read_all(connect())), "HTTP/1.1 503 Service Unavailable");
  // The two that were there first are served.
  sys::write_all(one.get(), as_bytes(get("/v1/version")));
  ::shutdown(one.get(), SHUT_WR);
  EXPECT_EQ(first_line(read_all(one)), "HTTP/1.1 200 OK");
}

TEST_F(ServerTest, ExpectationIsAnsweredBeforeTheBody) {
  serve();
  const sys::Fd fd = connect();
  sys::write_all(fd.get(),
                 as_bytes("POST /v1/sandboxes HTTP/1.1\r\nHost: mvm\r\nContent-Length: 2\r\n"
                          "Expect: 100-continue\r\n\r\n"));
  std::array<std::byte, 25> interim{};
  ASSERT_TRUE(sys::read_exact(fd.get(), interim));
  EXPECT_EQ(as_text(interim), "HTTP/1.1 100 Continue\r\n\r\n");
  sys::write_all(fd.get(), as_bytes("{}"));
  ::shutdown(fd.get(), SHUT_WR);
  EXPECT_EQ(first_line(read_all(fd)), "HTTP/1.1 400 Bad Request");
}

TEST_F(ServerTest, StreamsEndWithTheConnectionForHttp10) {
  serve();
  const std::string answer = exchange("GET /v1/sandboxes/web/logs HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\none\ntwo\n"));
}

TEST_F(ServerTest, ReaderThatGoesAwayEndsTheStream) {
  serve();
  {
    const sys::Fd fd = connect();
    sys::write_all(fd.get(), as_bytes(get("/v1/sandboxes/web/logs?follow=true")));
    std::array<std::byte, 16> begun{};
    ASSERT_TRUE(sys::read_exact(fd.get(), begun));
  }
  EXPECT_TRUE(service_.reader_went(milliseconds(20'000)));
}

TEST_F(ServerTest, ClientMakesEveryCall) {
  serve();
  auto calls = client();
  EXPECT_EQ(calls->version().version, "9.9");
  EXPECT_EQ(calls->sandboxes(true).at(0).name, "all");
  EXPECT_EQ(calls->sandboxes(false).at(0).name, "live");
  EXPECT_EQ(calls->create({.name = "web", .image = "b"}).name, "web");
  EXPECT_EQ(calls->sandbox("a b/c?%").name, "a b/c?%");
  EXPECT_EQ(calls->stop("web", {.grace_ms = 7}).cpus, 7U);
  EXPECT_EQ(calls->start("web", {}).name, "web");
  calls->remove("web", true);
  EXPECT_TRUE(calls->images().empty());
  EXPECT_EQ(calls->image("base:1").name, "base:1");
  calls->remove_image("base", false);
  EXPECT_EQ(calls->kernels().at(0).name, "k");
  calls->stop_daemon();
  std::string log;
  calls->logs("web", false, [&](std::string_view piece) {
    log += piece;
    return true;
  });
  EXPECT_EQ(log, "one\ntwo\n");
  calls->logs("none", false, [](std::string_view) { return true; });
  std::string stages;
  EXPECT_EQ(calls
                ->import_image({"/x", "fine"},
                               [&](const ImportProgress& progress) {
                                 stages += progress.stage + " ";
                                 return true;
                               })
                .name,
            "fine");
  EXPECT_EQ(stages, "reading writing ");
}

TEST_F(ServerTest, ErrorsArriveAsTheyWereThrown) {
  serve();
  auto calls = client();
  const auto told = [](auto call) -> std::string {
    try {
      call();
    } catch (const ApiError& error) {
      return std::string(kind_name(error.kind())) + "|" + error.message() + "|" + error.hint();
    } catch (const Error& error) {
      return std::string(kind_name(error.kind())) + "|" + error.message();
    }
    return "no error";
  };
  EXPECT_EQ(told([&] { calls->create({.name = "taken", .image = "b"}); }),
            "conflict|taken exists already|mvm rm taken");
  EXPECT_EQ(told([&] { calls->create({.name = "bug", .image = "b"}); }), "internal|a bug|");
  EXPECT_EQ(told([&] { calls->remove("web", false); }), "conflict|web runs|");
  CaptureRequest capture{"box", {"tar"}, "web", "/flake", "flake:1"};
  EXPECT_EQ(calls->capture_image(capture, {}).source, "box flake:1");
  EXPECT_EQ(calls->adopt_image({"flake:known", "web"}).name, "web");
  EXPECT_EQ(told([&] { calls->adopt_image({"flake:other", "web"}); }), "not_found|no such work|");
  EXPECT_EQ(told([&] { calls->import_image({"/x", "early"}, {}); }), "not_found|no such file|");
  EXPECT_EQ(told([&] { calls->import_image({"/x", "late"}, {}); }),
            "exhausted|disk full|make room");
  EXPECT_EQ(told([&] { calls->logs("broken", false, [](std::string_view) { return true; }); }),
            "unavailable|the daemon at " + path_ + " went away in the middle of an answer");
}

TEST_F(ServerTest, ClientFindsNobody) {
  EXPECT_EQ(Client::connect(path_), nullptr);
  sys::listen_unix(path_).reset();  // the file stays
  EXPECT_EQ(Client::connect(path_), nullptr);
}

TEST_F(ServerTest, DaemonThatNeverAnswersIsATimeoutThatNamesTheSocket) {
  const sys::Fd listener = sys::listen_unix(path_);
  try {
    client({.timeout = milliseconds(30)})->version();
    FAIL() << "answered by nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Timeout);
    EXPECT_NE(error.message().find(path_), std::string::npos);
  }
}

TEST_F(ServerTest, PeerThatIsNoDaemonIsOneClearError) {
  const std::vector<std::pair<std::string, Kind>> answers{
      {"", Kind::Unavailable},
      {"garbage\r\n\r\n", Kind::Internal},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", Kind::Unavailable},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", Kind::Invalid},
      {"HTTP/1.1 500 Oops\r\nContent-Length: 1\r\n\r\n{", Kind::Internal},
  };
  for (const auto& [answer, kind] : answers) {
    const sys::Fd listener = sys::listen_unix(path_);
    auto calls = client();
    const sys::Fd peer = std::move(*sys::accept_connection(listener.get()));
    sys::write_all(peer.get(), as_bytes(answer));
    ::shutdown(peer.get(), SHUT_WR);
    try {
      calls->version();
      ADD_FAILURE() << "accepted " << answer;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << answer << ": " << error.message();
    }
  }
}

TEST_F(ServerTest, IdleServerEndsUnlessBusy) {
  Server server(service_, sys::listen_unix(path_));
  std::atomic<int> asked{0};
  server.run(milliseconds(10), [&] { return ++asked < 3; });
  EXPECT_GE(asked, 3);
}

}
