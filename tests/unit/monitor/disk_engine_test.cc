// What an engine does with a file, the same for each kind.

#include "../../../src/monitor/disk_engine.h"

#include <array>
#include <map>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::monitor {

using virtio::Block;
using virtio::BlockOperation;
using virtio::BlockResult;
using virtio::BlockVerb;

class DiskEngineTest : public testing::TestWithParam<EngineKind> {
 protected:
  // False, and the test skipped, where this host has no such engine.
  bool open(const std::string& path, int flags = O_RDWR | O_CREAT) {
    try {
      engine = make_disk_engine(GetParam(), sys::open_file(path, flags));
    } catch (const SystemError& error) {
      skipped = error.message();
      return false;
    }
    engine->start_threads({[] {}, [](const std::string& why) { FAIL() << why; }});
    return true;
  }
  std::string disk() const { return dir.path() + "/disk"; }

  // The answers to everything that was submitted, by tag.
  std::map<uint16_t, BlockResult> answers(size_t count) {
    EXPECT_TRUE(engine->commit());
    std::map<uint16_t, BlockResult> out;
    std::array<DiskAnswer, Block::kMaxInFlight> taken;
    while (out.size() < count) {
      const size_t got = engine->take_answers(taken);
      for (const DiskAnswer& answer : std::span(taken).first(got))
        EXPECT_TRUE(out.emplace(answer.tag, answer.result).second) << "answered twice";
      EXPECT_TRUE(engine->commit());
      if (got > 0) continue;
      pollfd entry{engine->event_fd(), POLLIN, 0};
      if (::poll(&entry, 1, 20'000) != 1) {
        ADD_FAILURE() << "no answer";
        break;
      }
    }
    return out;
  }
  BlockResult run(BlockVerb verb, uint64_t offset, std::vector<iovec> segments,
                  uint64_t length = 0) {
    for (const iovec& segment : segments) length += segment.iov_len;
    engine->submit({verb, 5, offset, length, segments});
    return answers(1).at(5);
  }
  static iovec segment(std::string& text) { return {text.data(), text.size()}; }
  uint64_t allocated() const {
    struct stat now{};
    ::stat(disk().c_str(), &now);
    return static_cast<uint64_t>(now.st_blocks) * 512;
  }

  const sys::TempDir dir;
  std::unique_ptr<DiskEngine> engine;
  std::string skipped;
};

#define OPEN_OR_SKIP(...) \
  if (!open(__VA_ARGS__)) GTEST_SKIP() << skipped

TEST_P(DiskEngineTest, MovesSegmentsBothWays) {
  OPEN_OR_SKIP(disk());
  std::string a = "hello ", b = "world";
  EXPECT_EQ(run(BlockVerb::Write, 3, {segment(a), segment(b)}), BlockResult::Ok);
  EXPECT_EQ(run(BlockVerb::Flush, 0, {}), BlockResult::Ok);
  std::string c(2, 0), d(9, 0);
  EXPECT_EQ(run(BlockVerb::Read, 3, {segment(c), segment(d)}), BlockResult::Ok);
  EXPECT_EQ(c + d, "hello world");
  std::string e(5, 0);
  EXPECT_EQ(run(BlockVerb::Read, 9, {segment(e)}), BlockResult::Ok);
  EXPECT_EQ(e, "world");
}

TEST_P(DiskEngineTest, AsManyAtATimeAsThereAreTags) {
  OPEN_OR_SKIP(disk());
  std::vector<std::string> texts;
  for (uint16_t tag = 0; tag < Block::kMaxInFlight; ++tag)
    texts.emplace_back(4096, static_cast<char>('a' + tag % 26));
  std::vector<iovec> segments;
  for (std::string& text : texts) segments.push_back(segment(text));
  for (const BlockVerb verb : {BlockVerb::Write, BlockVerb::Read}) {
    for (uint16_t tag = 0; tag < Block::kMaxInFlight; ++tag)
      engine->submit({verb, tag, tag * 4096U, 4096, std::span(segments).subspan(tag, 1)});
    for (const auto& [tag, result] : answers(Block::kMaxInFlight))
      EXPECT_EQ(result, BlockResult::Ok) << tag;
    for (size_t tag = 0; tag < texts.size(); ++tag) {
      EXPECT_EQ(texts[tag], std::string(4096, static_cast<char>('a' + tag % 26)));
      texts[tag].assign(4096, '-');
      segments[tag] = segment(texts[tag]);
    }
  }
}

TEST_P(DiskEngineTest, FailsAtTheEndOfAFileThatShrank) {
  OPEN_OR_SKIP(disk());
  std::string text = "12345";
  EXPECT_EQ(run(BlockVerb::Write, 0, {segment(text)}), BlockResult::Ok);
  std::string more(6, 0);
  EXPECT_EQ(run(BlockVerb::Read, 0, {segment(more)}), BlockResult::Failed);
  EXPECT_EQ(run(BlockVerb::Read, 100, {segment(more)}), BlockResult::Failed);
  std::string half(3, 0), rest(3, 0);
  EXPECT_EQ(run(BlockVerb::Read, 0, {segment(half), segment(rest)}), BlockResult::Failed);
}

// What cannot be made durable must not be called so: here a device that has no medium to sync.
TEST_P(DiskEngineTest, AFlushIsTheFilesOwnSync) {
  OPEN_OR_SKIP("/dev/full", O_RDWR);
  EXPECT_EQ(run(BlockVerb::Flush, 0, {}), BlockResult::Failed);
}

TEST_P(DiskEngineTest, FailsToChangeAFileOpenedForReading) {
  sys::write_file_atomic(disk(), as_bytes("12345"));
  OPEN_OR_SKIP(disk(), O_RDONLY);
  std::string text = "x";
  EXPECT_EQ(run(BlockVerb::Write, 0, {segment(text)}), BlockResult::Failed);
  EXPECT_EQ(run(BlockVerb::Discard, 0, {}, 4096), BlockResult::Failed);
  EXPECT_EQ(run(BlockVerb::Zero, 0, {}, 4096), BlockResult::Failed);
  EXPECT_EQ(sys::read_text_file(disk(), 10), "12345");
}

TEST_P(DiskEngineTest, ReportsAFullDisk) {
  OPEN_OR_SKIP("/dev/full", O_RDWR);
  std::string text = "x";
  EXPECT_EQ(run(BlockVerb::Write, 0, {segment(text)}), BlockResult::Failed);
}

TEST_P(DiskEngineTest, ReportsAFileThatMayNotGrow) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const bool opened = open(disk());
  std::string text(8192, 'x');
  BlockResult first{}, whole{};
  if (opened) {
    first = run(BlockVerb::Write, 4096, {segment(text)});
    whole = run(BlockVerb::Write, 0, {segment(text)});  // the first half of it fits
  }
  engine.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  if (!opened) GTEST_SKIP() << skipped;
  EXPECT_EQ(first, BlockResult::Failed);
  EXPECT_EQ(whole, BlockResult::Failed);
}

