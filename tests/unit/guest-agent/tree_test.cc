// Time-outs, cancels and lost connections end the whole tree; ends wait for nothing but output.
// Every case runs with cgroups, where this machine lets a test make them, and by scan.
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

class Tree : public testing::TestWithParam<Trees> {
 protected:
  void SetUp() override {
    if (GetParam() == Trees::ByCgroup && !test_cgroup())
      GTEST_SKIP() << "no cgroup v2 that this user may make groups in";
  }
  // A duration that names this test's processes and no other's: "sleep 7001.123".
  std::string mark(int n) const {
    return std::to_string(7000 + n) + "." + std::to_string(::getpid());
  }
  static bool gone(const std::string& mark) { return count_processes(mark) == 0; }
};

INSTANTIATE_TEST_SUITE_P(Trees, Tree, testing::Values(Trees::ByCgroup, Trees::ByScan),
                         [](const auto& one) {
                           return one.param == Trees::ByCgroup ? "ByCgroup" : "ByScan";
                         });

static ExecRequest with_timeout(const std::string& script, milliseconds timeout,
                                milliseconds grace = milliseconds(200)) {
  ExecRequest request = shell_request(script);
  request.timeout = timeout;
  request.kill_grace = grace;
  return request;
}

TEST_P(Tree, TimeoutIsAResult) {
  Client client(GetParam());
  // So long a grace that TERM alone ends it, however long the machine stands still.
  const auto outcome =
      client.run(with_timeout("echo before; sleep " + mark(1), milliseconds(300), seconds(60)));
  EXPECT_EQ(outcome.out, "before\n");  // what came before the limit is kept
  EXPECT_EQ(outcome.result, (ExecResult{0, SIGTERM, true, false}));
  EXPECT_GE(outcome.took, milliseconds(300));
  EXPECT_TRUE(gone(mark(1)));
}

// X13: no limit is no limit.
TEST_P(Tree, ZeroIsNoTimeout) {
  Client client(GetParam());
  EXPECT_EQ(client.run(with_timeout("sleep 0.4; echo end", milliseconds(0))).out, "end\n");
}

// X1, X6: the limit holds whatever stdin does, and on a terminal.
TEST_P(Tree, TimeoutHoldsWithOpenStdinAndOnATerminal) {
  Client client(GetParam());
  for (const bool tty : {false, true}) {
    ExecRequest request = with_timeout("sleep " + mark(2), milliseconds(200));
    request.stdin_open = true;
    request.tty = tty;
    const auto outcome = client.run(request);
    ASSERT_TRUE(outcome.result);
    EXPECT_TRUE(outcome.result->timed_out);
    EXPECT_LT(outcome.took, seconds(20));
  }
  EXPECT_TRUE(gone(mark(2)));
}

TEST_P(Tree, CommandMayCleanUpOnTerm) {
  Client client(GetParam());
  const auto outcome =
      client.run(with_timeout("trap 'echo bye; exit 5' TERM; sleep " + mark(3) + " & wait",
                              milliseconds(300), seconds(30)));
  EXPECT_EQ(outcome.out, "bye\n");
  EXPECT_EQ(outcome.result, (ExecResult{5, 0, true, false}));
  EXPECT_LT(outcome.took, seconds(20));  // not the whole grace: the tree was empty before
  EXPECT_TRUE(gone(mark(3)));
}

// X5, X10, X11, X14: grandchildren, those that ignore TERM, that forked twice, that left the
// session.
TEST_P(Tree, TimeoutEndsEveryDescendant) {
  Client client(GetParam());
  const auto outcome = client.run(
      with_timeout("trap '' TERM; (sleep " + mark(4) + ") & (setsid sleep " + mark(5) +
                       " &) ; ( ( sleep " + mark(6) + " & ) & ) ; setsid sh -c '(sleep " + mark(7) +
                       " &)' ; sleep " + mark(8) + " & wait",
                   milliseconds(500)));
  ASSERT_TRUE(outcome.result);
  EXPECT_EQ(outcome.result, (ExecResult{0, SIGKILL, true, false}));
  for (int n = 4; n <= 8; ++n) EXPECT_TRUE(gone(mark(n))) << n;
}

TEST_P(Tree, TimeoutEndsAStoppedProcess) {
  Client client(GetParam());
  const auto outcome = client.run(with_timeout("kill -STOP $$", milliseconds(200), seconds(30)));
  EXPECT_EQ(outcome.result, (ExecResult{0, SIGTERM, true, false}));
}

// X7: a background child that holds the pipes open neither delays the end nor is ended by it.
TEST_P(Tree, EndDoesNotWaitForBackgroundChildren) {
  Client client(GetParam());
  for (const std::string how : {"sleep ", "nohup sleep ", "setsid sleep "}) {
    const auto outcome = client.run(with_timeout(how + mark(9) + " & exit 0", seconds(30)));
    EXPECT_EQ(outcome.result, (ExecResult{0, 0, false, false})) << how;
    EXPECT_LT(outcome.took, seconds(20)) << how;
    EXPECT_EQ(count_processes(mark(9)), 1U) << how;
    kill_processes(mark(9));
    client.settle([&] { return gone(mark(9)); });
  }
}

