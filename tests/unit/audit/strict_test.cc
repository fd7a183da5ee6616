// With Sync::Strict a record is on the disk before whoever appended it goes on: seen from outside,
// by the order of the system calls.
#include <csignal>
#include <cstring>
#include <map>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/file.h"

#include "sample.h"

namespace mvm::audit {
namespace {

constexpr int kUses = 5;

// A record, and what was to wait for it, a few times.
[[noreturn]] void use(const std::string& folder, Sync sync, int out, bool thread) {
  WriterOptions options;
  options.sync = sync;
  Writer writer(session_in(folder), options, [](const auto&) { ::_exit(2); });
  ::raise(SIGSTOP);  // from here on every call is seen, also those of the writer's thread
  if (thread) writer.start();
  for (int i = 0; i < kUses; ++i) {
    if (!writer.append(connect_to("a.example"))) ::_exit(3);
    if (::write(out, "u", 1) != 1) ::_exit(4);
  }
  ::_exit(0);
}

// What a thread is in the middle of.
struct Call {
  uint64_t number = 0;
  uint64_t descriptor = 0;
  bool record = false;
};

bool begins_record(pid_t pid, uint64_t address) {
  constexpr std::string_view kBegin = R"({"v":1,)";
  std::array<char, kBegin.size()> text{};
  const iovec here{text.data(), text.size()};
  const iovec there{reinterpret_cast<void*>(address), text.size()};  // NOLINT
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(text.size()) &&
         std::string_view(text.data(), text.size()) == kBegin;
}

// 'w': a record was written; 's': a file was synced; 'u': what waits for a record begins.
std::string order_of(pid_t child, int out) {
  std::string order;
  std::map<pid_t, Call> calls;
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, __WALL), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  while (true) {
    const pid_t pid = ::waitpid(-1, &status, __WALL);
    if (pid < 0) return order + " lost";
    if (pid == child && WIFEXITED(status))
      return WEXITSTATUS(status) == 0 ? order : order + " failed";
    if (!WIFSTOPPED(status)) continue;
    long signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
      Call& call = calls[pid];
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        call = {info.entry.nr, info.entry.args[0], false};
        if (call.number == SYS_write) call.record = begins_record(pid, info.entry.args[1]);
        if (call.number == SYS_write && call.descriptor == static_cast<uint64_t>(out)) order += 'u';
      } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval >= 0) {
        if (call.record) order += 'w';
        if (call.number == SYS_fdatasync || call.number == SYS_fsync) order += 's';
      }
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);
    }
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, signal);
  }
}

std::string order_with(Sync sync, bool thread) {
  const sys::TempDir folder;
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    use(folder.path(), sync, pipe[1], thread);
  }
  const std::string order = order_of(child, pipe[1]);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return order;
}

// Each use comes behind a sync that comes behind its record.
bool each_use_waits(const std::string& order) {
  char before = ' ';
  int uses = 0;
  for (const char step : order) {
    if (step == 'u' && before != 's') return false;
    uses += step == 'u' ? 1 : 0;
    before = step;
  }
  return uses == kUses;
}

TEST(AuditStrict, ARecordIsOnTheDiskBeforeWhatWaitsForItBegins) {
  for (const bool thread : {false, true}) {
    const std::string order = order_with(Sync::Strict, thread);
    EXPECT_TRUE(each_use_waits(order)) << order;
  }
}

TEST(AuditStrict, InNormalModeNothingWaits) {
  const std::string order = order_with(Sync::Normal, false);
  EXPECT_FALSE(each_use_waits(order)) << order;
  EXPECT_NE(order.find("wu"), std::string::npos) << order;
}

}
}
