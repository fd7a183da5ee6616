// Writers with real files, threads and processes.
#include "mvm/audit/writer.h"

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "sample.h"

namespace mvm::audit {
namespace {

class AuditWriter : public testing::Test {
 protected:
  Verdict verdict(std::optional<Head> known = std::nullopt) {
    return verify_log(folder_.path(), LogId("sb-test"), key_of('d').public_key(), known);
  }
  sys::TempDir folder_;
};

TEST_F(AuditWriter, LeavesALogThatVerifiesAtAnyTime) {
  Writer writer(session_in(folder_.path()), {}, no_failure());
  for (int i = 0; i < 50; ++i) {
    append(writer, connect_to("a.example"));
    ASSERT_EQ(told(verdict(writer.head())), "fine");
  }
  close(writer);
  const Verdict after = verdict(writer.head());
  EXPECT_TRUE(after.closed);
  EXPECT_EQ(after.records, 52U);
}

TEST_F(AuditWriter, SetsACheckpointEachSoManyRecords) {
  WriterOptions options;
  options.checkpoint_records = 10;
  std::vector<std::string> signed_lines;
  Writer writer(session_in(folder_.path()), options, no_failure(),
                [&](std::string_view line) { signed_lines.emplace_back(line); });
  for (int i = 0; i < 35; ++i) append(writer, connect_to("a.example"));
  EXPECT_EQ(signed_lines.size(), 3U);
  EXPECT_EQ(verdict().unsigned_records, 5U);
  close(writer);
  EXPECT_EQ(signed_lines.size(), 4U);
  EXPECT_EQ(verdict().unsigned_records, 0U);
}

TEST_F(AuditWriter, BeginsANewFileAtItsSizeAndKeepsTheChain) {
  WriterOptions options;
  options.max_file = 4096;
  Writer writer(session_in(folder_.path()), options, no_failure());
  for (int i = 0; i < 100; ++i) append(writer, connect_to("a.example"));
  close(writer);
  EXPECT_GT(file_numbers(folder_.path()).size(), 5U);
  EXPECT_EQ(told(verdict(writer.head())), "fine");
  for (const File& file : read_files(folder_.path()))
    EXPECT_LE(text_of(file).size(), options.max_file + 1024);
}

TEST_F(AuditWriter, StopsAtTheLimitOfTheLogAndSaysSo) {
  WriterOptions options;
  options.max_log = 4096;
  std::string why;
  Writer writer(session_in(folder_.path()), options,
                [&](const std::optional<Failure>& failure) { why = failure ? failure->why : ""; });
  size_t recorded = 0;
  while (writer.append(connect_to("a.example"))) ASSERT_LT(++recorded, 100U);
  EXPECT_THAT(why, testing::HasSubstr("limit of 4 KiB"));
  EXPECT_FALSE(writer.append(connect_to("a.example")));
  EXPECT_EQ(told(verdict(writer.head())), "fine");
}

TEST_F(AuditWriter, TakesEventsOfManyThreads) {
  WriterOptions options;
  options.max_file = 32 * 1024;
  options.checkpoint_records = 64;
  Writer writer(session_in(folder_.path()), options, no_failure());
  writer.start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int at = 0; at < 200; ++at) append(writer, connect_to("a.example"));
    });
  for (std::thread& each : threads) each.join();
  close(writer);
  EXPECT_EQ(told(verdict(writer.head())), "fine");
  EXPECT_GE(verdict().records, 802U);
}

TEST_F(AuditWriter, CallsBackOnceEachWhenTheDiskHasIt) {
  WriterOptions options;
  options.sync = Sync::Strict;
  std::atomic<int> done = 0;
  {
    Writer writer(session_in(folder_.path()), options, no_failure());
    writer.start();
    for (int i = 0; i < 100; ++i)
      writer.append(connect_to("a.example"), [&](const Outcome& outcome) {
        EXPECT_TRUE(outcome);
        ++done;
      });
    append(writer, connect_to("b.example"));  // waits for the disk, and so for those before
    close(writer);
  }
  EXPECT_EQ(done, 100);
  EXPECT_EQ(told(verdict()), "fine");
}

TEST_F(AuditWriter, ConfinesItsThreadFirst) {
  std::atomic<bool> confined = false;
  WriterOptions options;
  options.sync = Sync::Strict;
  Writer writer(session_in(folder_.path()), options, no_failure());
  writer.start([&] { confined = true; });
  append(writer, connect_to("a.example"));
  EXPECT_TRUE(confined);
}

TEST_F(AuditWriter, RecordsNothingOnceClosed) {
  Writer writer(session_in(folder_.path()), {}, [](const auto&) {});
  close(writer);
  EXPECT_FALSE(writer.append(connect_to("a.example")));
  EXPECT_FALSE(writer.close());
  EXPECT_TRUE(verdict(writer.head()).closed);
}