// X9: what is written shortly after the exit still arrives, to the last byte.
TEST_P(Tree, OutputAfterTheExitArrivesWhole) {
  Client client(GetParam());
  // Where the machine stands still for longer than the quiet that ends a call, it has ended before
  // anything was written. Not five times in a row.
  std::string out;
  for (int attempt = 0; attempt < 5 && out.empty(); ++attempt) {
    auto outcome =
        client.shell("(sleep 0.05; head -c 1048576 /dev/zero | tr '\\0' x; echo end) & exit 6");
    EXPECT_EQ(outcome.result, (ExecResult{6, 0, false, false}));
    out = std::move(outcome.out);
  }
  EXPECT_EQ(out.size(), 1048576U + 4);
  EXPECT_TRUE(out.ends_with("end\n"));
}

// X10: a chattering background child keeps the call open, and the limit ends it. Nobody reads here,
// so that there is more to read at any time, however busy the machine is: the command ends only
// when its child has written more than is taken of it.
TEST_P(Tree, TimeoutEndsACallThatIsNeverQuiet) {
  Client client(GetParam());
  const uint32_t stream = client.start(
      with_timeout("yes " + mark(100) + " & until [ $(sed -n 's/^wchar: //p' /proc/$!/io) -gt " +
                       std::to_string(proto::kInitialWindow) + " ]; do :; done; exit 0",
                   milliseconds(1000)));
  client.set_reading(stream, false);
  client.wait_started(stream);
  // Not before its time: a look at all processes may miss one that begins, while the one that began
  // it ends.
  const auto over = std::chrono::steady_clock::now() + milliseconds(1000);
  client.settle([&] { return std::chrono::steady_clock::now() > over && gone(mark(100)); });
  client.set_reading(stream, true);
  const auto outcome = client.finish(stream);
  ASSERT_TRUE(outcome.result);
  EXPECT_TRUE(outcome.result->timed_out);
}

// A server started in the background goes on writing to where its output went: it must not die of
// that.
TEST_P(Tree, BackgroundChildrenSurviveWritingAfterTheEnd) {
  Client client(GetParam());
  const sys::TempDir directory;
  const std::string proof = directory.path() + "/proof";
  client.shell("(sleep 0.4; head -c 300000 /dev/zero; echo alive >" + proof + ") & exit 0");
  client.settle([&] { return sys::exists(proof); });
  EXPECT_TRUE(sys::exists(proof));
}

TEST_P(Tree, CancelEndsTheTreeAndAnswers) {
  Client client(GetParam());
  ExecRequest request = shell_request("setsid sleep " + mark(11) + " & sleep " + mark(12));
  request.kill_grace = seconds(60);
  const uint32_t stream = client.start(request);
  client.wait_started(stream);
  client.settle([&] { return count_processes("sleep") > 0 && !gone(mark(12)); });
  client.send(stream, FrameType::Cancel);
  const auto outcome = client.finish(stream);
  EXPECT_EQ(outcome.result, (ExecResult{0, SIGTERM, false, false}));
  EXPECT_TRUE(gone(mark(11)));
  EXPECT_TRUE(gone(mark(12)));
}

TEST_P(Tree, LostConnectionEndsTheTree) {
  Client client(GetParam());
  const uint32_t stream =
      client.start(shell_request("setsid sleep " + mark(13) + " & echo up; sleep " + mark(14)));
  client.wait_output(stream, "up");
  client.settle([&] { return !gone(mark(13)) && !gone(mark(14)); });
  EXPECT_EQ(client.hang_up(), (sys::ExitStatus{0, 0}));
  EXPECT_TRUE(gone(mark(13)));
  EXPECT_TRUE(gone(mark(14)));
}

TEST_P(Tree, DetachedCommandOutlivesTheConnectionAndItsLimitsHold) {
  Client client(GetParam());
  ExecRequest request = with_timeout("yes " + mark(15), milliseconds(1500));
  request.detach = true;
  const uint32_t stream = client.start(request);
  client.wait_started(stream);
  client.close_socket();
  EXPECT_EQ(client.agent_end(milliseconds(500)), std::nullopt);
  EXPECT_FALSE(gone(mark(15)));  // it writes on, and nobody stops it by not reading
  EXPECT_EQ(client.hang_up(), (sys::ExitStatus{0, 0}));
  EXPECT_TRUE(gone(mark(15)));
}

TEST_P(Tree, CancelOfADetachedCommandLetsGoOfIt) {
  Client client(GetParam());
  ExecRequest request = with_timeout("sleep " + mark(16), seconds(2));
  request.detach = true;
  const uint32_t stream = client.start(request);
  client.wait_started(stream);
  client.send(stream, FrameType::Cancel);
  const auto outcome = client.finish(stream);
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind, Kind::Unavailable);
  EXPECT_FALSE(gone(mark(16)));
  client.settle([&] { return gone(mark(16)); });  // its time-out
}

TEST(Cgroups, AreRemovedWithTheirLastProcess) {
  const auto parent = test_cgroup();
  if (!parent) GTEST_SKIP() << "no cgroup v2 that this user may make groups in";
  Client client(Trees::ByCgroup);
  const auto groups = [&] {
    size_t count = 0;
    for (const auto& name : sys::list_directory(*parent))
      if (name.find('-') != std::string::npos && name.find('.') == std::string::npos) ++count;
    return count;
  };
  for (int i = 0; i < 20; ++i) client.shell("true");
  client.shell("sleep 0.5 & exit 0");
  EXPECT_GE(groups(), 1U);
  client.settle([&] { return groups() == 0; });
  EXPECT_EQ(groups(), 0U);
}

}
