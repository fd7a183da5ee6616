// A process that meters is killed before and behind every one of the calls that leave something
// behind, and begun again: no request that has left is lost, and nothing is counted twice.
#include <array>
#include <csignal>
#include <functional>
#include <set>
#include <string>

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/meter/journal.h"
#include "mvm/metering/filter.h"
#include "mvm/metering/journal_file.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::metering {
namespace {

constexpr int kExchanges = 3;
constexpr uint64_t kTokens = 7;
constexpr std::string_view kBody = R"({"model":"gpt-4o","max_tokens":400})";
constexpr std::string_view kAnswer =
    R"({"model":"gpt-4o","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}})";
constexpr uint64_t kMost = kBody.size() + 400;

// What is seen of the process: 'l', a request leaves; 'e', its exchange has ended.
struct Run {
  size_t left = 0;
  size_t ended = 0;
  bool whole = false;  // it came to its end before it was to be killed
};

void must(bool good) {
  if (!good) ::_exit(3);
}

void exchange(MeterSource& source, uint64_t index, const std::function<void(char)>& tell) {
  const auto filter = source.begin({1, index, "api.openai.com", 443, true});
  egress::BodyUse use = egress::BodyUse::Ignore;
  http::RequestHead head{"POST", "/v1/chat/completions", 1, {}, {}};
  head.framing = {http::BodyKind::Length, kBody.size()};
  must(!filter->request_head(head, use));
  Bytes out;
  // What is only watched is given when it has passed.
  if (use == egress::BodyUse::Watch) tell('l');
  must(!filter->request_body(as_bytes(kBody), true, out));
  if (use != egress::BodyUse::Watch) tell('l');
  filter->request_left();
  http::ResponseHead answer{200, "OK", 1, {{"Content-Type", "application/json"}}, {}};
  must(!filter->response_head(answer, use));
  must(!filter->response_body(as_bytes(kAnswer), true, out));
  filter->ended(true);
  tell('e');
}

// All that it does to the journal, from reading what the one before it left.
[[noreturn]] void meter(int directory, const meter::Terms& terms, int out) {
  const auto tell = [out](char step) { must(::write(out, &step, 1) == 1); };
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  JournalFile file(directory);
  meter::Ledger ledger(terms, file.take_account(),
                       [&](const meter::Record& record, const meter::Account& before) {
                         return file.keep(record, before);
                       });
  MeterSource source(meter::Catalogue(), false, ledger);
  for (uint64_t i = 0; i < kExchanges; ++i) exchange(source, i, tell);
  ::_exit(0);
}

// The calls that leave something behind.
bool matters(uint64_t call) {
  static const std::set<uint64_t> calls{SYS_write,     SYS_pwrite64, SYS_openat,   SYS_unlinkat,
                                        SYS_fdatasync, SYS_renameat, SYS_renameat2};
  return calls.contains(call);
}

// Kills it at the `stop`th beginning or end of such a call.
Run killed_at(size_t stop, int directory, const meter::Terms& terms) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) meter(directory, terms, pipe[1]);
  ::close(pipe[1]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  Run run;
  bool ours = false;  // the call that it is in
  for (size_t seen = 0; WIFSTOPPED(status);) {
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) ours = matters(info.entry.nr);
      if (ours && seen++ == stop) ::kill(child, SIGKILL);
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
  }
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << status;
  run.whole = WIFEXITED(status);
  char step = 0;
  while (::read(pipe[0], &step, 1) == 1) ++(step == 'l' ? run.left : run.ended);
  ::close(pipe[0]);
  return run;
}

// What one that was killed in the middle of a request has left; `large`: it is about to be written
// anew.
Bytes journal_before(bool large) {
  Bytes all = meter::encode_journal({});
  const auto add = [&all](const meter::Record& record) {
    const Bytes one = meter::encode_record(record);
    all.insert(all.end(), one.begin(), one.end());
  };
  meter::Record begun;
  begun.id = 1;
  begun.bounds = {5, 0};
  add(begun);
  // Ends of what never began change nothing; the third of the records to come finds no room.
  meter::Record filler;
  filler.kind = meter::RecordKind::End;
  filler.model = std::string(meter::kMaxModel, 'm');
  const size_t each = meter::encode_record(filler).size();
  while (large && all.size() + each + 200 < meter::kJournalTurn) add(filler);
  return all;
}

// The account as whoever comes next has it.
meter::Account begun_again(int directory, const meter::Terms& terms) {
  JournalFile file(directory);
  const meter::Ledger ledger(terms, file.take_account(),
                             [&](const meter::Record& record, const meter::Account& before) {
                               return file.keep(record, before);
                             });
  return ledger.account();
}

size_t killed_everywhere(const meter::Terms& terms, bool large) {
  const Bytes before = journal_before(large);
  size_t kills = 0;
  for (bool whole = false; !whole; ++kills) {
    const sys::TempDir folder;
    const sys::Fd directory = sys::open_file(folder.path(), O_PATH | O_DIRECTORY);
    sys::write_all(sys::open_at(directory.get(), kJournalName, O_WRONLY | O_CREAT).get(), before);
    const Run run = killed_at(kills, directory.get(), terms);
    whole = run.whole;
    const meter::Account now = begun_again(directory.get(), terms);
    const meter::Counts sum = now.sum();
    const std::string where = "killed at " + std::to_string(kills);
    // All that left is there, and at most one that was about to; and the one from before.
    const uint64_t requests = now.spent.requests - 1;
    EXPECT_GE(requests, run.left) << where;
    EXPECT_LE(requests, run.left + 1) << where;
    // Each has ended once.
    EXPECT_TRUE(now.open.empty()) << where;
    EXPECT_EQ(sum.requests, requests + 1) << where;
    const uint64_t reported = sum.total / kTokens;
    EXPECT_EQ(sum.total, reported * kTokens) << where;
    EXPECT_GE(reported, run.ended) << where;
    EXPECT_LE(reported, run.ended + 1) << where;
    EXPECT_EQ(sum.unknown, requests + 1 - reported) << where;
    // What is unknown is charged the most that it can have been, where it is charged.
    const uint64_t least = terms.on_unknown == meter::OnUnknown::Estimate ? 5 : 0;
    const uint64_t most = terms.on_unknown == meter::OnUnknown::Estimate ? kMost : 0;
    if (run.left > reported) {
      EXPECT_EQ(sum.estimated, least + most) << where;
    } else {
      EXPECT_LE(sum.estimated, least + most) << where;
      EXPECT_GE(sum.estimated, least) << where;
    }
    EXPECT_EQ(now.spent.total, sum.total + sum.estimated) << where;
    // And whoever comes after that finds the same.
    EXPECT_EQ(begun_again(directory.get(), terms), now) << where;
    if (::testing::Test::HasFailure()) break;
  }
  return kills;
}

TEST(Killed, BetweenAnyTwoStepsNothingIsLostOrCountedTwice) {
  // Where nothing depends on a request's bounds they are put down when it has left, else before.
  const std::array<meter::Terms, 2> all{meter::Terms{},
                                        meter::Terms{.budget = {.total_tokens = 100'000},
                                                     .on_unknown = meter::OnUnknown::Estimate,
                                                     .reserve = true}};
  for (const meter::Terms& terms : all) {
    // Each request has three records, and two of the test's own writes.
    const size_t plain = killed_everywhere(terms, false);
    EXPECT_GE(plain, size_t{kExchanges * 5 * 2});
    // A new file is unlinked, opened, written, synced and renamed besides.
    EXPECT_GE(killed_everywhere(terms, true), plain + size_t{4 * 2});
  }
}

}
}
