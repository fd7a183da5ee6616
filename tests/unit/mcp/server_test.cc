// The server as a client sees it, with the agent itself at the other end: commands, several at
// once, and clients that mean no good.
#include "session.h"

namespace mvm::mcp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// ---- run ----

TEST_F(WithSandbox, RunsACommandAndTellsHowItEnded) {
  Session session(target());
  session.initialize();
  auto got = session.call("run", {{"argv", {"sh", "-c", "echo out; echo err >&2; exit 3"}}});
  EXPECT_FALSE(session.is_error);
  EXPECT_EQ(got["status"], "command_failed");
  EXPECT_EQ(got["exit_code"], 3);
  EXPECT_EQ(got["stdout"], "out\n");
  EXPECT_EQ(got["stdout_bytes"], 4);
  EXPECT_EQ(got["stderr"], "err\n");
  EXPECT_EQ(got["stdout_truncated"], false);
  EXPECT_EQ(got["timed_out"], false);
  EXPECT_EQ(got["sandbox"], "web");
  EXPECT_EQ(got["sandbox_id"], "sb-native");
  EXPECT_THAT(got["run_id"].get<std::string>(), StartsWith("run-"));
  EXPECT_FALSE(got.contains("signal"));
  EXPECT_FALSE(got.contains("redacted"));

  got = session.call("run", {{"argv", {"sh", "-c", "echo $A $(pwd) $(cat)"}},
                             {"cwd", "/usr"},
                             {"env", {{"A", "1"}}},
                             {"stdin", "in"}});
  EXPECT_EQ(got["status"], "ok");
  EXPECT_EQ(got["exit_code"], 0);
  EXPECT_EQ(got["stdout"], "1 /usr in\n");

  got = session.sh("kill -KILL $$");
  EXPECT_EQ(got["status"], "command_failed");
  EXPECT_EQ(got["signal"], 9);
  EXPECT_FALSE(got.contains("exit_code"));
}

TEST_F(WithSandbox, NoShellTakesPart) {
  Session session(target());
  session.initialize();
  EXPECT_EQ(session.call("run", {{"argv", {"printf", "%s|", "a b", "$HOME", "", "*"}}})["stdout"],
            "a b|$HOME||*|");
}

TEST_F(WithSandbox, TellsWhatCannotBeStartedAsAShellDoes) {
  make("data", "x");
  Session session(target());
  session.initialize();
  auto got = session.call("run", {{"argv", {"no-such-command"}}});
  EXPECT_FALSE(session.is_error);
  EXPECT_EQ(got["status"], "command_failed");
  EXPECT_EQ(got["exit_code"], 127);
  EXPECT_THAT(got["message"].get<std::string>(), HasSubstr("no-such-command"));
  got = session.call("run", {{"argv", {in("data")}}});
  EXPECT_EQ(got["exit_code"], 126);
}

TEST_F(WithSandbox, EndsACommandWhoseTimeIsOverWithAllThatItStarted) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  const sys::Fd fifo = sys::open_file(in("fifo"), O_RDONLY | O_NONBLOCK);
  Session session(target());
  session.initialize();
  const auto got = session.call(
      "run",
      {{"argv", {"sh", "-c", "exec 9>'" + in("fifo") + "'; echo before; sleep 1000 & sleep 1000"}},
       {"timeout_seconds", 1}});
  EXPECT_FALSE(session.is_error);
  EXPECT_EQ(got["status"], "timed_out");
  EXPECT_EQ(got["timed_out"], true);
  EXPECT_EQ(got["stdout"], "before\n");
  wait_for_end_of(fifo);
}

