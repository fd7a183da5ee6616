#pragma once
// A client of the server, and sandboxes for it.

#include <array>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/mcp/lines.h"
#include "mvm/mcp/server.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "native_sandbox.h"

namespace mvm::mcp {

inline constexpr int kPatience = 30'000;  // milliseconds, for what comes at once

// A client at the other end of two sockets, and the server in a thread.
class Session {
 public:
  Session(Target target, std::chrono::milliseconds heartbeat = std::chrono::minutes(1))
      : target_(std::move(target)) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    client_ = std::move(ours);
    server_ = std::move(theirs);
    options_ = {server_.get(), server_.get(), "1.2.3", heartbeat};
    thread_ = std::thread([this] {
      serve(target_, options_);
      ::shutdown(server_.get(), SHUT_RDWR);
    });
  }
  ~Session() { close(); }

  void send(const std::string& line) { sys::write_all(client_.get(), as_bytes(line + "\n")); }
  json::Value next() {
    Bytes piece(65536);
    while (true) {
      if (const auto line = lines_.next()) return json::parse(line->text, "what the server said");
      pollfd entry{client_.get(), POLLIN, 0};
      if (::poll(&entry, 1, kPatience) != 1) throw std::runtime_error("the server says nothing");
      const size_t got = sys::read_some(client_.get(), piece).value_or(0);
      if (got == 0) throw std::runtime_error("the server has ended");
      lines_.feed(as_text(ByteView(piece).first(got)));
    }
  }
  void initialize(const std::string& revision = "2025-06-18") {
    send(R"({"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":")" +
         revision + R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
    EXPECT_EQ(next().at("result").at("protocolVersion"), revision);
    send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  }
  void ask(int id, const std::string& tool, const json::Value& arguments,
           const json::Value& meta = json::Value::object()) {
    const json::Value params{{"name", tool}, {"arguments", arguments}, {"_meta", meta}};
    send(json::dump(
        json::Value{{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", params}}));
  }
  void cancel(int id) {
    send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" +
         std::to_string(id) + "}}");
  }
  // The result of a call whose answer is the next thing that comes.
  json::Value call(const std::string& tool, const json::Value& arguments) {
    ask(++last_id_, tool, arguments);
    const json::Value got = next();
    EXPECT_EQ(got.at("id"), last_id_);
    const json::Value& result = got.at("result");
    EXPECT_EQ(json::parse(result.at("content").at(0).at("text").get<std::string>(), "text"),
              result.at("structuredContent"));
    is_error = result.at("isError").get<bool>();
    return result.at("structuredContent");
  }
  json::Value sh(const std::string& script) {
    return call("run", {{"argv", {"sh", "-c", script}}});
  }
  void close() {
    client_.reset();
    if (thread_.joinable()) thread_.join();
  }
  // The client's end of its words alone.
  void end_input() { ::shutdown(client_.get(), SHUT_WR); }

  bool is_error = false;

 private:
  Target target_;
  ServerOptions options_;
  sys::Fd client_;
  sys::Fd server_;
  LineBuffer lines_;
  int last_id_ = 1000;
  std::thread thread_;
};

class Servers : public testing::Test {
 protected:
  Servers() { ::signal(SIGPIPE, SIG_IGN); }
  Target target(bool redact = false) {
    return {"web", dir_.path() + "/control.sock", [redact](const std::string&) { return redact; },
            [](const std::string&) { return Refusals{}; }};
  }
  std::string in(const std::string& name) const { return dir_.path() + "/" + name; }
  void make(const std::string& name, std::string_view content) {
    sys::write_file_atomic(in(name), as_bytes(content), 0644);
  }
  std::string text(const std::string& name) { return sys::read_text_file(in(name), 64 << 20); }
  // What a fifo's reader has to wait for: that somebody has it open to write, and then has not.
  void wait_for_end_of(const sys::Fd& fifo) {
    pollfd entry{fifo.get(), 0, 0};
    ASSERT_EQ(::poll(&entry, 1, kPatience), 1) << "it still runs";
    EXPECT_NE(entry.revents & POLLHUP, 0);
  }

  sys::TempDir dir_;
};

class WithSandbox : public Servers {
 protected:
  NativeSandbox sandbox_{dir_.path() + "/control.sock"};
};

}
