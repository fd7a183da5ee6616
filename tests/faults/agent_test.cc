// What the guest's agent does when the system lets it down: each verb is asked for again and again,
// and each time another one of the agent's system calls fails. It must answer, that time and the
// next, and keep nothing of what failed.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/agent/copy.h"
#include "mvm/agent/exec.h"
#include "mvm/agent/files.h"
#include "mvm/proto/forward.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

#include "lane.h"
#include "sample.h"
#include "seam.h"
#include "server.h"

namespace mvm::faults {

static constexpr int kListenerFd = 3;
static constexpr int kPlanFd = 4;

// ---- the agent, in a process of its own ---------------------------------------------------------

static int run_agent(const std::string& lanes) {
  try {
    loop::Loop loop;
    guest::Server::Options options;
    options.copies.listen_lane = [&lanes, last = uint32_t{0}]() mutable {
      ++last;
      return guest::LaneListener{sys::listen_unix(lanes + "/" + std::to_string(last)), last};
    };
    guest::Server server(loop, std::move(options));
    sys::set_nonblocking(kListenerFd);
    for (const int fd : {kListenerFd, kPlanFd})
      sys::check(::fcntl(fd, F_SETFD, FD_CLOEXEC), "taking a descriptor");
    // In place of the vsock listener.
    const loop::Watch accepting = loop.watch(kListenerFd, EPOLLIN, [&](uint32_t) {
      if (auto socket = sys::accept_connection(kListenerFd)) server.serve(std::move(*socket));
    });
    watch_calls(map_plan(kPlanFd));
    loop.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent: %s\n", error.what());
    return 1;
  }
}

// ---- and whoever asks it ------------------------------------------------------------------------

class Guest {
 public:
  Guest() : plan_fd_(sys::memory_file("plan", sizeof(Plan))), plan_(&map_plan(plan_fd_.get())) {
    sys::make_directories(in("data"));
    sys::make_directories(in("lanes"));
    sys::make_directories(in("tree/folder"), 0755);
    sys::write_file_atomic(in("tree/folder/file"), as_bytes("content"), 0644);
    sys::check(::symlink("folder/file", in("tree/link").c_str()), "making a link");
    sys::write_file_atomic(in("large"), Bytes(size_t{3} << 20, std::byte{'x'}), 0644);
    sys::write_file_atomic(in("data/file"), as_bytes("some text\n"), 0644);
    const sys::Fd listener = sys::listen_unix(in("agent"));
    sys::SpawnOptions options;
    options.argv = {sys::own_executable(), "agent", in("lanes")};
    options.env = {"PATH=/usr/bin:/bin"};
    options.fds = {
        {listener.get(), kListenerFd}, {plan_fd_.get(), kPlanFd}, {0, 0}, {1, 1}, {2, 2}};
    options.die_with_parent = true;
    agent_ = sys::spawn(options);
  }
  ~Guest() {
    agent_.signal(SIGKILL);
    agent_.wait();
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  // A connection that the agent has answered on.
  void connect() {
    connection_.emplace(sys::connect_unix(in("agent")).value());
    connection_->set_dial([this](uint32_t port) {
      auto lane = sys::connect_unix(in("lanes/" + std::to_string(port)));
      if (!lane) throw Error(Kind::Unavailable, "nobody serves the lane");
      return std::move(*lane);
    });
    connection_->ping(kPatience);
  }
  void disconnect() { connection_.reset(); }
  agent::Connection& connection() { return *connection_; }
  bool lives() { return !agent_.wait(std::chrono::milliseconds(0)); }

  void arm(int n, int error) {
    plan_->calls = 0;
    plan_->error = error;
    plan_->victim = agent_.pid();
    plan_->countdown = n;
  }
  bool disarm() { return plan_->countdown.exchange(0) <= 0; }

  // Descriptors and children of the agent, and files it made, once it rests.
  std::string holds() const {
    const std::string process = "/proc/" + std::to_string(agent_.pid());
    std::string out =
        std::to_string(sys::list_directory(process + "/fd").size()) + " descriptors, children: " +
        sys::read_text_file(process + "/task/" + std::to_string(agent_.pid()) + "/children", 4096) +
        ", files:";
    for (const std::string& name : sys::list_directory(in("data"))) out += " " + name;
    return out;
  }

  static constexpr std::chrono::milliseconds kPatience{10'000};

 private:
  sys::TempDir folder_;
  sys::Fd plan_fd_;
  Plan* plan_;
  sys::Child agent_;
  std::optional<agent::Connection> connection_;
};

static proto::ExecRequest command(std::vector<std::string> argv) {
  proto::ExecRequest request;
  request.argv = std::move(argv);
  request.cwd = "/";
  return request;
}

static void must(bool holds, const char* what) {
  if (!holds) throw Error(Kind::Internal, std::string("wrong: ") + what);
}

// The other end of a forwarded connection, if one comes before it goes.
class Answering {
 public:
  Answering() {
    sys::set_nonblocking(listener_.get(), false);
    thread_ = std::thread([this] {
      const sys::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Bytes said(5);
      if (!socket || !sys::read_exact(socket.get(), said)) return;
      sys::write_all(socket.get(), as_bytes(as_text(said) == "there" ? "back" : "what?"));
    });
  }
  ~Answering() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  uint16_t port() const { return port_; }

 private:
  uint16_t port_ = 0;
  sys::Fd listener_ = sys::listen_tcp(*IpAddress::parse("127.0.0.1"), port_);
  std::thread thread_;
};

struct Verb {
  const char* name;
  std::function<void(Guest&)> act;
};

static std::vector<Verb> verbs() {
  return {
      {"ping", [](Guest& guest) { guest.connection().ping(Guest::kPatience); }},
      {"info", [](Guest& guest) { guest.connection().info(Guest::kPatience); }},
      {"metrics", [](Guest& guest) { guest.connection().metrics(Guest::kPatience); }},
      {"exec",
       [](Guest& guest) {
         std::string said;
         const auto result = agent::run_command(
             guest.connection(), command({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}),
             [&](agent::Stream, ByteView data) { said += as_text(data); }, Guest::kPatience);
         must(result.exit_code == 3 && said.size() == 8, "a command's output or code");
       }},
      {"exec on a terminal",
       [](Guest& guest) {
         auto request = command({"/bin/sh", "-c", "stty size"});
         request.tty = true;
         request.size = {7, 9};
         std::string said;
         auto& connection = guest.connection();
         connection.start(request.encode(), agent::Call::Kind::Exec);
         while (true) {
           const auto incoming = connection.wait(Guest::kPatience);
           if (incoming.what == agent::Incoming::What::End) break;
           if (incoming.what != agent::Incoming::What::Stdout) continue;
           said += as_text(incoming.payload);
           connection.consumed(incoming.payload.size());
         }
         must(said.find("7 9") != said.npos, "the terminal's size");
       }},
      {"put",
       [](Guest& guest) {
         agent::put(guest.connection(), guest.in("tree"), guest.in("data"), {});
         must(sys::read_text_file(guest.in("data/tree/link"), 100) == "content", "the copy");
       }},
      {"put by a lane",
       [](Guest& guest) {
         agent::put(guest.connection(), guest.in("large"), guest.in("data"), {});
         must(sys::read_file(guest.in("data/large"), size_t{4} << 20).size() == size_t{3} << 20,
              "the large copy");
       }},
      {"get",
       [](Guest& guest) {
         const auto counts =
             agent::get(guest.connection(), guest.in("tree"), guest.in("data/back"), {});
         must(counts.entries == 4, "a copy out is whole, or an error");
       }},
      {"fs.stat",
       [](Guest& guest) {
         must(agent::stat_file(guest.connection(), {{"", guest.in("data/file")}, true}).size == 10,
              "its size");
       }},
      {"fs.list",
       [](Guest& guest) {
         size_t seen = 0;
         agent::list_files(guest.connection(), {{"", guest.in("tree")}, 0},
                           [&](const proto::ListEntry&) { ++seen; });
         must(seen == 2, "a list is whole, or an error");
       }},
      {"fs.read",
       [](Guest& guest) {
         std::string text;
         agent::read_file(guest.connection(), {{"", guest.in("data/file")}, 0, std::nullopt, false},
                          [&](ByteView piece) { text += as_text(piece); });
         must(text == "some text\n", "what is read");
       }},
      {"fs.write",
       [](Guest& guest) {
         proto::WriteRequest request;
         request.place = {"", guest.in("data/written")};
         request.sync = true;
         std::string_view left = "written";
         agent::write_file(guest.connection(), request, [&](size_t room) {
           const auto piece = left.substr(0, room);
           left.remove_prefix(piece.size());
           return as_bytes(piece);
         });
         must(sys::read_text_file(guest.in("data/written"), 100) == "written", "what is written");
       }},
      {"fs.mkdir, fs.rename and fs.remove",
       [](Guest& guest) {
         agent::make_directory(guest.connection(), {{"", guest.in("data/a/b")}, 0755, true, ""});
         agent::rename_file(guest.connection(),
                            {{"", guest.in("data/a")}, guest.in("data/c"), false});
         const auto removed =
             agent::remove_file(guest.connection(), {{"", guest.in("data/c")}, true});
         must(removed.entries == 2 && !sys::exists(guest.in("data/c")), "what is removed");
       }},
      {"fs.watch",
       [](Guest& guest) {
         agent::watch_files(guest.connection(), {{"", guest.in("data")}},
                            [&](const proto::WatchEvent&) { return false; });
       }},
      {"tcp",
       [](Guest& guest) {
         const Answering answering;
         auto& connection = guest.connection();
         connection.start(proto::TcpRequest{answering.port()}.encode(), agent::Call::Kind::Duplex);
         connection.send_data(as_bytes("there"));
         connection.send_end_of_data();
         std::string came;
         std::optional<agent::Incoming> incoming;
         while (!incoming || incoming->what != agent::Incoming::What::End) {
           incoming = connection.wait(Guest::kPatience);
           if (incoming->what != agent::Incoming::What::Data) continue;
           came += as_text(incoming->payload);
           connection.consumed(incoming->payload.size());
         }
         if (const auto end = proto::End::decode(incoming->payload); end && end->error)
           throw Error(end->error->kind, end->error->message);
         must(came == "back", "what came back");
       }},
  };
}

class AgentFaults : public testing::TestWithParam<int> {};

TEST_P(AgentFaults, OfOneCallAreOneErrorAndLeaveNothing) {
  const int error = GetParam();
  Guest guest;
  guest.connect();
  const std::string at_rest = guest.holds();
  guest.disconnect();
  int fired = 0;
  for (const Verb& verb : verbs()) {
    const auto clean = [&] {
      for (const std::string& name : sys::list_directory(guest.in("data")))
        if (name != "file") sys::remove_tree(guest.in("data/" + name));
    };
    SCOPED_TRACE(verb.name);
    guest.connect();
    ASSERT_NO_THROW(verb.act(guest));
    guest.disconnect();
    clean();
    for (int n = 1;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n) + ": " + sys::errno_text(error));
      guest.connect();
      guest.arm(n, error);
      std::string told;
      try {
        verb.act(guest);
      } catch (const Error& failure) {
        told = failure.message();
      }
      const bool happened = guest.disarm();
      ASSERT_TRUE(guest.lives()) << told;
      EXPECT_EQ(told.find("wrong: "), std::string::npos) << told;
      EXPECT_EQ(told.find('\n'), std::string::npos) << told;
      if (!happened || error == EINTR) {
        EXPECT_EQ(told, "");
      }
      guest.disconnect();
      ASSERT_NO_THROW(guest.connect()) << told;
      for (const std::string& name : sys::list_directory(guest.in("data")))
        EXPECT_FALSE(name.starts_with(".")) << name << " is left";
      clean();
      for (int tries = 0; guest.holds() != at_rest && tries < 20'000; ++tries) ::usleep(100);
      ASSERT_EQ(guest.holds(), at_rest) << told;
      guest.disconnect();
      if (!happened) break;
      ++fired;
    }
  }
  std::printf("%d calls failed with: %s\n", fired, sys::errno_text(error).c_str());
  EXPECT_GT(fired, 3);
}

INSTANTIATE_TEST_SUITE_P(Every, AgentFaults, testing::Values(ENOSPC, EMFILE, ENOMEM, EINTR),
                         error_name);

}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 3 && std::string_view(argv[1]) == "agent") return mvm::faults::run_agent(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
