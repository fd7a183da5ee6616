#include "mvm/sys/process.h"

#include <array>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sys {

static Child shell(const std::string& script, std::vector<std::pair<int, int>> fds = {}) {
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.env = {"PATH=/usr/bin:/bin"};
  options.fds = std::move(fds);
  return spawn(options);
}

TEST(Process, NamesOfSignals) {
  for (const auto& [name, number] :
       std::initializer_list<std::pair<const char*, int>>{{"SIGQUIT", SIGQUIT},
                                                          {"quit", SIGQUIT},
                                                          {"3", 3},
                                                          {"TERM", SIGTERM},
                                                          {"SIGWINCH", SIGWINCH},
                                                          {"SIGRTMIN", SIGRTMIN},
                                                          {"SIGRTMIN+3", SIGRTMIN + 3},
                                                          {"RTMAX-1", SIGRTMAX - 1},
                                                          {"64", 64}})
    EXPECT_EQ(signal_number(name), number) << name;
  for (const char* name :
       {"", "0", "65", "-1", "SIG", "SIGSIGQUIT", "SIGNONE", "QUIT ", "SIGRTMIN-1", "SIGRTMIN+",
        "SIGRTMIN+99", "RTMAX+1", "SIGRTMIN+3x", "18446744073709551619"})
    EXPECT_EQ(signal_number(name), std::nullopt) << name;
}

TEST(Process, ReportsExitCodeAndSignal) {
  EXPECT_EQ(shell("exit 3").wait(), (ExitStatus{3, 0}));
  const auto killed = shell("kill -TERM $$").wait();
  EXPECT_EQ(killed, (ExitStatus{0, SIGTERM}));
  EXPECT_EQ(killed->text(), "killed by SIGTERM");
}

TEST(Process, ThrowsWhenTheProgramCannotBeStarted) {
  SpawnOptions options;
  options.argv = {"/nonexistent/program"};
  try {
    spawn(options);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.message(), "starting /nonexistent/program: No such file or directory");
  }
}

TEST(Process, RunsAProgramInMemoryThatNobodyCanChange) {
  const Bytes shell_bytes = read_file("/bin/sh", 4 << 20);
  const Fd program = memory_program("a-shell", shell_bytes);
  auto [ours, theirs] = socket_pair(SocketType::Stream);
  SpawnOptions options;
  options.argv = {"its-name", "-c", "echo $0 >&5; readlink /proc/$$/exe >&5"};
  options.env = {"PATH=/usr/bin:/bin"};
  options.program = program.get();
  options.fds = {{theirs.get(), 5}};
  Child child = spawn(options);
  theirs.reset();
  std::string said;
  std::array<std::byte, 256> piece;
  while (const size_t got = read_some(ours.get(), piece).value_or(0))
    said += as_text(ByteView(piece).first(got));
  EXPECT_EQ(said, "its-name\n/memfd:a-shell (deleted)\n");
  EXPECT_EQ(child.wait(), (ExitStatus{0, 0}));

  EXPECT_EQ(::pwrite(program.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(program.get(), 0), -1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, program.get(), 0),
            MAP_FAILED);
}

TEST(Process, WaitStopsAtItsTimeLimitAndCanBeTakenUpAgain) {
  auto [ours, theirs] = socket_pair(SocketType::Stream);
  Child child = shell("read line <&5; exit 4", {{theirs.get(), 5}});
  theirs.reset();
  EXPECT_FALSE(child.wait(std::chrono::milliseconds(1)));
  write_all(ours.get(), as_bytes("go\n"));
  EXPECT_EQ(child.wait(), (ExitStatus{4, 0}));
}

TEST(Process, PassesJustTheDescriptorsAskedFor) {
  auto [ours, theirs] = socket_pair(SocketType::Stream);
  // Swapped numbers: each target is the other's source.
  const Fd first(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, 20));
  Child child = shell("ls /proc/self/fd | tr '\\n' ' ' >&3; echo >&3", {{first.get(), 3}});
  theirs.reset();
  child.wait();
  std::array<std::byte, 100> buffer{};
  const auto got = read_some(ours.get(), buffer);
  ASSERT_TRUE(got);
  // 0 to 2 are inherited, 3 is passed, 4 is ls's own directory.
  EXPECT_EQ(as_text(std::span(buffer).first(*got)).substr(0, 9), "0 1 2 3 4");
}

TEST(Process, PidfdBecomesReadableAtTheEnd) {
  Child child = shell("exit 0");
  pollfd entry{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 30'000), 1);
  EXPECT_EQ(child.wait(), (ExitStatus{0, 0}));
}

TEST(Process, StartTimeTellsALivingProcessAndNothingForADeadOne) {
  const auto mine = process_start_time(::getpid());
  ASSERT_TRUE(mine);
  EXPECT_EQ(process_start_time(::getpid()), mine);
  Child child = shell("exit 0");
  const pid_t pid = child.pid();
  child.wait();
  EXPECT_FALSE(process_start_time(pid));
  EXPECT_FALSE(open_process(pid));
}

// Field `name` of /proc/self/status as a program started so sees it.
static std::string status_in(uint64_t namespaces, const std::string& name) {
  auto [ours, theirs] = socket_pair(SocketType::Stream);
  SpawnOptions options;
  options.argv = {"/bin/sh", "-c", "grep " + name + ": /proc/self/status >&5"};
  options.env = {"PATH=/usr/bin:/bin"};
  options.fds = {{theirs.get(), 5}};
  options.namespaces = namespaces;
  Child child = spawn(options);
  theirs.reset();
  child.wait();
  std::array<std::byte, 200> buffer{};
  const auto got = read_some(ours.get(), buffer);
  return std::string(as_text(std::span(buffer).first(got.value_or(0))));
}

TEST(Process, ProgramInAUserNamespaceMayMountThereAndIsTheSameUser) {
  std::string capabilities;
  try {
    capabilities = status_in(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, "CapAmb");
  } catch (const SystemError& error) {
    GTEST_SKIP() << error.message();
  }
  EXPECT_EQ(capabilities, "CapAmb:\t0000000000200100\n");  // CAP_SYS_ADMIN (21), CAP_SETPCAP (8)
  const std::string user = std::to_string(::geteuid());
  EXPECT_EQ(status_in(CLONE_NEWUSER, "Uid"),
            "Uid:\t" + user + "\t" + user + "\t" + user + "\t" + user + "\n");
}

TEST(Process, FirstChildIsFound) {
  EXPECT_FALSE(first_child_of(INT_MAX));
  auto [ours, theirs] = socket_pair(SocketType::Stream);
  Child child = shell("sleep 1000 & echo $! >&5; read line <&5; kill $!", {{theirs.get(), 5}});
  theirs.reset();
  std::array<std::byte, 20> buffer{};
  const auto got = read_some(ours.get(), buffer);
  ASSERT_TRUE(got);
  const auto pid = first_child_of(child.pid());
  ASSERT_TRUE(pid);
  EXPECT_EQ(std::to_string(*pid) + "\n", as_text(std::span(buffer).first(*got)));
  write_all(ours.get(), as_bytes("go\n"));
  child.wait();
}

}