TEST_F(WithSandbox, BoundsOutputAndMarksWhatIsNoText) {
  Session session(target());
  session.initialize();
  auto got =
      session.call("run", {{"argv", {"sh", "-c", "echo begin; yes | head -c 3000000; echo end"}},
                           {"max_output_bytes", 1000}});
  EXPECT_EQ(got["stdout_truncated"], true);
  EXPECT_EQ(got["stderr_truncated"], false);
  EXPECT_EQ(got["stdout_bytes"], 3'000'010);
  const std::string out = got["stdout"];
  EXPECT_THAT(out, StartsWith("begin\n"));
  EXPECT_TRUE(out.ends_with("y\nend\n")) << out;
  EXPECT_THAT(out, HasSubstr("[mvm: 2999010 bytes left out]"));
  EXPECT_LT(out.size(), 1100U);

  got = session.sh("printf 'a\\377b'");
  EXPECT_EQ(got["stdout"],
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(got["stdout_lossy"], true);
  EXPECT_FALSE(got.contains("stderr_lossy"));
}

TEST_F(WithSandbox, GivesACommandMuchInput) {
  Session session(target());
  session.initialize();
  const std::string input(kMaxInput, 'x');
  auto got = session.call("run", {{"argv", {"wc", "-c"}}, {"stdin", input}});
  EXPECT_EQ(got["stdout"], std::to_string(kMaxInput) + "\n");
  // One that does not read it, and one that does not wait for its end.
  EXPECT_EQ(session.call("run", {{"argv", {"true"}}, {"stdin", input}})["status"], "ok");
  EXPECT_EQ(session.call("run", {{"argv", {"head", "-c1"}}, {"stdin", input}})["stdout"], "x");
}

// ---- at once, and until somebody has had enough ----

TEST_F(WithSandbox, CancelEndsTheCommandAndItsTreeAndIsNotAnswered) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  const sys::Fd fifo = sys::open_file(in("fifo"), O_RDONLY | O_NONBLOCK);
  Session session(target());
  session.initialize();
  session.ask(
      1, "run",
      {{"argv",
        {"sh", "-c", "exec 9>'" + in("fifo") + "'; echo up >&9; sleep 1000 & sleep 1000"}}});
  pollfd entry{fifo.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
  session.cancel(1);
  wait_for_end_of(fifo);
  // The next that is said is of another call.
  EXPECT_EQ(session.sh("echo there")["stdout"], "there\n");
}

TEST_F(WithSandbox, ClosingItsInputEndsTheServerAndItsCommands) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  const sys::Fd fifo = sys::open_file(in("fifo"), O_RDONLY | O_NONBLOCK);
  Session session(target());
  session.initialize();
  session.ask(1, "run",
              {{"argv", {"sh", "-c", "exec 9>'" + in("fifo") + "'; echo up >&9; sleep 1000"}}});
  pollfd entry{fifo.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
  // Of more than one piece, so that there is something left to say once the commands have ended.
  session.send(R"({"jsonrpc":"2.0","id":7,"method":"tools/list"})");
  session.end_input();
  EXPECT_EQ(session.next().at("id"), 7);  // what was asked before is answered
  EXPECT_THROW(session.next(), std::runtime_error);
  wait_for_end_of(fifo);
}

TEST_F(WithSandbox, ClientThatIsGoneEndsTheServer) {
  Session session(target());
  session.initialize();
  session.ask(1, "run", {{"argv", {"sleep", "1000"}}});
  session.close();  // joins it
}

// Its words may go on coming: nobody is there to hear the answers.
TEST_F(WithSandbox, ClientThatTakesNothingAnyMoreEndsTheServer) {
  for (const bool pipe : {true, false}) {
    auto [ours, in] = sys::socket_pair(sys::SocketType::Stream);
    auto [reader, out] = sys::socket_pair(sys::SocketType::Stream);
    if (pipe) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      reader = sys::Fd(ends[0]);
      out = sys::Fd(ends[1]);
    }
    const Target served = target();
    const ServerOptions options{in.get(), out.get(), "1", std::chrono::minutes(1)};
    std::thread server([&] { serve(served, options); });
    reader.reset();
    server.join();
  }
}

TEST_F(WithSandbox, RunsSeveralCallsAtOnceAndIsBusyBeyond) {
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  const sys::Fd fifo = sys::open_file(in("fifo"), O_RDWR);
  Session session(target());
  session.initialize();
  // Each waits for a word of its own, so none ends before all run.
  for (int id = 1; id <= static_cast<int>(kMaxCalls); ++id)
    session.ask(id, "run", {{"argv", {"sh", "-c", "read line <'" + in("fifo") + "'; echo $line"}}});
  const auto busy = session.sh("echo no");
  EXPECT_TRUE(session.is_error);
  EXPECT_EQ(busy["status"], "busy");
  EXPECT_EQ(busy["sandbox"], "web");
  std::string words;
  for (size_t i = 0; i < kMaxCalls; ++i) words += "word\n";
  sys::write_all(fifo.get(), as_bytes(words));
  std::vector<int> ids;
  for (size_t i = 0; i < kMaxCalls; ++i) {
    const auto got = session.next();
    EXPECT_EQ(got.at("result").at("structuredContent").at("status"), "ok");
    ids.push_back(got.at("id"));
  }
  EXPECT_THAT(ids, testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(session.sh("echo yes")["stdout"], "yes\n");
}

TEST_F(WithSandbox, TellsThatACallGoesOn) {
  Session session(target(), std::chrono::milliseconds(10));
  session.initialize();
  session.ask(1, "run", {{"argv", {"sleep", "1000"}}}, {{"progressToken", "t"}});
  double last = 0;
  for (int i = 0; i < 3; ++i) {
    const auto got = session.next();
    EXPECT_EQ(got.at("method"), "notifications/progress");
    EXPECT_EQ(got.at("params").at("progressToken"), "t");
    const double progress = got.at("params").at("progress");
    EXPECT_GT(progress, last);
    last = progress;
  }
  session.cancel(1);
}

// ---- hostile clients ----

TEST_F(Servers, SurvivesALineThatIsTooLong) {
  Session session(target());
  session.initialize();
  session.send(std::string(kMaxLine + 1, ' '));
  EXPECT_EQ(session.next().at("error").at("code"), -32700);
  session.send(R"({"jsonrpc":"2.0","id":7,"method":"ping"})");
  EXPECT_EQ(session.next().at("id"), 7);
}

// It asks and asks before it reads: the server waits with the rest, and nothing is lost.
TEST_F(Servers, DoesNotReadAClientThatDoesNotRead) {
  Session session(target());
  session.initialize();
  std::string questions;
  const int kQuestions = 150;  // whose answers are more than what is let wait
  for (int id = 0; id < kQuestions; ++id)
    questions +=
        R"({"jsonrpc":"2.0","id":)" + std::to_string(id) + R"(,"method":"tools/list"})" + "\n";
  questions.pop_back();
  std::thread asking([&] { session.send(questions); });
  for (int id = 0; id < kQuestions; ++id) EXPECT_EQ(session.next().at("id"), id);
  asking.join();
}

}
}
