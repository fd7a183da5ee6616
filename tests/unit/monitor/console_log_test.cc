#include "../../../src/monitor/console_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"

#include "no_holes.h"

namespace mvm::monitor {

static sys::Fd log_file(const sys::TempDir& dir) {
  return sys::open_file(dir.path() + "/log", O_RDWR | O_CREAT);
}

TEST(ConsoleLog, AppendsToWhatIsThere) {
  const sys::TempDir dir;
  sys::write_file_atomic(dir.path() + "/log", as_bytes("first boot\n"));
  ConsoleLog log(log_file(dir));
  log.write(as_bytes("second"));
  log.flush();
  EXPECT_EQ(sys::read_text_file(dir.path() + "/log", 100), "first boot\nsecond");
}

TEST(ConsoleLog, KeepsTheTailAndBoundsTheDiskSpace) {
  const sys::TempDir dir;
  ConsoleLog log(log_file(dir));
  const std::string line = std::string(1023, 'x') + "\n";
  for (int i = 0; i < 16 * 1024; ++i) log.write(as_bytes(line));
  log.write(as_bytes("the end\n"));
  struct stat status{};
  ASSERT_EQ(::stat((dir.path() + "/log").c_str(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), 16U * 1024 * 1024 + 8);
  EXPECT_LE(static_cast<uint64_t>(status.st_blocks) * 512,
            ConsoleLog::kKeep + 2 * ConsoleLog::kStep);
  EXPECT_TRUE(sys::read_text_file(dir.path() + "/log", 32 << 20).ends_with("x\nthe end\n"));
}

TEST(ConsoleLog, IsBoundedWhereSpaceCannotBeGivenBack) {
  const sys::TempDir dir;
  ConsoleLog log(log_file(dir));
  const std::string block = std::string((1 << 20) - 1, 'x') + "\n";
  no_holes = true;
  for (uint64_t i = 0; i < 2 * ConsoleLog::kMost / block.size(); ++i) log.write(as_bytes(block));
  no_holes = false;
  EXPECT_LE(sys::file_size(log_file(dir).get()), ConsoleLog::kMost + (1 << 20));
}

TEST(ConsoleLog, FindsThePanicLineInAnyChunking) {
  const sys::TempDir dir;
  ConsoleLog log(log_file(dir));
  EXPECT_EQ(log.panic_message(), "");
  for (const char c :
       std::string_view("[ 0.5] Kernel panic - not syncing: Attempted to kill init!\n---\n"))
    log.write(as_bytes(std::string_view(&c, 1)));
  EXPECT_EQ(log.panic_message(), "Kernel panic - not syncing: Attempted to kill init!");
}

}