// ---- reopening

TEST_F(AuditWriter, GoesOnAfterOneThatWasKilled) {
  {
    Writer writer(session_in(folder_.path()), {}, no_failure());
    append(writer, connect_to("a.example"));
  }
  const std::string file = folder_.path() + "/" + file_name(1);
  sys::write_all(sys::open_file(file, O_WRONLY | O_APPEND).get(), as_bytes("{\"v\":1,\"seq\":3,"));
  EXPECT_EQ(verdict().open_end, 15U);
  {
    Writer writer(session_in(folder_.path(), 'l'), {}, no_failure());
    append(writer, connect_to("b.example"));
    close(writer);
  }
  const Verdict after = verdict();
  EXPECT_EQ(told(after), "fine");
  EXPECT_EQ(after.torn_bytes, 15U);
  EXPECT_EQ(after.files, 2U);
  EXPECT_TRUE(after.closed);
  // What was kept aside cannot be changed either.
  sys::write_all(sys::open_file(file, O_WRONLY | O_APPEND).get(), as_bytes("x"));
  EXPECT_THAT(told(verdict()), testing::StartsWith("edited 000002.jsonl:1 "));
}

TEST_F(AuditWriter, GoesOnAfterFilesWithoutARecord) {
  {
    Writer writer(session_in(folder_.path()), {}, no_failure());
  }
  sys::write_file_atomic(folder_.path() + "/" + file_name(2), {});
  sys::write_file_atomic(folder_.path() + "/" + file_name(3), as_bytes("{\"v\""));
  Writer writer(session_in(folder_.path()), {}, no_failure());
  close(writer);
  EXPECT_EQ(told(verdict(writer.head())), "fine");
  EXPECT_EQ(verdict().torn_bytes, 4U);
}

TEST_F(AuditWriter, SealsTheLogOfAWriterThatIsGone) {
  Head left;
  {
    Writer writer(session_in(folder_.path()), {}, no_failure());
    append(writer, connect_to("a.example"));
    left = writer.head();
  }
  const auto sealed = seal(folder_.path(), LogId("sb-test"), key_of('d'));
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->seq, left.seq + 2);
  EXPECT_TRUE(verdict(sealed).closed);
  EXPECT_EQ(seal(folder_.path(), LogId("sb-test"), key_of('d')), sealed);
}

TEST_F(AuditWriter, SealsNothingWhereThereIsNoLog) {
  EXPECT_FALSE(seal(folder_.path() + "/none", LogId("sb-test"), key_of('d')));
}

// ---- a disk that lets it down, in a process of its own

