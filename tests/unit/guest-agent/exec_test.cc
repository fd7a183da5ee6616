// Commands as a caller sees them: started as asked, streamed, and ended by the rule.
#include <string>

#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"

#include "client.h"

namespace mvm::guest {

using proto::ExecRequest;
using proto::ExecResult;
using proto::FrameType;
using std::chrono::milliseconds;
using std::chrono::seconds;

static const ExecResult kSuccess{};

TEST(Exec, GreetsAndRunsACommand) {
  Client client;
  const auto outcome = client.shell("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(client.hello());
  EXPECT_EQ(client.hello()->role, "agent");
  EXPECT_EQ(client.hello()->version, proto::kProtocolVersion);
  EXPECT_EQ(outcome.out, "out\n");
  EXPECT_EQ(outcome.err, "err\n");
  EXPECT_TRUE(outcome.pid);
  EXPECT_EQ(outcome.result, (ExecResult{3, 0, false, false}));
}

TEST(Exec, PassesArgumentsWithoutAShell) {
  Client client;
  ExecRequest request;
  request.argv = {"printf", "%s|", "a b", "$HOME", "*", "", "\xFF"};
  EXPECT_EQ(client.run(request).out, "a b|$HOME|*||\xFF|");
}

TEST(Exec, ReportsTheSignalThatEndedIt) {
  Client client;
  EXPECT_EQ(client.shell("kill -SEGV $$").result, (ExecResult{0, SIGSEGV, false, false}));
}

TEST(Exec, TellsNotFoundFromNotExecutable) {
  Client client;
  const sys::TempDir directory;
  const std::string plain = directory.path() + "/plain";
  const std::string script = directory.path() + "/script";
  sys::write_file_atomic(plain, as_bytes("echo no\n"), 0644);
  sys::write_file_atomic(script, as_bytes("echo no\n"), 0755);
  const std::string lost = directory.path() + "/lost";
  sys::write_file_atomic(lost, as_bytes("#!/no/such/interpreter\n"), 0755);
  const auto error = [&](std::vector<std::string> argv) {
    ExecRequest request;
    request.argv = std::move(argv);
    const auto outcome = client.run(request);
    EXPECT_FALSE(outcome.pid);
    return outcome.error.value();
  };
  EXPECT_EQ(error({"no-such-command-anywhere"}).kind, Kind::NotFound);
  EXPECT_EQ(error({directory.path() + "/absent"}).kind, Kind::NotFound);
  EXPECT_EQ(error({lost}).kind, Kind::NotFound);
  EXPECT_EQ(error({lost}).message, lost + ": the interpreter or loader it names does not exist");
  EXPECT_EQ(error({directory.path()}).kind, Kind::Denied);
  EXPECT_EQ(error({plain}).kind, Kind::Denied);
  // A file without #! is not handed to a shell behind the caller's back.
  EXPECT_EQ(error({script}).kind, Kind::Denied);
}

TEST(Exec, LooksInTheRequestsPath) {
  Client client;
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/greet", as_bytes("#!/bin/sh\necho hi\n"), 0755);
  ExecRequest request;
  request.argv = {"greet"};
  EXPECT_EQ(client.run(request).error.value().kind, Kind::NotFound);
  request.env = {{"PATH", "/no/such:" + directory.path() + ":/usr/bin:/bin"}};
  EXPECT_EQ(client.run(request).out, "hi\n");
}

TEST(Exec, AddsToTheEnvironmentOrReplacesIt) {
  Client client;
  ExecRequest request;
  request.argv = {"/usr/bin/env"};
  request.env = {{"A", "1"}, {"A", "2"}, {"HOME", "/elsewhere"}};
  const std::string added = client.run(request).out;
  EXPECT_NE(added.find("\nA=2\n"), std::string::npos) << added;
  EXPECT_EQ(added.find("A=1\n"), std::string::npos) << added;
  EXPECT_NE(added.find("HOME=/elsewhere\n"), std::string::npos);
  EXPECT_NE(added.find("PATH="), std::string::npos);
  request.env = {{"ONLY", "x"}};
  request.clear_env = true;
  const std::string cleared = client.run(request).out;
  EXPECT_EQ(cleared.substr(0, cleared.find('\n')), "ONLY=x");
  EXPECT_EQ(cleared.find("PATH="), std::string::npos);
}

TEST(Exec, RunsInTheGivenDirectoryAndSaysWhenItIsNotThere) {
  Client client;
  ExecRequest request;
  request.argv = {"pwd"};
  EXPECT_EQ(client.run(request).out, "/\n");
  request.cwd = "/usr";
  EXPECT_EQ(client.run(request).out, "/usr\n");
  request.cwd = "/no/such/place";
  const auto error = client.run(request).error.value();
  EXPECT_EQ(error.kind, Kind::Invalid);
  EXPECT_EQ(error.message, "working directory /no/such/place: No such file or directory");
}

TEST(Exec, RunsAsTheGivenUser) {
  Client client;
  ExecRequest request;
  request.argv = {"sh", "-c", "id -u; id -g; id -G; echo $HOME"};
  if (::geteuid() != 0) {
    request.user = "root";
    EXPECT_EQ(client.run(request).error.value().kind, Kind::Denied);
    GTEST_SKIP() << "switching users needs root";
  }
  EXPECT_EQ(client.run(request).out.substr(0, 4), "0\n0\n");
  request.user = "daemon";
  EXPECT_EQ(client.run(request).out, "1\n1\n1\n/usr/sbin\n");
  request.user = "12345:54321";
  EXPECT_EQ(client.run(request).out, "12345\n54321\n54321\n/\n");
  request.user = "12345";
  EXPECT_EQ(client.run(request).out, "12345\n0\n0\n/\n");
  request.user = "nobody-of-this-name";
  EXPECT_EQ(client.run(request).error.value().kind, Kind::Invalid);
  // The user's own rights decide, also about the directory.
  request.user = "daemon";
  const sys::TempDir closed;
  request.cwd = closed.path();
  EXPECT_EQ(client.run(request).error.value().kind, Kind::Invalid);
}

TEST(Exec, HasNoStdinUnlessAskedFor) {
  Client client;
  EXPECT_EQ(client.shell("cat; echo end").out, "end\n");
}

TEST(Exec, StreamsStdinAndEndsItByHalfClose) {
  Client client;
  ExecRequest request;
  request.argv = {"sh", "-c", "cat; echo end"};
  request.stdin_open = true;
  const uint32_t stream = client.start(request);
  client.send_data(stream, as_bytes("one "));
  client.wait_output(stream, "one ");
  EXPECT_EQ(client.outcome(stream).out, "one ");  // before the end of stdin
  client.send_data(stream, as_bytes("two "));
  client.send(stream, FrameType::Eof);
  EXPECT_EQ(client.finish(stream).out, "one two end\n");
}

// X1, X2: an open stdin neither delays the end nor is waited for.
TEST(Exec, EndsWhileStdinIsStillOpen) {
  Client client;
  ExecRequest request = shell_request("seq 1 5000 | tail -1");
  request.stdin_open = true;
  const auto outcome = client.run(request);
  EXPECT_EQ(outcome.out, "5000\n");
  EXPECT_EQ(outcome.result, kSuccess);
  EXPECT_LT(outcome.took, seconds(20));
}

TEST(Exec, SurvivesACommandThatClosesItsStdin) {
  Client client;
  ExecRequest request = shell_request("exec <&-; echo closed; sleep 0.3; echo end");
  request.stdin_open = true;
  const uint32_t stream = client.start(request);
  client.wait_output(stream, "closed");
  // More than pipe and window hold: the credit must come back although nobody reads.
  client.send_data(stream, Bytes(2 * proto::kInitialWindow));
  EXPECT_EQ(client.finish(stream).out, "closed\nend\n");
}

TEST(Exec, CarriesMegabytesBothWaysUnderFlowControl) {
  Client client;
  ExecRequest request;
  request.argv = {"cat"};
  request.stdin_open = true;
  const uint32_t stream = client.start(request);
  std::string content;
  for (int i = 0; content.size() < 4 << 20; ++i) content += std::to_string(i) + "\n";
  client.send_data(stream, as_bytes(content));
  client.send(stream, FrameType::Eof);
  const auto outcome = client.finish(stream);
  EXPECT_TRUE(outcome.out == content) << outcome.out.size() << " of " << content.size();
}

// A reader that stops holds the command up, and not the agent; then all of it arrives.
TEST(Exec, StopsReadingWithoutCreditAndLosesNothing) {
  Client client;
  const uint32_t stream = client.start(shell_request("seq 1 200000"));
  client.set_reading(stream, false);
  client.run_until([&] { return client.outcome(stream).out.size() == proto::kInitialWindow; });
  // Others are served meanwhile.
  EXPECT_EQ(client.shell("echo hi").out, "hi\n");
  EXPECT_EQ(client.outcome(stream).out.size(), proto::kInitialWindow);
  EXPECT_FALSE(client.ended(stream));
  client.set_reading(stream, true);
  const auto outcome = client.finish(stream);
  EXPECT_EQ(outcome.out.size(), 1288895U);
  EXPECT_EQ(outcome.out.substr(outcome.out.size() - 7), "200000\n");
}

// The command has exited, its last output waits in the pipe for credit: that is not quiet.
TEST(Exec, WaitsForCreditAfterTheExit) {
  Client client;
  const std::string script =
      "head -c " + std::to_string(proto::kInitialWindow + 20000) + " /dev/zero; sleep 30 & exit 4";
  const uint32_t stream = client.start(shell_request(script));
  client.set_reading(stream, false);
  client.run_until([&] { return client.outcome(stream).out.size() == proto::kInitialWindow; });
  // Four graces of other work.
  for (int i = 0; i < 4; ++i) client.shell("sleep 0.1");
  EXPECT_FALSE(client.ended(stream));
  client.set_reading(stream, true);
  const auto outcome = client.finish(stream);
  EXPECT_EQ(outcome.out.size(), proto::kInitialWindow + 20000U);
  EXPECT_EQ(outcome.result, (ExecResult{4, 0, false, false}));
}

TEST(Exec, DropsOutputAboveItsLimitAndSaysSo) {
  Client client;
  ExecRequest request = shell_request("seq 1 100000");
  request.max_output = 1000;
  const auto outcome = client.run(request);
  EXPECT_EQ(outcome.out.size(), 1000U);
  EXPECT_EQ(outcome.result, (ExecResult{0, 0, false, true}));
  request = shell_request("printf 12345");
  request.max_output = 5;
  EXPECT_EQ(client.run(request).result, kSuccess);
}

TEST(Exec, DeliversSignalsToTheWholeGroup) {
  Client client;
  const uint32_t stream =
      client.start(shell_request("trap 'echo got; exit 7' USR1; echo ready; sleep 60 & wait"));
  client.wait_output(stream, "ready");
  client.signal(stream, SIGUSR1);
  const auto outcome = client.finish(stream);
  EXPECT_EQ(outcome.out, "ready\ngot\n");
  EXPECT_EQ(outcome.result, (ExecResult{7, 0, false, false}));
  EXPECT_LT(outcome.took, seconds(20));  // the sleep got it too, or does not matter
}

// ---- terminals --------------------------------------------------------------------------------

static ExecRequest terminal_request(const std::string& script) {
  ExecRequest request = shell_request(script);
  request.tty = true;
  request.stdin_open = true;
  return request;
}

// X15: the size is right before the command's first look at it.
TEST(ExecTerminal, HasItsSizeFromTheStart) {
  Client client;
  ExecRequest request = terminal_request("stty size; tty; echo $TERM $COLUMNS");
  request.size = {33, 123};
  const auto outcome = client.run(request);
  EXPECT_EQ(outcome.out.substr(0, 8), "33 123\r\n") << outcome.out;
  EXPECT_NE(outcome.out.find("/dev/"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("xterm\r\n"), std::string::npos) << outcome.out;
  request = terminal_request("stty size");
  EXPECT_EQ(client.run(request).out, "24 80\r\n");
}

TEST(ExecTerminal, IsResized) {
  Client client;
  const uint32_t stream = client.start(
      terminal_request("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"));
  client.wait_output(stream, "ready");
  client.resize(stream, {50, 200});
  EXPECT_EQ(client.finish(stream).out, "ready\r\n50 200\r\n");
}

// X3: keystrokes arrive from the first byte; Ctrl-C and Ctrl-D mean what they mean.
TEST(ExecTerminal, IsInteractive) {
  Client client;
  const uint32_t stream = client.start(terminal_request(
      "trap 'echo interrupted' INT; stty -echo; echo ready; read line; echo got $line; "
      "cat; echo end"));
  client.wait_output(stream, "ready");
  client.send_data(stream, as_bytes("\x03"));
  client.wait_output(stream, "interrupted");
  client.send_data(stream, as_bytes("hello\n"));
  client.wait_output(stream, "got");
  client.send_data(stream, as_bytes("\x04"));
  const auto outcome = client.finish(stream);
  EXPECT_NE(outcome.out.find("end\r\n"), std::string::npos) << outcome.out;
}

TEST(ExecTerminal, SeesTheEndOfInput) {
  Client client;
  const uint32_t stream = client.start(terminal_request("stty -echo; echo ready; cat; echo end"));
  client.wait_output(stream, "ready");
  client.send_data(stream, as_bytes("x\n"));
  client.send(stream, FrameType::Eof);
  EXPECT_EQ(client.finish(stream).out, "ready\r\nx\r\nend\r\n");
}

TEST(ExecTerminal, GetsSignalsInTheForegroundGroup) {
  Client client;
  ExecRequest request;
  request.argv = {"bash", "-ic", "sleep 100; echo $?"};
  request.tty = true;
  request.stdin_open = true;
  if (!sys::exists("/bin/bash")) GTEST_SKIP() << "needs bash";
  const uint32_t stream = client.start(request);
  client.wait_started(stream);
  client.run_until([&] {
    if (count_processes("sleep\0100") == 0 && !client.ended(stream)) client.signal(stream, SIGTERM);
    return client.ended(stream);
  });
  EXPECT_TRUE(client.outcome(stream).result);
}

// ---- several at once, many in a row -------------------------------------------------------------

// X23
TEST(Exec, RunsCommandsIndependently) {
  Client client;
  const uint32_t slow = client.start(shell_request("sleep 60"));
  client.wait_started(slow);
  const auto quick = client.shell("echo hi");
  EXPECT_EQ(quick.out, "hi\n");
  EXPECT_LT(quick.took, seconds(20));
  EXPECT_FALSE(client.ended(slow));
}

static size_t open_descriptors(pid_t pid) {
  return sys::list_directory("/proc/" + std::to_string(pid) + "/fd").size();
}

// X22: no orphan, no descriptor, no child is left behind.
TEST(Exec, LeaksNothingOverManyCommands) {
  Client client;
  client.shell("true");
  client.ping();
  client.ping();
  const size_t before = open_descriptors(client.agent());
  for (int i = 0; i < 200; ++i) {
    ExecRequest request;
    request.argv = {i % 4 == 3 ? "no-such-command" : "true"};
    request.stdin_open = i % 2 == 0;
    request.tty = i % 8 == 0;
    client.run(request);
  }
  client.shell("true");
  EXPECT_EQ(open_descriptors(client.agent()), before);
  const std::string process = std::to_string(client.agent());
  const auto children = [&] {
    return sys::read_text_file("/proc/" + process + "/task/" + process + "/children", 1 << 16);
  };
  // What could not be run is told before it has ended.
  for (int tries = 0; tries < 1000 && !children().empty(); ++tries) client.ping();
  EXPECT_EQ(children(), "");
}

TEST(Exec, LimitsTheStreamsOfAConnection) {
  Client client;
  ExecRequest request = shell_request("sleep 60");
  request.kill_grace = milliseconds(0);
  for (size_t i = 0; i < proto::kMaxStreams; ++i) client.start(request);
  const auto outcome = client.shell("true");
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, Kind::Exhausted);
}

TEST(Exec, AppliesItsResourceLimits) {
  Client client;
  ExecRequest request = shell_request("ulimit -Sn; ulimit -Hn; ulimit -c");
  request.rlimits = {{7, 55, 66}, {4, 0, 0}};
  EXPECT_EQ(client.run(request).out, "55\n66\n0\n");
}

TEST(Exec, SaysWhichLimitTheKernelRefuses) {
  Client client;
  ExecRequest request = shell_request("true");
  request.rlimits = {{7, proto::kUnlimited, proto::kUnlimited}};
  const auto outcome = client.run(request);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, Kind::Invalid);
  EXPECT_NE(outcome.error->message.find("limit nofile"), std::string::npos);
}

TEST(Exec, DoesNotStartWithoutTheLimitsItWasGiven) {
  Client client(Trees::ByScan);
  ExecRequest request = shell_request("true");
  request.limits.memory = 64 << 20;
  const auto outcome = client.run(request);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, Kind::Unsupported);
  EXPECT_FALSE(outcome.pid);
}

TEST(Exec, CollectsMoreChildrenThanOneTurnTakes) {
  Client client;
  EXPECT_EQ(client.shell("i=0; while [ $i -lt 500 ]; do (: &); i=$((i+1)); done").result, kSuccess);
  const std::string pid = std::to_string(client.agent());
  client.settle([&] {
    return sys::read_text_file("/proc/" + pid + "/task/" + pid + "/children", 1 << 16).empty();
  });
}

}
