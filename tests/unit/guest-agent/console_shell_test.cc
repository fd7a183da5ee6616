// A shell on a terminal, which here is the other side of a pseudo terminal.
#include "console_shell.h"

#include <chrono>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace mvm::guest {

class ConsoleShells : public testing::Test {
 protected:
  ConsoleShells() {
    // Its orphans come to us, as to PID 1.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    EXPECT_EQ(::grantpt(master_.get()), 0);
    EXPECT_EQ(::unlockpt(master_.get()), 0);
    EXPECT_EQ(::ptsname_r(master_.get(), name_.data(), name_.size()), 0);
    // Open all the time, as a console is.
    held_ = sys::Fd(::open(name_.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    ::getrlimit(RLIMIT_NOFILE, &commands_.open_files);
    shell_.emplace(commands_, name_.data());
  }
  void type(const std::string& keys) const {
    ASSERT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Until `text` has been printed.
  bool prints(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (printed_.find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      loop_.run_once(std::chrono::milliseconds(10));
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(master_.get(), buffer.data(), buffer.size());
      if (got > 0) printed_.append(buffer.data(), static_cast<size_t>(got));
    }
    return true;
  }

  loop::Loop loop_;
  Reaper reaper_{loop_};
  ProcessTrees trees_{""};
  Commands commands_{loop_, reaper_, trees_, Lingering(loop_), {}, {}, {}};
  sys::Fd master_{::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
  std::array<char, 64> name_{};
  sys::Fd held_;
  std::optional<ConsoleShell> shell_;
  std::string printed_;
};

TEST_F(ConsoleShells, TheFirstLineStartsOneAndIsItsFirstCommand) {
  if (::geteuid() != 0) GTEST_SKIP() << "it is root's";
  type("echo number $((6 * 7))\n");
  EXPECT_TRUE(prints("number 42"));
  type("test -t 0 && echo on a ter''minal\n");
  EXPECT_TRUE(prints("on a terminal"));
}

TEST_F(ConsoleShells, AnotherOneComesAfterTheFirstHasEnded) {
  if (::geteuid() != 0) GTEST_SKIP() << "it is root's";
  // It leaves the terminal without lines and echo, which is not how the next one finds it.
  type("stty raw -echo; kill -9 $$\n");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    loop_.run_once(std::chrono::milliseconds(20));
    if (printed_.find("number 42") != std::string::npos) break;
    // What is typed while there is none may be thrown away with it.
    type("echo number $((6 * 7))\n");
    for (int i = 0; i < 10 && printed_.find("number 42") == std::string::npos; ++i) {
      loop_.run_once(std::chrono::milliseconds(20));
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(master_.get(), buffer.data(), buffer.size());
      if (got > 0) printed_.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  EXPECT_NE(printed_.find("number 42"), std::string::npos) << printed_;
}

TEST(ConsoleShell, IsNothingWhereThereIsNoTerminal) {
  loop::Loop loop;
  Reaper reaper(loop);
  ProcessTrees trees("");
  Commands commands{loop, reaper, trees, Lingering(loop), {}, {}, {}};
  const ConsoleShell shell(commands, "/nowhere/hvc0");
  loop.run_once(std::chrono::milliseconds(0));
}

}