TEST_F(AuditWriter, SaysThatADiskIsFullAndGoesOnWhenItIsNot) {
  const int status = in_child([&] {
    std::vector<std::string> news;
    WriterOptions options;
    options.retry = std::chrono::milliseconds(0);
    Writer writer(session_in(folder_.path()), options, [&](const std::optional<Failure>& failure) {
      news.push_back(failure ? failure->why : "works");
    });
    limit_files_to(2'000);  // in the middle of a record
    int refused = 0;
    for (int i = 0; i < 20; ++i)
      if (!writer.append(connect_to("a.example"))) ++refused;
    EXPECT_GT(refused, 0);
    EXPECT_THAT(news.at(0), testing::HasSubstr("File too large"));
    limit_files_to(RLIM_INFINITY);
    append(writer, connect_to("b.example"));
    EXPECT_EQ(news.back(), "works");
    close(writer);
  });
  EXPECT_EQ(status, 0);
  const Verdict after = verdict();
  EXPECT_EQ(told(after), "fine");
  EXPECT_TRUE(after.closed);
  EXPECT_GT(after.torn_bytes, 0U);
  EXPECT_GT(after.missed, 0U);
}

// What has happened is recorded when the disk works again, in its order and in front of what comes
// then, with the time at which it happened; nothing is missed but what was refused.
TEST_F(AuditWriter, HoldsWhatHasHappenedUntilTheDiskWorks) {
  const int status = in_child([&] {
    WriterOptions options;
    options.retry = std::chrono::milliseconds(0);
    Writer writer(session_in(folder_.path()), options, [](const auto&) {});
    append(writer, connect_to("a.example"));
    limit_files_to(1);
    for (uint64_t flow = 1; flow <= 3; ++flow) EXPECT_FALSE(writer.note(end_of(flow)));
    EXPECT_FALSE(writer.append(connect_to("refused.example")));
    EXPECT_FALSE(writer.note(end_of(4)));
    limit_files_to(RLIM_INFINITY);
    append(writer, connect_to("b.example"));
    EXPECT_TRUE(writer.note(end_of(5)));
    close(writer);
  });
  EXPECT_EQ(status, 0);
  const Verdict after = verdict();
  EXPECT_EQ(told(after), "fine");
  EXPECT_TRUE(after.closed);
  EXPECT_EQ(after.missed, 1U);
  EXPECT_THAT(
      kinds_in(folder_.path()),
      testing::ElementsAre("open 0", "connect 7", "checkpoint 0", "flow_ended 1", "flow_ended 2",
                           "flow_ended 3", "flow_ended 4", "connect 7", "flow_ended 5", "close 0"));
}

TEST_F(AuditWriter, RecordsWhatItHoldsWhenItIsAskedToTryAgainOrToClose) {
  for (const bool retry : {true, false}) {
    sys::TempDir folder;
    const int status = in_child([&] {
      WriterOptions options;
      options.retry = retry ? std::chrono::milliseconds(0) : std::chrono::hours(1);
      Writer writer(session_in(folder.path()), options, [](const auto&) {});
      limit_files_to(1);
      EXPECT_FALSE(writer.note(end_of(1)));
      writer.retry();
      limit_files_to(RLIM_INFINITY);
      if (retry)
        writer.retry();
      else
        close(writer);
    });
    EXPECT_EQ(status, 0);
    EXPECT_THAT(kinds_in(folder.path()), testing::Contains("flow_ended 1"));
  }
}

TEST_F(AuditWriter, CountsWhatItCannotHold) {
  const int status = in_child([&] {
    WriterOptions options;
    options.retry = std::chrono::milliseconds(0);
    options.max_held = 10;
    Writer writer(session_in(folder_.path()), options, [](const auto&) {});
    limit_files_to(1);
    for (uint64_t flow = 1; flow <= 25; ++flow) EXPECT_FALSE(writer.note(end_of(flow)));
    limit_files_to(RLIM_INFINITY);
    close(writer);
  });
  EXPECT_EQ(status, 0);
  const Verdict after = verdict();
  EXPECT_EQ(told(after), "fine");
  EXPECT_EQ(after.missed, 15U);
  EXPECT_EQ(std::ranges::count_if(kinds_in(folder_.path()),
                                  [](const auto& kind) { return kind.starts_with("flow_ended"); }),
            10);
}

TEST_F(AuditWriter, CountsWhatItHeldWhenTheLogIsAtItsEnd) {
  const int status = in_child([&] {
    WriterOptions options;
    options.retry = std::chrono::milliseconds(0);
    options.max_log = 4'096;
    Writer writer(session_in(folder_.path()), options, [](const auto&) {});
    limit_files_to(1);
    for (uint64_t flow = 1; flow <= 25; ++flow) EXPECT_FALSE(writer.note(end_of(flow)));
    limit_files_to(RLIM_INFINITY);
    writer.retry();
    EXPECT_FALSE(writer.note(end_of(26)));
    EXPECT_FALSE(writer.close());
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(told(verdict()), "fine");
  const auto kinds = kinds_in(folder_.path());
  EXPECT_EQ(kinds.back().substr(0, 10), "flow_ended");
  EXPECT_LT(kinds.size(), 26U);
}

// Opens the log, and records until it is killed. What it says on `out` was recorded before.
[[noreturn]] void record_for_ever(const std::string& folder, int out) {
  WriterOptions options;
  options.max_file = 20'000;
  options.checkpoint_records = 40;
  Writer writer(session_in(folder), options, [](const auto&) {});
  while (true) {
    if (!writer.append(connect_to("a.example"))) ::_exit(1);
    const uint64_t seq = writer.head().seq;
    if (::write(out, &seq, sizeof seq) != sizeof seq) ::_exit(2);
  }
}

TEST_F(AuditWriter, IsKilledAHundredTimesAndLosesNothing) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const std::string folder = folder_.path() + "/" + std::to_string(round / 5);
    sys::make_directories(folder);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const sys::Fd in(ends[0]);
    sys::Fd out(ends[1]);
    ASSERT_GT(::fcntl(out.get(), F_SETPIPE_SZ, 4096), 0);
    const pid_t child = ::fork();
    if (child == 0) record_for_ever(folder, out.get());
    out.reset();
    uint64_t seq = 0;
    const auto read = [&] {
      return sys::read_exact(in.get(), std::as_writable_bytes(std::span(&seq, 1)));
    };
    for (uint64_t reads = random() % 40; reads != 0; --reads) ASSERT_TRUE(read());
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    while (read()) {
    }
    const Verdict after = verify_log(folder, LogId("sb-test"), key_of('d').public_key());
    ASSERT_EQ(told(after), "fine") << round;
    ASSERT_GE(after.head.seq, seq) << round;
  }
}

}
}