TEST_P(DiskEngineTest, DiscardingGivesSpaceBackAndZeroingKeepsIt) {
  OPEN_OR_SKIP(disk());
  const sys::Fd file = sys::open_file(disk(), O_RDWR);
  if (!can_make_holes(file.get())) GTEST_SKIP() << "no holes in " << dir.path();
  std::string text(1 << 20, 'x');
  EXPECT_EQ(run(BlockVerb::Write, 0, {segment(text)}), BlockResult::Ok);
  EXPECT_EQ(run(BlockVerb::Flush, 0, {}), BlockResult::Ok);
  const uint64_t before = allocated();
  EXPECT_GE(before, text.size());

  EXPECT_EQ(run(BlockVerb::Zero, 0, {}, 256 << 10), BlockResult::Ok);
  EXPECT_EQ(run(BlockVerb::Discard, 512 << 10, {}, 512 << 10), BlockResult::Ok);
  EXPECT_EQ(run(BlockVerb::Flush, 0, {}), BlockResult::Ok);
  EXPECT_LE(allocated(), before - (512 << 10));
  struct stat now{};
  ASSERT_EQ(::stat(disk().c_str(), &now), 0);
  EXPECT_EQ(now.st_size, 1 << 20) << "the disk keeps its size";
  std::string back(1 << 20, '-');
  EXPECT_EQ(run(BlockVerb::Read, 0, {segment(back)}), BlockResult::Ok);
  EXPECT_EQ(back,
            std::string(256 << 10, 0) + std::string(256 << 10, 'x') + std::string(512 << 10, 0));
}

TEST_P(DiskEngineTest, AfterADrainNothingIsTouchedAndNothingAnswered) {
  OPEN_OR_SKIP(disk());
  std::string text(1 << 20, 'x');
  EXPECT_EQ(run(BlockVerb::Write, 0, {segment(text)}), BlockResult::Ok);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> texts(32, std::string(1 << 15, '-'));
    std::vector<iovec> segments;
    for (std::string& each : texts) segments.push_back(segment(each));
    for (uint16_t tag = 0; tag < 32; ++tag)
      engine->submit(
          {BlockVerb::Read, tag, tag * 32768U, 32768, std::span(segments).subspan(tag, 1)});
    if (round % 2 == 0) {
      EXPECT_TRUE(engine->commit());
    }
    engine->drain();
    texts.clear();  // the address sanitizer sees whoever still writes there
    std::array<DiskAnswer, Block::kMaxInFlight> taken;
    EXPECT_EQ(engine->take_answers(taken), 0U);
  }
  std::string after(5, 0);
  EXPECT_EQ(run(BlockVerb::Read, 0, {segment(after)}), BlockResult::Ok) << "and goes on working";
  EXPECT_EQ(after, "xxxxx");
}

TEST_P(DiskEngineTest, EndsWithRequestsUnderWay) {
  OPEN_OR_SKIP(disk());
  std::string text(1 << 20, 'x');
  std::vector<iovec> segments{segment(text)};
  engine->submit({BlockVerb::Write, 0, 0, text.size(), segments});
  engine->submit({BlockVerb::Flush, 1});
  EXPECT_TRUE(engine->commit());
  engine.reset();
}

INSTANTIATE_TEST_SUITE_P(, DiskEngineTest,
                         testing::Values(EngineKind::IoUring, EngineKind::Workers),
                         [](const auto& kind) {
                           return kind.param == EngineKind::IoUring ? "IoUring" : "Workers";
                         });

TEST(DropFront, ForgetsWhatHasMoved) {
  std::array<char, 8> bytes{};
  std::array<iovec, 3> list{{{&bytes[0], 2}, {&bytes[2], 4}, {&bytes[6], 2}}};
  std::span<iovec> segments(list);
  drop_front(segments, 3);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].iov_base, &bytes[3]);
  EXPECT_EQ(segments[0].iov_len, 3U);
  drop_front(segments, 3);
  EXPECT_EQ(segments.size(), 1U);
  drop_front(segments, 2);
  EXPECT_TRUE(segments.empty());
}

}
