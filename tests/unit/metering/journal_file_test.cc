// The journal of a process that is killed holds everything it said it had put down, and nothing
// twice.
#include "mvm/metering/journal_file.h"

#include <algorithm>
#include <csignal>
#include <random>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/meter/journal.h"
#include "mvm/meter/ledger.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::metering {
namespace {

using Verdict = meter::ResponseReader::Verdict;

sys::Fd directory_of(const sys::TempDir& directory) {
  return sys::open_file(directory.path(), O_PATH | O_DIRECTORY);
}

meter::Ledger ledger_on(JournalFile& file, meter::Terms terms = {}) {
  return {std::move(terms), file.account(),
          [&file](const meter::Record& record, const meter::Account& before) {
            return file.keep(record, before);
          }};
}

void spend(meter::Ledger& ledger, uint64_t tokens) {
  uint64_t id = 0;
  ASSERT_FALSE(ledger.admit(meter::Provider::OpenAi, {}, id));
  ledger.settle(id, {Verdict::Reported, {.input = tokens, .total = tokens}, "gpt-4o", false});
}

TEST(JournalFile, KeepsTheAccountFromOneProcessToTheNext) {
  const sys::TempDir directory;
  const sys::Fd fd = directory_of(directory);
  EXPECT_FALSE(read_account(directory.path()));
  {
    JournalFile file(fd.get());
    meter::Ledger ledger = ledger_on(file);
    spend(ledger, 10);
    spend(ledger, 20);
  }
  JournalFile file(fd.get());
  EXPECT_EQ(file.account().sum().total, 30U);
  meter::Ledger ledger = ledger_on(file, {.budget = {.total_tokens = 30}});
  uint64_t id = 0;
  EXPECT_TRUE(ledger.admit(meter::Provider::OpenAi, {}, id));
  EXPECT_EQ(read_account(directory.path())->sum().refused, 1U);
}

TEST(JournalFile, IsWrittenAnewBeforeItGrowsLarge) {
  const sys::TempDir directory;
  const sys::Fd fd = directory_of(directory);
  JournalFile file(fd.get());
  meter::Ledger ledger = ledger_on(file);
  for (int i = 0; i < 12'000; ++i) spend(ledger, 1);
  EXPECT_LT(sys::read_file(directory.path() + "/" + kJournalName, meter::kMaxJournal).size(),
            meter::kJournalTurn);
  EXPECT_EQ(*read_account(directory.path()), ledger.account());
  EXPECT_EQ(ledger.account().sum().total, 12'000U);
}

TEST(JournalFile, ATornEndIsNothingAndDoesNotHideWhatFollows) {
  const sys::TempDir directory;
  const sys::Fd fd = directory_of(directory);
  const std::string path = directory.path() + "/" + kJournalName;
  {
    JournalFile file(fd.get());
    meter::Ledger ledger = ledger_on(file);
    spend(ledger, 10);
  }
  const Bytes whole = sys::read_file(path, meter::kMaxJournal);
  for (const size_t cut : {size_t{0}, size_t{4}, whole.size() - 1, whole.size() - 30}) {
    sys::write_file_atomic(path, ByteView(whole).first(cut));
    JournalFile file(fd.get());
    meter::Ledger ledger = ledger_on(file);
    const uint64_t before = ledger.account().sum().total;
    spend(ledger, 5);
    EXPECT_EQ(read_account(directory.path())->sum().total, before + 5) << cut;
  }
}

TEST(JournalFile, ADamagedOneIsAnErrorAndNotAFreshBudget) {
  const sys::TempDir directory;
  sys::write_file_atomic(directory.path() + "/" + kJournalName, as_bytes("no journal at all"));
  EXPECT_THROW(JournalFile(directory_of(directory).get()), Error);
}

// Of a disk that is full, here a limit of the file's size.
TEST(JournalFile, WhatIsNotWrittenIsNotLetOutAndComesBack) {
  const sys::TempDir directory;
  const sys::Fd fd = directory_of(directory);
  JournalFile file(fd.get());
  meter::Ledger ledger = ledger_on(file);
  spend(ledger, 10);
  uint64_t under_way = 0;
  ASSERT_FALSE(ledger.admit(meter::Provider::OpenAi, {}, under_way));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur =
      sys::read_file(directory.path() + "/" + kJournalName, meter::kMaxJournal).size() + 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  ledger.settle(under_way, {Verdict::Reported, {.input = 7, .total = 7}, "gpt-4o", false});
  uint64_t id = 0;
  const auto denial = ledger.admit(meter::Provider::OpenAi, {}, id);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(denial);
  EXPECT_EQ(denial->budget, "journal");
  EXPECT_FALSE(file.why().empty());
  // Half a record is in the file; it goes on without it.
  spend(ledger, 3);
  EXPECT_EQ(read_account(directory.path())->sum().total, 20U);
  EXPECT_EQ(JournalFile(fd.get()).account().sum().total, 20U);
}

// A child lets requests out and settles them, and says so after each step; it is killed at a random
// time, again and again. What it said is in the journal; of what it had not yet said there may be
// one step.
TEST(JournalFile, KilledAtAnyTimeItLosesNothingAndCountsNothingTwice) {
  const sys::TempDir directory;
  const sys::Fd fd = directory_of(directory);
  std::mt19937 random(7);
  meter::Account last;
  uint64_t steps_seen = 0;
  for (int round = 0; round < 60; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      JournalFile file(fd.get());
      meter::Ledger ledger = ledger_on(file);
      // The first step: what was under way is settled.
      for (char step = 'o';; step = step == 'e' ? 'b' : 'e') {
        static uint64_t id = 0;
        if (step == 'b' && ledger.admit(meter::Provider::OpenAi, {}, id)) ::_exit(1);
        if (step == 'e' && id != 0)
          ledger.settle(id, {Verdict::Reported, {.input = 3, .total = 3}, "gpt-4o", false});
        if (::write(pipe[1], &step, 1) != 1) ::_exit(2);
      }
    }
    ::close(pipe[1]);
    // Some steps, then any instant.
    std::string steps;
    const size_t wanted = 1 + random() % 400;
    std::array<char, 64> piece{};
    while (steps.size() < wanted) {
      const ssize_t got = ::read(pipe[0], piece.data(), std::min(piece.size(), wanted));
      ASSERT_GT(got, 0);
      steps.append(piece.data(), static_cast<size_t>(got));
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    for (ssize_t got = 0; (got = ::read(pipe[0], piece.data(), piece.size())) > 0;)
      steps.append(piece.data(), static_cast<size_t>(got));
    ::close(pipe[0]);
    steps_seen += steps.size();

    // The first 'e' of a child settles nothing.
    const auto begun = static_cast<uint64_t>(std::ranges::count(steps, 'b'));
    const auto ends = static_cast<uint64_t>(std::ranges::count(steps, 'e'));
    const uint64_t ended = ends == 0 ? 0 : ends - 1;
    const meter::Account now = read_account(directory.path()).value();
    const uint64_t tokens = now.sum().total - last.sum().total;
    EXPECT_GE(tokens, 3 * ended);
    EXPECT_LE(tokens, 3 * (ended + 1));
    const uint64_t requests = now.spent.requests - last.spent.requests;
    EXPECT_GE(requests, begun);
    EXPECT_LE(requests, begun + 1);
    // Every request is settled, unknown, or under way.
    EXPECT_EQ(now.spent.requests, now.sum().requests + now.open.size());
    EXPECT_LE(now.open.size(), 1U);
    EXPECT_EQ(now.sum().total, 3 * (now.sum().requests - now.sum().unknown));
    last = now;
  }
  EXPECT_GT(steps_seen, 5000U);
}

}
}
